//! [`CertificateError`]: why certificates could not be made or read.

use super::day::Day;

/// Why certificates could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file or folder that cannot be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The file or folder.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A name that is not that of a node.
    #[error(
        "`{name}` is not a name of a node: expected 1 to 63 lower-case letters, digits and hyphens, beginning with a letter or a digit"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A host that is neither an address nor a name.
    #[error(
        "`{host}` is not a host: expected an IP address or a DNS name without wildcards, e.g. 10.0.0.1 or node-1.example"
    )]
    Host {
        /// The host.
        host: String,
    },
    /// A number of days that is out of range.
    #[error("{days} days: a certificate is valid for 1 to {most} days")]
    Days {
        /// The requested days.
        days: u32,
        /// The most days.
        most: u32,
    },
    /// The authority ends before the certificate would.
    #[error(
        "the authority {path} expires on {expires}, before a certificate of {days} days would: use fewer --days, or make a new authority in another folder and all certificates anew"
    )]
    Authority {
        /// The certificate of the authority.
        path: String,
        /// The last day of the authority.
        expires: Day,
        /// The requested days.
        days: u32,
    },
    /// The key of the authority is missing.
    #[error(
        "{path}: the key of the authority is missing, so nothing can be signed: put it back, or name another folder to make a new authority"
    )]
    NoKey {
        /// The key.
        path: String,
    },
    /// A certificate with the name exists, with other properties.
    #[error(
        "{path} exists with another {what}: {found}, expected {expected}; add --renew to replace it, or choose another --name"
    )]
    Different {
        /// The certificate.
        path: String,
        /// The property that differs.
        what: &'static str,
        /// Its value in the certificate.
        found: String,
        /// The requested value.
        expected: String,
    },
    /// Some certificates have hosts, and others do not.
    #[error(
        "the certificate of {with} has hosts and others do not: it would refuse those; make all of them with --hosts, or none"
    )]
    Mixed {
        /// The node whose certificate has hosts.
        with: String,
    },
    /// A certificate that cannot be used any more.
    #[error("{path} {reason}; add --renew to replace it")]
    Unusable {
        /// The certificate.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The library could not make a certificate.
    #[error("no certificate could be made: {0}")]
    Signing(String),
}

impl From<rcgen::Error> for CertificateError {
    fn from(error: rcgen::Error) -> Self {
        Self::Signing(error.to_string())
    }
}

impl CertificateError {
    /// A file or folder that cannot be read or written.
    pub(crate) fn file(path: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Self::File { path: menagerie_files::path_text(path), reason: reason.to_string() }
    }
}
