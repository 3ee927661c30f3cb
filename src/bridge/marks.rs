use crate::security::{Authenticity, Owner, SignatureVersion};

/// What was proven of a message when it came, kept with it on disk: the directory may say something else later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Signature and owner are proven.
    pub authenticated: bool,
    /// The bytes are proven, by a certificate without an owner.
    pub certificate_verified: bool,
    /// The version of the signature that was verified.
    pub signature: Option<SignatureVersion>,
}

impl Marks {
    const AUTHENTICATED: u8 = 0x1;
    const CERTIFICATE_VERIFIED: u8 = 0x2;
    const VERSION_SHIFT: u32 = 2;

    /// Of what was proven.
    pub(super) fn of(authenticity: &Authenticity, owner: &Owner) -> Self {
        let proof = authenticity.proof();
        Self {
            authenticated: proof.is_some() && owner.is_proven(),
            certificate_verified: proof.is_some() && !owner.is_proven(),
            signature: proof.map(crate::security::Proof::version),
        }
    }

    /// The four bits that the store keeps.
    pub(super) fn to_bits(self) -> u8 {
        let version = match self.signature {
            None => 0,
            Some(SignatureVersion::V1) => 1,
            Some(SignatureVersion::V2) => 2,
            Some(SignatureVersion::V3) => 3,
        };
        let mut bits = version << Self::VERSION_SHIFT;
        if self.authenticated {
            bits |= Self::AUTHENTICATED;
        }
        if self.certificate_verified {
            bits |= Self::CERTIFICATE_VERIFIED;
        }
        bits
    }

    /// What the store has kept.
    pub(super) fn from_bits(bits: u8) -> Self {
        let signature = match bits >> Self::VERSION_SHIFT & 0x3 {
            1 => Some(SignatureVersion::V1),
            2 => Some(SignatureVersion::V2),
            3 => Some(SignatureVersion::V3),
            _ => None,
        };
        Self {
            authenticated: bits & Self::AUTHENTICATED != 0,
            certificate_verified: bits & Self::CERTIFICATE_VERIFIED != 0,
            signature,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bits_are_enough_and_come_back() {
        for bits in 0..16 {
            let marks = Marks::from_bits(bits);
            assert_eq!(marks.to_bits(), bits);
        }
    }
}
