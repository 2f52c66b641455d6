//! [`NodeIdentity`]: the certificate and key of this node, and the authority that it trusts.

use crate::certificates::{AUTHORITY_FILE, CERTIFICATE_FILE, Certificate, KEY_FILE};
use crate::error::ClusterError;
use menagerie_files::path_text;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The certificate and key of this node, and the authority that it trusts.
pub(crate) struct NodeIdentity {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    /// Whether nodes are compared with the address under which they are reached.
    checks_hosts: bool,
}

impl NodeIdentity {
    /// The files `ca.crt`, `tls.crt` and `tls.key` of a folder.
    ///
    /// # Errors
    /// A missing file, a certificate without a role, or one that has expired.
    pub(crate) fn read(folder: &Path) -> Result<Self, ClusterError> {
        let [authority, certificate, key] =
            [AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE].map(|name| folder.join(name));
        let wrong = |reason: String| {
            ClusterError::Options(format!(
                "--tls-dir {}: {reason}; `menagerie cluster keys` makes such folders",
                path_text(folder)
            ))
        };
        let read = |path: &PathBuf| Certificate::read(path).map_err(|error| wrong(error.to_string()));
        let (trusted, own) = (read(&authority)?, read(&certificate)?);
        std::fs::File::open(&key).map_err(|error| wrong(format!("{}: {error}", path_text(&key))))?;
        if !trusted.authority {
            return Err(wrong(format!("{AUTHORITY_FILE} is not the certificate of an authority")));
        }
        if own.role().is_none() {
            return Err(wrong(format!(
                "{CERTIFICATE_FILE} has the common name {:?}, which is that of no role (menagerie-stage, menagerie-head, \
                 menagerie-operator)",
                own.common_name
            )));
        }
        for (name, certificate) in [(AUTHORITY_FILE, &trusted), (CERTIFICATE_FILE, &own)] {
            if certificate.is_expired() {
                return Err(wrong(format!("{name} expired on {}", certificate.last_day())));
            }
        }
        Ok(Self { authority, certificate, key, checks_hosts: !own.hosts.is_empty() })
    }

    /// The settings of zenoh for TLS.
    ///
    /// When it connects, zenoh also trusts the authorities of the web. A certificate of those has no name of a role
    /// (`NodeRole::common_name`), so the rules of access deny every message of its owner.
    pub(crate) fn settings(&self) -> Value {
        let Self { authority, certificate, key, checks_hosts } = self;
        json!({
            "root_ca_certificate": authority,
            "listen_private_key": key,
            "listen_certificate": certificate,
            "connect_private_key": key,
            "connect_certificate": certificate,
            "enable_mtls": true,
            "verify_name_on_connect": checks_hosts,
            "close_link_on_expiration": true,
        })
    }
}
