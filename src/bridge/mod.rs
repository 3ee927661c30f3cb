//! What happens to a message.
//!
//! In: a [`Desk`] judges what a session brings ([`Admission`]), stores what it admits and tells the session. Out: a
//! forwarder for each route reads the route's queue in order, [`translate`]s and hands over to the connector, and
//! removes what the foreign system has confirmed.

mod admission;
mod backoff;
mod bridging;
mod desk;
mod forward;
mod hosts;
mod in_flight;
mod rejection;
mod routes;
mod state;
mod status;
mod summary;
pub mod translate;

pub use admission::Admission;
pub use bridging::{Bridge, Parts, Readiness, StartError, View};
pub use desk::Desk;
pub use hosts::OwnNames;
pub use rejection::Rejection;
pub use routes::{RouteEntry, RouteTable, RouteTableError};
pub use state::{RouteState, StateBoard};
pub use status::{ConnectorStatus, QueueStatus, RouteStatus, SessionStatus, StatusReport};
