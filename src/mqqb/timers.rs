//! The timers of MS-MQQB 3.1.2 that concern a session.
