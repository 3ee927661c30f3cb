//! The ciphers of bodies (MS-MQMQ 2.2.19.3, MS-MQQB 3.1.7.1.5): CBC with an IV of zeros and PKCS#5 padding, or the bare
//! RC4 stream.

use std::fmt;

use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit,
    StreamCipher,
};
use rc2::Rc2;
use rc4::Rc4;
use subtle::{Choice, ConstantTimeEq, ConstantTimeLess};

/// What `EncryptionAlgorithm` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    /// FIPS 197 with 128 bits.
    Aes128,
    /// FIPS 197 with 192 bits.
    Aes192,
    /// FIPS 197 with 256 bits.
    Aes256,
    /// RFC 2268, with 40 or 128 bits.
    Rc2,
    /// The stream cipher, with 40 or 128 bits.
    Rc4,
}

/// Which way a key was used where the specification leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyForm {
    /// As it was transported, all of its bits effective: the default.
    AsTransported,
    /// A 40-bit key with eleven zero bytes of salt.
    ZeroSalt,
    /// RC2 with 40 effective bits, however long the key.
    Effective40,
}

impl Cipher {
    /// Every cipher.
    pub const ALL: [Self; 5] = [Self::Aes128, Self::Aes192, Self::Aes256, Self::Rc2, Self::Rc4];

    /// The cipher of an `EncryptionAlgorithm` field.
    pub const fn from_calg(calg: u32) -> Option<Self> {
        Some(match calg {
            0x660E => Self::Aes128,
            0x660F => Self::Aes192,
            0x6610 => Self::Aes256,
            0x6602 => Self::Rc2,
            0x6801 => Self::Rc4,
            _ => return None,
        })
    }

    /// The value of an `EncryptionAlgorithm` field.
    pub const fn calg(self) -> u32 {
        match self {
            Self::Aes128 => 0x660E,
            Self::Aes192 => 0x660F,
            Self::Aes256 => 0x6610,
            Self::Rc2 => 0x6602,
            Self::Rc4 => 0x6801,
        }
    }

    /// The word of the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "aes128",
            Self::Aes192 => "aes192",
            Self::Aes256 => "aes256",
            Self::Rc2 => "rc2",
            Self::Rc4 => "rc4",
        }
    }

    /// Octets of a block; a stream cipher has blocks of one.
    pub(super) const fn block_size(self) -> usize {
        match self {
            Self::Aes128 | Self::Aes192 | Self::Aes256 => 16,
            Self::Rc2 => 8,
            Self::Rc4 => 1,
        }
    }

    /// Whether so many octets can be a ciphertext at all.
    pub(super) const fn may_have_length(self, length: usize) -> bool {
        match self {
            Self::Rc4 => true,
            _ => length > 0 && length.is_multiple_of(self.block_size()),
        }
    }

    /// The ways in which a key of so many octets may have been used, the default first.
    pub(super) const fn key_forms(self, key_size: usize) -> &'static [KeyForm] {
        match (self, key_size) {
            (Self::Rc2, 16) => &[KeyForm::AsTransported, KeyForm::Effective40],
            (Self::Rc2 | Self::Rc4, 5) => &[KeyForm::AsTransported, KeyForm::ZeroSalt],
            _ => &[KeyForm::AsTransported],
        }
    }

    /// Encrypts `plaintext`. `None` when the key has no length of this cipher's.
    pub(super) fn encrypt(self, key: &[u8], plaintext: &[u8]) -> Option<Vec<u8>> {
        let block = self.block_size();
        let mut text = Vec::with_capacity(plaintext.len() + block);
        text.extend_from_slice(plaintext);
        if self != Self::Rc4 {
            let padding = block - plaintext.len() % block;
            text.resize(plaintext.len() + padding, padding as u8);
        }
        match self {
            Self::Aes128 => encrypt_cbc(Aes128::new_from_slice(key).ok()?, &mut text),
            Self::Aes192 => encrypt_cbc(Aes192::new_from_slice(key).ok()?, &mut text),
            Self::Aes256 => encrypt_cbc(Aes256::new_from_slice(key).ok()?, &mut text),
            Self::Rc2 => encrypt_cbc(rc2(key, KeyForm::AsTransported)?, &mut text),
            Self::Rc4 => Rc4::new_from_slice(key).ok()?.apply_keystream(&mut text),
        }
        Some(text)
    }

    /// Decrypts `ciphertext`, whose length [may be](Self::may_have_length) one. `None` when the key has no length of
    /// this cipher's. The padding is left on and judged afterwards, so that a wrong key takes as long as a right one.
    pub(super) fn decrypt(self, key: &[u8], form: KeyForm, ciphertext: &[u8]) -> Option<Decrypted> {
        let mut text = ciphertext.to_vec();
        match self {
            Self::Aes128 => decrypt_cbc(Aes128::new_from_slice(key).ok()?, &mut text),
            Self::Aes192 => decrypt_cbc(Aes192::new_from_slice(key).ok()?, &mut text),
            Self::Aes256 => decrypt_cbc(Aes256::new_from_slice(key).ok()?, &mut text),
            Self::Rc2 => decrypt_cbc(rc2(key, form)?, &mut text),
            Self::Rc4 => match form {
                KeyForm::ZeroSalt => Rc4::new_from_slice(&salted(key)?).ok()?.apply_keystream(&mut text),
                _ => Rc4::new_from_slice(key).ok()?.apply_keystream(&mut text),
            },
        }
        let (padding, well_padded) = match self {
            Self::Rc4 => (0, Choice::from(1)),
            _ => padding(&text, self.block_size()),
        };
        Some(Decrypted { text, padding, well_padded })
    }
}

/// The words of the configuration.
impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What came out of a decryption: right, or anything.
pub(super) struct Decrypted {
    text: Vec<u8>,
    /// Octets of the padding; means nothing when it is no padding.
    padding: u8,
    pub(super) well_padded: Choice,
}

impl Decrypted {
    /// The longer a padding, the less likely it is one by chance.
    pub(super) const fn padding(&self) -> u8 {
        self.padding
    }

    /// The text without its padding.
    pub(super) fn into_plaintext(mut self) -> Vec<u8> {
        self.text.truncate(self.text.len().saturating_sub(self.padding.into()));
        self.text
    }
}

/// The padding at the end of `text` and whether it is one (RFC 2898 6.1.1): n octets of value n, from 1 to a block.
/// Takes the same time whatever the last block is.
fn padding(text: &[u8], block: usize) -> (u8, Choice) {
    let last = text.get(text.len().saturating_sub(block)..).unwrap_or_default();
    let count = last.last().copied().unwrap_or_default();
    let mut good = !count.ct_eq(&0) & count.ct_lt(&(block as u8 + 1));
    for (from_end, byte) in last.iter().rev().enumerate() {
        let is_padding = (from_end as u8).ct_lt(&count);
        good &= !is_padding | byte.ct_eq(&count);
    }
    (count, good)
}

fn encrypt_cbc<C: BlockCipherEncrypt>(cipher: C, text: &mut [u8]) {
    let (blocks, _) = Array::slice_as_chunks_mut(text);
    cbc::Encryptor::inner_iv_init(cipher, &Array::default()).encrypt_blocks(blocks);
}

fn decrypt_cbc<C: BlockCipherDecrypt>(cipher: C, text: &mut [u8]) {
    let (blocks, _) = Array::slice_as_chunks_mut(text);
    cbc::Decryptor::inner_iv_init(cipher, &Array::default()).decrypt_blocks(blocks);
}

/// RC2 with as many effective bits as the key has, or as the form says.
fn rc2(key: &[u8], form: KeyForm) -> Option<Rc2> {
    match (form, key.len()) {
        (KeyForm::AsTransported, 5 | 16) => Some(Rc2::new_with_eff_key_len(key, key.len() * 8)),
        (KeyForm::Effective40, 5 | 16) => Some(Rc2::new_with_eff_key_len(key, 40)),
        (KeyForm::ZeroSalt, 5) => Some(Rc2::new_with_eff_key_len(&salted(key)?, 40)),
        _ => None,
    }
}

/// A 40-bit key and its salt of zeros.
fn salted(key: &[u8]) -> Option<[u8; 16]> {
    let mut salted = [0; 16];
    salted.first_chunk_mut::<5>()?.copy_from_slice(key.first_chunk::<5>()?);
    Some(salted)
}
