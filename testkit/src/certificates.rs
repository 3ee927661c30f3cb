use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestkitError;
use crate::process::run;
use crate::scratch::private_dir;

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
        self.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=Test CA",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
        ])
    }

    fn certificate(&self, file: &str, name: &str, alternatives: &str, usage: &str) -> Result<(), TestkitError> {
        let [key, request, certificate, extensions] = ["key", "csr", "pem", "ext"].map(|end| format!("{file}.{end}"));
        let path = self.directory.join(&extensions);
        fs::write(&path, format!("subjectAltName={alternatives}\nextendedKeyUsage={usage}\n"))
            .map_err(TestkitError::file("writing", &path))?;
        self.openssl(&[
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            &key,
            "-out",
            &request,
            "-subj",
            &format!("/CN={name}"),
        ])?;
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "30",
            "-extfile",
            &extensions,
            "-out",
            &certificate,
        ])
    }

    fn openssl(&self, arguments: &[&str]) -> Result<(), TestkitError> {
        run(Command::new("openssl").args(arguments).current_dir(&self.directory)).map(drop)
    }
}
