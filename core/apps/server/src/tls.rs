//! [`TlsFiles`]: the certificate of the server and its key.

use crate::error::ServerError;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The certificate of the server, then those between it and a root, in PEM.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

impl TlsFiles {
    /// These files.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// Reads both files.
    fn read(&self) -> Result<TlsAcceptor, ServerError> {
        let fault = |file: &Path, reason: &dyn std::fmt::Display| ServerError::Tls {
            file: file.display().to_string(),
            reason: reason.to_string(),
        };
        let of_certificate = |reason: &dyn std::fmt::Display| fault(&self.certificate, reason);
        let certificates = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| of_certificate(&error))?;
        if certificates.is_empty() {
            return Err(of_certificate(&"the file has no certificate in PEM (BEGIN CERTIFICATE)"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| fault(&self.key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key));
        let mut config = config.map_err(|error| of_certificate(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// TLS of a server, whose files can be read again.
pub(crate) struct ServerTls {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
}

impl ServerTls {
    pub(crate) fn open(files: TlsFiles) -> Result<Self, ServerError> {
        let acceptor = RwLock::new(files.read()?);
        Ok(Self { files, acceptor })
    }

    /// What begins a connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again, without using them yet.
    pub(crate) fn read(&self) -> Result<TlsAcceptor, ServerError> {
        self.files.read()
    }

    /// New connections begin with this.
    pub(crate) fn replace(&self, acceptor: TlsAcceptor) {
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
    }
}
