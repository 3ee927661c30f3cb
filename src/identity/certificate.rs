//! The certificate that this queue manager signs with, made from its key.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rand::CryptoRng;

use super::{Identity, IdentityError, LEFTOVER, create_once, is_absent, sync_directory};
use crate::security::Certificate;

/// The file of the certificate in the state directory.
pub(super) const CERTIFICATE_FILE: &str = "qm-cert.der";
/// How long it says that it is valid, in days: ten years. Queue managers do not look at it.
const VALIDITY: u16 = 3653;

impl Identity {
    /// Where the certificate is kept.
    pub fn certificate_file(state_dir: &Path) -> PathBuf {
        state_dir.join(CERTIFICATE_FILE)
    }

    /// The certificate in the state directory; `None` when none was made yet.
    ///
    /// # Errors
    /// When it can't be read, or belongs to another key.
    pub fn certificate(&self, state_dir: &Path) -> Result<Option<Certificate>, IdentityError> {
        let path = Self::certificate_file(state_dir);
        if is_absent(&path)? {
            return Ok(None);
        }
        let der = fs::read(&path).map_err(|why| IdentityError::Read { path: path.clone(), why })?;
        let certificate = Certificate::from_der(der.into())
            .map_err(|why| IdentityError::Certificate { path: path.clone(), why: why.to_string() })?;
        if certificate.key() != self.key.public() {
            let why = "it is for another key than the one of this queue manager".to_owned();
            return Err(IdentityError::Certificate { path, why });
        }
        Ok(Some(certificate))
    }

    /// The certificate in the state directory, made when there is none. Says whether it was.
    pub fn certificate_or_create<R: CryptoRng>(
        &self,
        state_dir: &Path,
        name: &str,
        random: &mut R,
        now: Timestamp,
    ) -> Result<(Certificate, bool), IdentityError> {
        if let Some(certificate) = self.certificate(state_dir)? {
            return Ok((certificate, false));
        }
        let path = Self::certificate_file(state_dir);
        let made = self.make_certificate(&path, name, random, now)?;
        let made = create_once(state_dir, CERTIFICATE_FILE, made.der(), random)
            .map_err(|why| IdentityError::Write { path: path.clone(), why })?;
        // What counts is on the disk, whoever has put it there.
        match self.certificate(state_dir)? {
            Some(certificate) => Ok((certificate, made)),
            None => Err(IdentityError::Read { path, why: io::Error::from(io::ErrorKind::NotFound) }),
        }
    }

    /// Makes a certificate and puts it in the place of the one that was there.
    pub fn renew_certificate<R: CryptoRng>(
        &self,
        state_dir: &Path,
        name: &str,
        random: &mut R,
        now: Timestamp,
    ) -> Result<Certificate, IdentityError> {
        let path = Self::certificate_file(state_dir);
        let made = self.make_certificate(&path, name, random, now)?;
        replace(state_dir, made.der(), random).map_err(|why| IdentityError::Write { path, why })?;
        Ok(made)
    }

    fn make_certificate<R: CryptoRng>(
        &self,
        path: &Path,
        name: &str,
        random: &mut R,
        now: Timestamp,
    ) -> Result<Certificate, IdentityError> {
        let not_before = u64::try_from(now.as_second()).unwrap_or_default();
        Certificate::internal(&self.key, name, name, not_before, VALIDITY, random)
            .map_err(|why| IdentityError::Certificate { path: path.to_owned(), why: why.to_string() })
    }
}

/// Complete or not at all: whoever reads meanwhile finds the one or the other.
fn replace<R: CryptoRng>(dir: &Path, contents: &[u8], random: &mut R) -> io::Result<()> {
    let beside = dir.join(format!(".{CERTIFICATE_FILE}.{:016x}{LEFTOVER}", random.next_u64()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let renamed = file.write_all(contents).and_then(|()| file.sync_all());
    let renamed = renamed.and_then(|()| fs::rename(&beside, dir.join(CERTIFICATE_FILE)));
    if renamed.is_err() {
        let _ = fs::remove_file(&beside);
    }
    renamed.and_then(|()| sync_directory(dir))
}
