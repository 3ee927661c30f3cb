use std::sync::Arc;

use super::opener::Repute;
use super::routes::{Handling, RouteEntry};
use super::{Marks, Rejection};
use crate::config::{Authenticate, Privacy};
use crate::directory::{CertificateDigest, Directory, Machine, Unavailable, User};
use crate::mqqb::wire::{SecurityHeader, SenderId, UserMessage};
use crate::security::{Authenticity, ClearBody, DirectoryAnswer, Groups, Owner, WrongOwner};

/// Looks into messages before they are admitted: is it genuine, whose is it, may its sender write here, and can it be
/// opened (MS-MQQB 3.1.5.8.3)?
#[derive(Clone, Debug)]
pub(super) struct Examiner {
    directory: Option<Arc<dyn Directory>>,
}

/// Why a message was not admitted.
#[derive(Debug)]
pub(super) enum NotAdmitted {
    /// It never will be.
    Refused(Rejection),
    /// Nobody can say now: it stays with its sender.
    Later(String),
}

impl From<Rejection> for NotAdmitted {
    fn from(rejection: Rejection) -> Self {
        Self::Refused(rejection)
    }
}

impl From<Unavailable> for NotAdmitted {
    fn from(unavailable: Unavailable) -> Self {
        Self::Later(unavailable.to_string())
    }
}

/// What the directory has for a sender.
#[derive(Default)]
enum Sender {
    #[default]
    Unknown,
    User(Arc<User>),
    Machine(Arc<Machine>),
}

impl Examiner {
    pub(super) fn new(directory: Option<Arc<dyn Directory>>) -> Self {
        Self { directory }
    }

    /// Whether there is anything to examine: most messages are neither signed nor encrypted, and most queues take those
    /// from everyone.
    pub(super) fn is_needed(message: &UserMessage, route: &RouteEntry) -> bool {
        let from = &route.config.from;
        message.is_signed()
            || message.is_encrypted()
            || from.authenticate == Authenticate::Required
            || from.privacy == Privacy::Required
            || !route.access.is_empty()
    }

    /// Examines a message for the queue of `route`, and says what is proven of it.
    pub(super) async fn examine(
        &self,
        message: &UserMessage,
        route: &RouteEntry,
        repute: Repute,
    ) -> Result<Marks, NotAdmitted> {
        let from = &route.config.from;
        if from.privacy == Privacy::Required && !message.is_encrypted() {
            return Err(Rejection::NotEncrypted.into());
        }
        let body = match &route.handling {
            Handling::NonTransparent { opener, ciphers, .. } => {
                Some(opener.open(message, ciphers, repute).await.map_err(Rejection::Unopened)?)
            }
            // A body that may not be opened can't be verified: its signature is passed on as evidence.
            Handling::Transparent => ClearBody::of(message),
        };
        let authenticity = match body {
            Some(mut body) => {
                Authenticity::of(message, &mut body, &route.signatures).map_err(Rejection::BadSignature)?
            }
            None => Authenticity::Unsigned,
        };
        let claimed = message.security.as_ref().map_or(Ok(SenderId::None), SecurityHeader::sender);
        let sender = match (&claimed, authenticity.proof().is_some() || !route.access.is_empty()) {
            (Ok(claimed), true) => self.look_up(claimed).await?,
            _ => Sender::Unknown,
        };
        let owner = Owner::of(message, &authenticity, |_| sender.certificates());
        let owner = owner.map_err(|wrong| match wrong {
            WrongOwner::DirectoryUnavailable => NotAdmitted::Later(wrong.to_string()),
            wrong => {
                let certificate =
                    authenticity.proof().map(|proof| CertificateDigest(proof.certificate().digest()).to_string());
                let certificate = certificate.unwrap_or_default();
                Rejection::WrongOwner { wrong, certificate, has_directory: self.directory.is_some() }.into()
            }
        })?;
        if let Some(proof) = authenticity.proof() {
            tracing::debug!(
                event = "signature_verified", route = %route.config.name, message_id = %message.id(),
                version = %proof.version(), hash = %proof.hash(), reading = %proof.reading(), owner = owner.is_proven(),
                "the signature of a message is genuine"
            );
        }
        if from.authenticate == Authenticate::Required && !owner.is_proven() {
            return Err(Rejection::Unproven { signed: authenticity.proof().is_some() }.into());
        }
        for access in &route.access {
            access.permit(&owner, sender.groups()).map_err(Rejection::AccessDenied)?;
        }
        Ok(Marks::of(&authenticity, &owner))
    }

    async fn look_up(&self, sender: &SenderId) -> Result<Sender, Unavailable> {
        let Some(directory) = &self.directory else { return Ok(Sender::Unknown) };
        Ok(match sender {
            SenderId::None => Sender::Unknown,
            SenderId::Sid(sid) => directory.user_by_sid(sid).await?.map_or(Sender::Unknown, Sender::User),
            SenderId::QueueManager(guid) => {
                directory.machine_by_guid(*guid).await?.map_or(Sender::Unknown, Sender::Machine)
            }
        })
    }
}

impl Sender {
    fn certificates(&self) -> DirectoryAnswer<'_> {
        match self {
            Self::Unknown => DirectoryAnswer::Unknown,
            Self::User(user) => DirectoryAnswer::Certificates(&user.certificates),
            Self::Machine(machine) => DirectoryAnswer::Certificates(&machine.certificates),
        }
    }

    fn groups(&self) -> Groups<'_> {
        match self {
            Self::User(user) => Groups { names: &user.groups, sids: &user.group_sids },
            Self::Unknown | Self::Machine(_) => Groups::default(),
        }
    }
}
