use std::sync::Arc;

use tokio::sync::Semaphore;

use super::outgoing::Locator;
use crate::config::Protection;
use crate::directory::{Machine, Unavailable};
use crate::mqqb::wire::{FormatName, Guid, SecurityHeader, SecurityItem, UserMessage};
use crate::net::Clock;
use crate::security::{
    CannotSeal, CannotSign, Certificate, Cipher, HashAlgorithm, PrivateKey, Provider, PublicKey, SendKeyCache,
    SignatureForm, SignatureVersion, Signer,
};

/// What this queue manager signs with.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Its key.
    pub key: PrivateKey,
    /// The certificate with the public half.
    pub certificate: Certificate,
}

/// Signs and encrypts what is sent from here (MS-MQQB 3.1.7.1.4, 3.1.7.1.5). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sealer(Arc<Inner>);

/// What a sealer does where blocking is allowed.
#[derive(Debug)]
pub(super) struct Inner {
    own: Guid,
    credentials: Option<Credentials>,
    locator: Locator,
    keys: SendKeyCache,
    /// RSA operations at once.
    permits: Semaphore,
    clock: Clock,
}

/// Why a message does not go out as its route wants it.
#[derive(Debug)]
pub(super) enum Unsealed {
    /// It never will.
    Refused(String),
    /// Nobody can say now.
    Later(String),
}

/// Whom a body is encrypted for.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) machine: Guid,
    pub(super) key: PublicKey,
    pub(super) provider: Provider,
    pub(super) cipher: Cipher,
}

/// A machine without the key that a cipher takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoKey(String);

impl From<Unavailable> for Unsealed {
    fn from(unavailable: Unavailable) -> Self {
        Self::Later(unavailable.to_string())
    }
}

impl Sealer {
    pub(super) fn new(
        own: Guid,
        credentials: Option<Credentials>,
        locator: Locator,
        keys: SendKeyCache,
        permits: usize,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Inner { own, credentials, locator, keys, permits: Semaphore::new(permits.max(1)), clock }))
    }

    /// The message as its route wants it: signed by this queue manager, then encrypted for the machine of
    /// `destination`. Everything else of it must be complete.
    pub(super) async fn seal(
        &self,
        mut message: UserMessage,
        destination: &FormatName,
        protection: Protection,
    ) -> Result<UserMessage, Unsealed> {
        let Protection::Own { sign, encrypt } = protection else { return Ok(message) };
        let receiver = match encrypt {
            Some(cipher) => Some(self.receiver(destination, cipher).await?),
            None if sign.is_none() => return Ok(message),
            None => None,
        };
        let sealed = self.blocking(move |inner| {
            if let Some(form) = sign {
                inner.sign(&mut message, form)?;
            }
            if let Some(receiver) = receiver {
                inner.encrypt(&mut message, &receiver).map_err(|why| match why {
                    CannotSeal::Failed => Unsealed::Later(why.to_string()),
                    why => Unsealed::Refused(format!("it can't be encrypted: {why}")),
                })?;
            }
            Ok(message)
        });
        sealed.await.unwrap_or_else(|| Err(Unsealed::Later("the bridge is stopping".to_owned())))
    }

    /// Does `work` where blocking is allowed, as soon as it is its turn. `None` only when the runtime ends.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Option<T> {
        // The semaphore is never closed, and a task that blocks does not panic.
        let _permit = self.0.permits.acquire().await.ok()?;
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || work(&inner)).await.ok()
    }

    pub(super) fn locator(&self) -> &Locator {
        &self.0.locator
    }

    async fn receiver(&self, destination: &FormatName, cipher: Cipher) -> Result<Receiver, Unsealed> {
        let machine = self.0.locator.machine(destination).await?.ok_or_else(|| {
            Unsealed::Refused(format!(
                "it can't be encrypted: the directory has no machine of {destination} (by its name, not by an address), \
                 and so no key for it"
            ))
        })?;
        Receiver::of(&machine, cipher).map_err(|why| Unsealed::Refused(format!("it can't be encrypted: {why}")))
    }
}

impl Inner {
    fn sign(&self, message: &mut UserMessage, form: SignatureForm) -> Result<(), Unsealed> {
        const QUEUE_MANAGER: u16 = 2;
        let Some(Credentials { key, certificate }) = &self.credentials else {
            return Err(Unsealed::Refused("there is no certificate to sign with".to_owned()));
        };
        message.security = Some(SecurityHeader {
            flags: QUEUE_MANAGER | SecurityHeader::DATA_PRESENT,
            sender_id: SecurityItem::new(self.own.to_wire().to_vec().into()),
            ..SecurityHeader::default()
        });
        let signer = Signer { key, certificate, hash: HashAlgorithm::Sha256, form };
        signer.sign(message, SignatureVersion::V2, &mut rand::rng()).map_err(|why| match why {
            CannotSign::Failed(_) => Unsealed::Later(why.to_string()),
            why => Unsealed::Refused(format!("it can't be signed: {why}")),
        })
    }

    /// Encrypts the body for `receiver`, with a key that was made for it lately or now.
    pub(super) fn encrypt(&self, message: &mut UserMessage, receiver: &Receiver) -> Result<(), CannotSeal> {
        let Receiver { machine, key, provider, cipher } = receiver;
        let key = self.keys.key_for(*machine, key, *provider, *cipher, self.clock.now(), &mut rand::rng());
        key?.seal(message)
    }
}

/// Shorter keys are broken by anybody; only the base provider has them.
const KEY_BITS: usize = 1024;

impl Receiver {
    /// The machine's key for a cipher: of the provider with AES, or of the better one of those with RC2 and RC4.
    pub(super) fn of(machine: &Machine, cipher: Cipher) -> Result<Self, NoKey> {
        let keys = &machine.keys;
        let candidates = match cipher {
            Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256 => vec![(Provider::Aes, &keys.aes)],
            Cipher::Rc2 | Cipher::Rc4 => vec![(Provider::Enhanced, &keys.enhanced), (Provider::Base, &keys.base)],
        };
        let (provider, key) = best_key(machine, cipher.name(), candidates)?;
        Ok(Self { machine: machine.guid, key, provider, cipher })
    }
}

/// The first key that there is, when it is long enough for its provider.
pub(super) fn best_key<'a>(
    machine: &Machine,
    purpose: &str,
    keys: impl IntoIterator<Item = (Provider, &'a Option<PublicKey>)>,
) -> Result<(Provider, PublicKey), NoKey> {
    let name = &machine.name;
    let (provider, key) = keys
        .into_iter()
        .find_map(|(provider, key)| Some((provider, key.as_ref()?)))
        .ok_or_else(|| NoKey(format!("machine {name} has no key for {purpose} in the directory")))?;
    let bits = key.bits();
    if provider != Provider::Base && bits < KEY_BITS {
        return Err(NoKey(format!(
            "the key of machine {name} for {purpose} has {bits} bits, and {KEY_BITS} is the least"
        )));
    }
    Ok((provider, key.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::directory::PublicKeys;

    /// Somebody reads it at three in the morning.
    #[test]
    fn a_machine_without_the_key_is_named() {
        let key = |bits| {
            let file = format!("{}/tests/fixtures/vectors/keys/qm-local-{bits}.pem", env!("CARGO_MANIFEST_DIR"));
            PrivateKey::from_pem(&std::fs::read_to_string(file).unwrap()).unwrap().public().clone()
        };
        let machine = |keys| Machine {
            guid: Guid::NULL,
            name: "win01".to_owned(),
            addresses: Vec::new(),
            keys,
            certificates: Vec::new(),
        };
        let why = |keys, cipher| Receiver::of(&machine(keys), cipher).unwrap_err().to_string();
        let old = PublicKeys { base: Some(key(512)), enhanced: Some(key(1024)), aes: None };
        assert_eq!(why(old.clone(), Cipher::Aes256), "machine win01 has no key for aes256 in the directory");
        assert_eq!(why(PublicKeys::default(), Cipher::Rc2), "machine win01 has no key for rc2 in the directory");
        assert_eq!(
            why(PublicKeys::all(key(512)), Cipher::Aes128),
            "the key of machine win01 for aes128 has 512 bits, and 1024 is the least"
        );
        assert_eq!(Receiver::of(&machine(old), Cipher::Rc4).unwrap().provider, Provider::Enhanced);
        let base = PublicKeys { base: Some(key(512)), ..PublicKeys::default() };
        assert_eq!(Receiver::of(&machine(base), Cipher::Rc4).unwrap().provider, Provider::Base);
    }
}
