//! What operators see: the log.
//!
//! * [`log`] — events as lines of text or JSON on stderr;
//! * the counters, which the summaries and `status` show.

mod counters;
mod limit;
mod line;
pub mod log;
mod sink;

pub use counters::{Counters, Kind, Refusal, RouteCounters, RouteReading};
