//! What must hold for any input. The fuzz targets are one call each into [`oracles`], [`security`] or [`session`], and the
//! ordinary tests replay the corpora through the same functions.

pub mod oracles;
pub mod security;
pub mod session;

#[path = "../../tests/simulation/packets.rs"]
mod packets;
