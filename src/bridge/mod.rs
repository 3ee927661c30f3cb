//! What happens to a message.
//!
//! In: a [`Desk`] judges what a session brings ([`Admission`]), stores what it admits and tells the session. Out: a
//! forwarder for each route reads the route's queue in order, [`translate`]s and hands over to the connector, and
//! removes what the foreign system has confirmed.

mod acknowledge;
mod admission;
mod awaited;
mod backoff;
mod bridging;
mod desk;
mod examination;
mod forward;
mod hosts;
mod in_flight;
mod intake;
mod marks;
mod opener;
mod ordinals;
mod outgoing;
mod rejection;
mod removals;
mod replies;
mod resealer;
mod routes;
mod sealer;
mod state;
mod status;
mod summary;
pub mod translate;
mod view;
mod window;

pub use acknowledge::Acknowledger;
pub use admission::Admission;
pub use bridging::{Bridge, Parts, StartError};
pub use desk::Desk;
pub use hosts::OwnNames;
pub use marks::Marks;
pub use opener::Opener;
pub use ordinals::Ordinals;
pub use outgoing::{Outgoing, OutgoingState};
pub use rejection::Rejection;
pub use replies::{OwnQueues, ReplyAddresses};
pub use resealer::Resealer;
pub use routes::{Handling, RouteEntry, RouteTable, RouteTableError};
pub use sealer::{Credentials, Sealer};
pub use state::{RouteState, StateBoard};
pub use status::{
    ConnectorStatus, OutgoingStatus, QueueStatus, ReturnRouteStatus, RouteStatus, SessionStatus, StatusReport,
};
pub use view::{Readiness, View};
