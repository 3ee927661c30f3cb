//! Is it genuine, and what does it contain? Pure functions over bytes: no I/O, no clock, randomness is passed in.
//!
//! * [`PrivateKey`], [`PublicKey`] — the RSA key that senders encrypt for, as PEM and as PUBLICKEYBLOB.

mod blob;
mod keys;

pub use keys::{KeyError, PrivateKey, PublicKey};
