//! How the bridge touches the network: the only room with sockets, clocks and per-connection tasks.
//!
//! What a message means is decided elsewhere: a [`Reception`] gets each one with a [`Verdict`] that it must return.

mod clock;
mod dialer;
mod lane;
mod lanes;
mod link;
mod listener;
mod ping;
mod reception;
mod sessions;
mod stop;
mod verdict;

pub use clock::Clock;
pub use dialer::{DialError, Dialed, dial, resolve};
pub use lane::{Consignment, Lane};
pub use lanes::{Lanes, LanesParts, Located, RetrySchedule, Unreachable};
pub use link::LinkSettings;
pub use listener::{ListenError, Listener};
pub use ping::PingResponder;
pub use reception::{Arrival, Peer};
pub use sessions::{Places, SessionReport, SessionRole, Sessions};
pub use stop::{Stop, StopSwitch};
pub use verdict::{Intake, Reception, Verdict};
