//! Whose message is it (MS-MQQB 3.1.5.8.3, second half)?

use bytes::Bytes;

use super::Authenticity;
use crate::mqqb::wire::{Malformed, SecurityHeader, SenderId, UserMessage};

/// Who sent a message, and how sure that is. Can only come from [`Owner::of`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    sender: SenderId,
    proven: bool,
}

/// What the directory knows of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryAnswer<'a> {
    /// The directory could not be asked. That says nothing of the message: it must be neither accepted nor refused.
    Unavailable,
    /// There is no such user or machine.
    Unknown,
    /// The certificates, in DER, that are registered for the sender; there may be none.
    Certificates(&'a [Bytes]),
}

/// Why a message with a valid signature is not its sender's. To the sender it is a bad signature, but for
/// [`WrongOwner::DirectoryUnavailable`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongOwner {
    /// Ask again later.
    #[error("the directory can't be asked whose certificate it is")]
    DirectoryUnavailable,
    /// The directory does not know the sender.
    #[error("the sender is not in the directory")]
    UnknownSender,
    /// The sender is known, but not with this certificate.
    #[error("the certificate is not registered for the sender")]
    OtherCertificate,
    /// A sender id that makes no sense.
    #[error("the sender id makes no sense: {0}")]
    Malformed(Malformed),
}

impl Owner {
    /// Who the sender of `message` is, when its signature proves what `authenticity` says.
    ///
    /// A signed message with a sender id is only accepted when the directory has exactly this certificate for exactly
    /// this sender: without that, whoever altered a message could sign it again with a certificate of his own. `ask`
    /// is called for no other message.
    pub fn of<'a>(
        message: &UserMessage,
        authenticity: &Authenticity,
        ask: impl FnOnce(&SenderId) -> DirectoryAnswer<'a>,
    ) -> Result<Self, WrongOwner> {
        let sender = message.security.as_ref().map_or(Ok(SenderId::None), SecurityHeader::sender);
        let sender = sender.map_err(WrongOwner::Malformed)?;
        let Some(proof) = authenticity.proof().filter(|_| sender != SenderId::None) else {
            return Ok(Self { sender, proven: false });
        };
        match ask(&sender) {
            DirectoryAnswer::Unavailable => Err(WrongOwner::DirectoryUnavailable),
            DirectoryAnswer::Unknown => Err(WrongOwner::UnknownSender),
            // Byte for byte, as 3.1.5.8.3 has it; an MD5 digest would not do.
            DirectoryAnswer::Certificates(registered) if registered.contains(proof.certificate().der()) => {
                Ok(Self { sender, proven: true })
            }
            DirectoryAnswer::Certificates(_) => Err(WrongOwner::OtherCertificate),
        }
    }

    /// Who the sender is or claims to be.
    pub const fn sender(&self) -> &SenderId {
        &self.sender
    }

    /// Whether signature and directory prove it. Without that a sender id is a claim.
    pub const fn is_proven(&self) -> bool {
        self.proven
    }
}
