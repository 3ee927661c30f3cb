use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::config::Config;
use crate::directory::digest;
use crate::identity::{Identity, IdentityError, PublicKeyCard};

use super::verify::load;
use super::{Exit, KeyArgs, KeyCommand, Surroundings};

/// `key`: what this queue manager opens and signs with.
pub fn key(args: &KeyArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let config_file = match &args.command {
        KeyCommand::Show(args) => &args.config.config,
        KeyCommand::NewCert(args) => &args.config,
    };
    let config = match load(config_file, surroundings) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let text = match &args.command {
        KeyCommand::Show(args) => Shown::of(&config).map(|shown| shown.render(args.json)),
        KeyCommand::NewCert(_) => new_certificate(&config, surroundings),
    };
    match text {
        Ok(text) => {
            // A reader that is gone has seen enough.
            let _ = surroundings.out.write_all(text.as_bytes());
            Exit::Done
        }
        Err(error) => {
            let _ = writeln!(surroundings.err, "mqbridge: {error}");
            Exit::Failed
        }
    }
}

fn open(config: &Config) -> Result<Identity, IdentityError> {
    Identity::open(&config.queue_manager.state_dir, config.keys.private_key_file.as_deref())
}

fn new_certificate(config: &Config, surroundings: &Surroundings<'_>) -> Result<String, IdentityError> {
    let manager = &config.queue_manager;
    let identity = open(config)?;
    let made = identity.renew_certificate(&manager.state_dir, &manager.name, &mut rand::rng(), surroundings.now)?;
    let file = Identity::certificate_file(&manager.state_dir);
    Ok(format!(
        "made certificate {} (MD5 {})\nRegister it for {} where receivers look senders up, then restart mqbridge.\n",
        file.display(),
        digest(made.der()),
        identity.guid
    ))
}

/// What is shown; the names are those of `--json`.
#[derive(Serialize)]
struct Shown {
    key: ShownKey,
    /// Absent until something is signed for the first time.
    certificate: Option<ShownCertificate>,
}

#[derive(Serialize)]
struct ShownKey {
    file: String,
    #[serde(flatten)]
    public: PublicKeyCard,
}

#[derive(Serialize)]
struct ShownCertificate {
    file: String,
    /// By which MSMQ's own directory lists it.
    md5: String,
}

impl Shown {
    fn of(config: &Config) -> Result<Self, IdentityError> {
        let state_dir: &Path = &config.queue_manager.state_dir;
        let identity = open(config)?;
        let certificate = identity.certificate(state_dir)?.map(|certificate| ShownCertificate {
            file: Identity::certificate_file(state_dir).display().to_string(),
            md5: digest(certificate.der()).to_string(),
        });
        let file = identity.key_file.clone();
        let public =
            PublicKeyCard::of(identity.key.public()).map_err(|why| IdentityError::Key { path: file.clone(), why })?;
        Ok(Self { key: ShownKey { file: file.display().to_string(), public }, certificate })
    }

    fn render(&self, as_json: bool) -> String {
        if as_json {
            return serde_json::to_string_pretty(self).map(|json| json + "\n").unwrap_or_default();
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let ShownKey { file, public } = &self.key;
        let _ = writeln!(text, "key          {file}, RSA with {} bits", public.bits);
        let _ = match &self.certificate {
            Some(ShownCertificate { file, md5 }) => writeln!(text, "certificate  {file}, MD5 {md5}"),
            None => {
                writeln!(text, "certificate  none yet; the first route that signs makes it, or mqbridge key new-cert")
            }
        };
        let _ = writeln!(text, "\npublic key\n{}", public.pem);
        let _ = writeln!(text, "the same as PUBLICKEYBLOB, hexadecimal\n{}", public.publickeyblob);
        text
    }
}
