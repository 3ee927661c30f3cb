//! How the bridge touches the network: the only room with sockets, clocks and per-connection tasks.
//!
//! What a message means is decided elsewhere: a [`Reception`] gets each one with a [`Verdict`] that it must return.

mod clock;
mod dialer;
mod link;
mod listener;
mod ping;
mod reception;
mod sessions;
mod stop;

pub use clock::Clock;
pub use dialer::{DialError, Dialed, dial};
pub use link::{Intake, LinkSettings, Reception, Verdict};
pub use listener::{ListenError, Listener};
pub use ping::PingResponder;
pub use reception::{Arrival, Peer};
pub use sessions::{Places, SessionReport, Sessions};
pub use stop::{Stop, StopSwitch};
