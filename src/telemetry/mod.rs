//! What operators see: the log.
//!
//! * [`log`] — events as lines of text or JSON on stderr.

mod limit;
mod line;
pub mod log;
mod sink;
