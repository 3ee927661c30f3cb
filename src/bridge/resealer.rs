use std::sync::Arc;

use super::sealer::{NoKey, Receiver, Sealer, best_key};
use super::translate::Resealed;
use crate::config::{Reseal, ResealForm};
use crate::directory::{Machine, Unavailable};
use crate::mqqb::wire::{SecurityHeader, SecurityItem, UserMessage};
use crate::security::{CannotSeal, CannotSealJwe, Cipher, ClearBody, Jwe, Provider, PublicKey};

/// Encrypts what a route has opened for another machine: the foreign system never sees it in clear. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Resealer {
    reseal: Arc<Reseal>,
    sealer: Sealer,
}

/// Whom it is done for now: the directory may say something else later.
#[derive(Clone, Debug)]
pub(super) enum ResealKey {
    /// In MSMQ's own form.
    Msmq(Receiver),
    /// As JWE.
    Jwe(PublicKey),
}

/// Why a body can't be encrypted again. Its route waits until it can.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotResealed {
    /// Nobody knows the key now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// There is no such machine.
    #[error("security.reseal_for: the directory has no machine {0}")]
    NoMachine(String),
    /// The machine has no key.
    #[error("security.reseal_for: {0}")]
    NoKey(#[from] NoKey),
    /// The key is of no use.
    #[error("a body can't be encrypted again: {0}")]
    Seal(#[from] CannotSeal),
    /// The same.
    #[error("a body can't be encrypted again: {0}")]
    Jwe(#[from] CannotSealJwe),
    /// The task was taken away.
    #[error("a body was not encrypted again: the bridge is stopping")]
    Stopping,
}

impl Resealer {
    pub(super) fn new(reseal: Reseal, sealer: Sealer) -> Self {
        Self { reseal: Arc::new(reseal), sealer }
    }

    /// The key of the machine, as the directory has it now.
    pub(super) async fn key(&self) -> Result<ResealKey, NotResealed> {
        let Reseal { machine: name, form } = &*self.reseal;
        let machine = self.sealer.locator().machine_by_name(name).await?;
        let machine = machine.ok_or_else(|| NotResealed::NoMachine(name.clone()))?;
        Ok(match form {
            ResealForm::Msmq => ResealKey::Msmq(Receiver::of(&machine, Cipher::Aes256)?),
            ResealForm::Jwe => ResealKey::Jwe(any_key(&machine)?),
        })
    }

    /// Encrypts the body of `message`, which has been opened.
    pub(super) async fn seal(
        &self,
        key: &ResealKey,
        message: &UserMessage,
        body: &ClearBody,
    ) -> Result<Resealed, NotResealed> {
        let (key, plaintext) = (key.clone(), body.plaintext().clone());
        let message = matches!(key, ResealKey::Msmq(_)).then(|| in_clear(message, body));
        let sealed = self.sealer.blocking(move |sealer| match (key, message) {
            (ResealKey::Msmq(receiver), Some(mut message)) => {
                sealer.encrypt(&mut message, &receiver)?;
                Ok(Resealed::Msmq { message: Box::new(message), provider: receiver.provider })
            }
            (ResealKey::Msmq(_), None) => Err(NotResealed::Stopping),
            (ResealKey::Jwe(key), _) => Ok(Resealed::Jwe(Jwe::seal(&plaintext, &key, &mut rand::rng())?)),
        });
        sealed.await.unwrap_or(Err(NotResealed::Stopping))
    }
}

/// The message as it was before it was encrypted, its signature still in it.
fn in_clear(message: &UserMessage, body: &ClearBody) -> UserMessage {
    let mut message = message.clone();
    let body_type = message.properties.body_type;
    message.properties.set_body(body.plaintext().clone(), body_type);
    if let Some(security) = &mut message.security {
        security.flags &= !SecurityHeader::ENCRYPTED;
        security.encryption_key = SecurityItem::default();
        security.provider_info = SecurityItem::default();
    }
    message
}

/// The best key that the machine has: a JWE belongs to no provider.
fn any_key(machine: &Machine) -> Result<PublicKey, NoKey> {
    let keys = &machine.keys;
    let all = [(Provider::Aes, &keys.aes), (Provider::Enhanced, &keys.enhanced), (Provider::Base, &keys.base)];
    best_key(machine, "a JWE", all).map(|(_, key)| key)
}
