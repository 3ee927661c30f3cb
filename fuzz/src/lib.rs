//! What must hold for any input. The fuzz targets are one call each into [`oracles`] or [`session`], and the
//! ordinary tests replay the corpora through the same functions.

pub mod oracles;
pub mod session;

#[path = "../../tests/simulation/packets.rs"]
mod packets;
