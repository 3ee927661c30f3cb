use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestkitError;
use crate::process::run;
use crate::scratch::{private_dir, random};

/// P-256 keys are made in a moment; the files are not encrypted.
const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
const VALIDITY: &str = "-days 30";

/// A certificate authority of one's own with a server and a client certificate, made by the `openssl` command.
#[derive(Clone, Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    /// Makes all of them in `directory`. The server's certificate names `localhost` and 127.0.0.1, the client's common
    /// name is `client`.
    pub fn make(directory: &Path, client: &str) -> Result<Self, TestkitError> {
        private_dir(directory)?;
        let made = Self { directory: directory.to_owned() };
        made.authority()?;
        made.certificate("server", "localhost", "DNS:localhost,IP:127.0.0.1", "serverAuth")?;
        made.certificate("client", client, &format!("DNS:{client}"), "clientAuth")?;
        Ok(made)
    }

    /// The authority's certificate (PEM).
    pub fn authority_file(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// The server's certificate (PEM).
    pub fn server_file(&self) -> PathBuf {
        self.directory.join("server.pem")
    }

    /// The server's private key (PEM, PKCS#8).
    pub fn server_key_file(&self) -> PathBuf {
        self.directory.join("server.key")
    }

    /// The client's certificate (PEM).
    pub fn client_file(&self) -> PathBuf {
        self.directory.join("client.pem")
    }

    /// The client's private key (PEM, PKCS#8).
    pub fn client_key_file(&self) -> PathBuf {
        self.directory.join("client.key")
    }

    fn authority(&self) -> Result<(), TestkitError> {
        // Authorities differ in name, as real ones do.
        let name = format!("testkit-authority-{:08x}", random());
        self.openssl(&format!(
            "req -x509 {NEW_KEY} -keyout ca.key -out ca.pem {VALIDITY} -subj /CN={name} \
             -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign"
        ))
    }

    fn certificate(&self, file: &str, name: &str, alternatives: &str, usage: &str) -> Result<(), TestkitError> {
        let extensions = self.directory.join(format!("{file}.ext"));
        fs::write(&extensions, format!("subjectAltName={alternatives}\nextendedKeyUsage={usage}\n"))
            .map_err(TestkitError::file("writing", &extensions))?;
        self.openssl(&format!("req -new {NEW_KEY} -keyout {file}.key -out {file}.csr -subj /CN={name}"))?;
        self.openssl(&format!(
            "x509 -req -in {file}.csr -CA ca.pem -CAkey ca.key -CAcreateserial {VALIDITY} \
             -extfile {file}.ext -out {file}.pem"
        ))
    }

    fn openssl(&self, arguments: &str) -> Result<(), TestkitError> {
        run(Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.directory)).map(drop)
    }
}
