//! Is it genuine, may its sender write here, and what does it contain? Pure functions over bytes: no I/O, no clock,
//! randomness is passed in.
//!
//! * [`Authenticity`] — what the signature of a message proves, [`Owner`] — whose it is, and [`Permit`] — that he may.
//! * [`ClearBody`] — what is in a body: [`SealedBody`] opened with what a [`Keyring`] or a [`KeyCache`] has for it.
//! * [`Signer`] and [`SealingKey`] — the same in the other direction.
//! * [`Jwe`] — the same for receivers that are no queue managers.
//! * [`PrivateKey`], [`PublicKey`], [`Certificate`] — as PEM, as PUBLICKEYBLOB, as X.509.
//!
//! A proof can only be made here: [`Proof`], [`Owner`], [`Permit`], [`ClearBody`] and [`ProvenKey`] have no public
//! constructor but the function that proves them.

mod access;
mod authenticity;
mod certificate;
mod cipher;
mod flight;
mod hash;
mod jwe;
mod key_cache;
mod keyring;
mod keys;
mod opening;
mod owner;
mod provider;
mod public_key_blob;
mod reading;
mod sealing;
mod send_key_cache;
mod signed_fields;
mod signing;
mod simple_blob;

pub use access::{Access, AccessDenied, AccessEntry, AccessList, Groups, Permit, Trustee};
pub use authenticity::{Authenticity, BadSignature, CarriedSignature, Proof, SignaturePolicy};
pub use certificate::{Certificate, CertificateError, UserCertificate};
pub use cipher::{Cipher, KeyForm};
pub use flight::{Flight, Landing};
pub use hash::HashAlgorithm;
pub use jwe::{CannotSealJwe, Jwe, UnopenedJwe};
pub use key_cache::{CacheFigures, CacheLimits, KeyCache, Lookup};
pub use keyring::Keyring;
pub use keys::{KeyError, PrivateKey, PublicKey};
pub use opening::{CipherPolicy, ClearBody, ProvenKey, SealedBody, SealedWith, Unopened, UnwrappedKeys};
pub use owner::{DirectoryAnswer, Owner, WrongOwner};
pub use provider::Provider;
pub use reading::{FormatNameLists, QueueNames, Reading, SignatureVersion};
pub use sealing::{CannotSeal, SealingKey};
pub use send_key_cache::SendKeyCache;
pub use signing::{CannotSign, SignatureForm, Signer};

use opening::UnwrappedKey;
