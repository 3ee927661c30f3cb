use std::path::{Path, PathBuf};

use lapin::tcp::{RustlsConnector, RustlsConnectorConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::TlsFiles;
use crate::error::ConnectError;

/// Reads the certificates and makes of them what rustls needs. With an authority of one's own, only that one is
/// trusted.
pub(crate) async fn connector(files: &TlsFiles) -> Result<RustlsConnector, ConnectError> {
    let mut roots = RustlsConnectorConfig::default();
    match &files.ca_file {
        Some(path) => roots.add_parsable_certificates(certificates(path, &read(path).await?)?),
        None => roots = roots.with_native_certs().map_err(ConnectError::Certificates)?,
    }
    let (Some(cert_file), Some(key_file)) = (&files.cert_file, &files.key_file) else {
        return roots.connector_with_no_client_auth().map_err(ConnectError::Certificates);
    };
    let chain = certificates(cert_file, &read(cert_file).await?)?;
    let key = PrivateKeyDer::from_pem_slice(&read(key_file).await?)
        .map_err(|error| unusable(key_file, "private key", error.to_string()))?;
    roots.connector_with_single_cert(chain, key).map_err(ConnectError::Certificates)
}

async fn read(path: &Path) -> Result<Vec<u8>, ConnectError> {
    tokio::fs::read(path).await.map_err(|source| ConnectError::File { path: path.to_owned(), source })
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    const WHAT: &str = "certificate";
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(path, WHAT, error.to_string()))?;
    if found.is_empty() {
        return Err(unusable(path, WHAT, "it has no BEGIN CERTIFICATE line".to_owned()));
    }
    Ok(found)
}

fn unusable(path: &Path, what: &'static str, reason: String) -> ConnectError {
    ConnectError::Pem { path: PathBuf::from(path), what, reason }
}
