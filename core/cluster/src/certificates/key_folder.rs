//! [`KeyFolder`]: the folder of an authority, with a folder for each node.

use super::authority::Authority;
use super::certificate::Certificate;
use super::day::{DAY_SECONDS, now};
use super::error::CertificateError;
use super::names::{check_host, check_name};
use super::role::NodeRole;
use super::{AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE};
use menagerie_files::{AtomicFolder, FileLock, path_text};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The most days of a certificate of a node.
const MOST_DAYS: u32 = 3650;
/// The most hosts of a certificate.
const MOST_HOSTS: usize = 256;
/// The most folders of nodes that are listed.
const MOST_NODES: usize = 10_000;
/// Days before the end from which a certificate counts as expiring.
const SOON_DAYS: u64 = 30;

/// The certificate that a node should have.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// The name of the node, and of its folder.
    pub name: String,
    /// What the node does.
    pub role: NodeRole,
    /// Addresses and DNS names under which others connect to the node. If there are none, others do not compare the
    /// address with the certificate; this is the same for all nodes of a folder.
    pub hosts: Vec<String>,
    /// Days until it expires.
    pub days: u32,
}

/// What was done for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// There was no certificate with the name.
    Created,
    /// The certificate with the name has the requested properties and was not changed.
    Kept,
    /// The certificate and its key were replaced.
    Renewed,
}

impl Issue {
    /// The word for it in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Kept => "kept",
            Self::Renewed => "renewed",
        }
    }
}

/// Whether a certificate can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// It is valid for more than 30 days.
    Valid,
    /// It expires within 30 days.
    ExpiresSoon,
    /// It has expired.
    Expired,
    /// Another authority has signed it.
    Foreign,
    /// It cannot be read, or its key is missing.
    Damaged(String),
}

impl CertificateState {
    /// The state as text.
    pub fn text(&self) -> String {
        match self {
            Self::Valid => "valid".to_owned(),
            Self::ExpiresSoon => "expires soon".to_owned(),
            Self::Expired => "expired".to_owned(),
            Self::Foreign => "of another authority".to_owned(),
            Self::Damaged(reason) => format!("damaged: {reason}"),
        }
    }
}

/// A certificate of a folder.
#[derive(Clone, Debug)]
pub struct ListedCertificate {
    /// The name of the folder of the node.
    pub name: String,
    /// What the certificate says; `None` if it cannot be read.
    pub certificate: Option<Certificate>,
    /// Whether it can be used.
    pub state: CertificateState,
}

/// The folder of an authority, with a folder for each node.
#[derive(Debug)]
pub struct KeyFolder {
    path: PathBuf,
    authority: Authority,
    created: bool,
    /// One process at a time writes the folder.
    _lock: FileLock,
}

impl KeyFolder {
    /// The folder at `path`; it is made if it does not exist, and gets an authority if it has none.
    ///
    /// # Errors
    /// Files that cannot be read or written, or are not those of an authority of this program; another process that writes
    /// the folder.
    pub fn open_or_create(path: impl Into<PathBuf>) -> Result<Self, CertificateError> {
        let path = path.into();
        let failed = |reason: &dyn std::fmt::Display| CertificateError::file(&path, reason);
        if !path.exists() {
            private_folder(&path).map_err(|error| failed(&error))?;
        }
        let lock = FileLock::beside(path.join("ca.key")).map_err(|error| failed(&error))?;
        let lock = lock
            .ok_or_else(|| failed(&"another process makes certificates here: try again when it has ended"))?;
        let (authority, created) = Authority::open_or_create(&path)?;
        Ok(Self { path, authority, created, _lock: lock })
    }

    /// The certificate of the authority.
    pub fn authority(&self) -> &Certificate {
        self.authority.certificate()
    }

    /// Whether the authority was made when the folder was opened.
    pub fn is_new(&self) -> bool {
        self.created
    }

    /// The folder with the certificate and the key of a node.
    pub fn node_folder(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the certificate of a node, or keeps the one that it has. With `renew` the one that it has is replaced.
    ///
    /// # Errors
    /// A name, host or number of days that is not allowed; a certificate that exists with another role or other hosts, or
    /// can no longer be used; files that cannot be read or written.
    pub fn issue(&self, request: &KeyRequest, renew: bool) -> Result<Issue, CertificateError> {
        check(request)?;
        let folder = self.node_folder(&request.name);
        let exists = folder.exists();
        if exists && !renew {
            return self.keep(request, &folder).map(|()| Issue::Kept);
        }
        self.check_hosts(request)?;
        let signed = self.authority.sign(request)?;
        let failed = |error: menagerie_files::FileError| CertificateError::file(&folder, error.reason);
        let made = AtomicFolder::create(&folder).map_err(failed)?;
        for (name, text, secret) in [
            (AUTHORITY_FILE, &self.authority.pem, false),
            (CERTIFICATE_FILE, &signed.certificate, false),
            (KEY_FILE, &signed.key, true),
        ] {
            write_new(&made.path().join(name), text, secret)
                .map_err(|error| CertificateError::file(&folder, error))?;
        }
        made.commit().map_err(failed)?;
        Ok(if exists { Issue::Renewed } else { Issue::Created })
    }

    /// Checks that either all nodes have hosts in their certificates, or none: a node whose certificate has some compares
    /// those of others with their addresses.
    fn check_hosts(&self, request: &KeyRequest) -> Result<(), CertificateError> {
        let others = self.certificates()?.into_iter().filter(|other| other.name != request.name);
        for other in others {
            let Some(certificate) = other.certificate else { continue };
            if certificate.hosts.is_empty() != request.hosts.is_empty() {
                let with = if request.hosts.is_empty() { other.name } else { request.name.clone() };
                return Err(CertificateError::Mixed { with });
            }
        }
        Ok(())
    }

    /// Checks that an existing certificate is the requested one.
    fn keep(&self, request: &KeyRequest, folder: &Path) -> Result<(), CertificateError> {
        let path = path_text(&folder.join(CERTIFICATE_FILE));
        let (certificate, state) = self.examine(folder);
        let unusable = |reason: String| CertificateError::Unusable { path: path.clone(), reason };
        let Some(certificate) = certificate else { return Err(unusable(format!("is {}", state.text()))) };
        match state {
            CertificateState::Valid | CertificateState::ExpiresSoon => {}
            CertificateState::Expired => {
                return Err(unusable(format!("expired on {}", certificate.last_day())));
            }
            CertificateState::Foreign | CertificateState::Damaged(_) => {
                return Err(unusable(format!("is {}", state.text())));
            }
        }
        let different = |what, found: &str, expected: &str| {
            let (found, expected) = (found.to_owned(), expected.to_owned());
            Err(CertificateError::Different { path: path.clone(), what, found, expected })
        };
        if certificate.role() != Some(request.role) {
            return different("role", certificate.role().map_or("none", NodeRole::name), request.role.name());
        }
        let hosts = |hosts: &[String]| {
            // Addresses have several forms.
            let form = |host: &String| {
                host.parse().map_or(host.clone(), |address: std::net::IpAddr| address.to_string())
            };
            let mut hosts: Vec<String> = hosts.iter().map(form).collect();
            hosts.sort();
            hosts.join(",")
        };
        let (found, expected) = (hosts(&certificate.hosts), hosts(&request.hosts));
        if found != expected {
            return different("list of hosts", &found, &expected);
        }
        Ok(())
    }

    /// The certificates of all nodes, by name.
    ///
    /// # Errors
    /// The folder cannot be read, or has more than 10,000 entries.
    pub fn certificates(&self) -> Result<Vec<ListedCertificate>, CertificateError> {
        let failed = |error: std::io::Error| CertificateError::file(&self.path, error);
        let mut listed = Vec::new();
        for (count, entry) in std::fs::read_dir(&self.path).map_err(failed)?.enumerate() {
            if count == MOST_NODES {
                return Err(CertificateError::file(
                    &self.path,
                    "more than 10,000 entries: not a folder of certificates",
                ));
            }
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if check_name(&name).is_ok() && entry.path().is_dir() {
                let (certificate, state) = self.examine(&entry.path());
                listed.push(ListedCertificate { name, certificate, state });
            }
        }
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    /// The certificate in the folder of a node, and whether it can be used.
    fn examine(&self, folder: &Path) -> (Option<Certificate>, CertificateState) {
        let certificate = match Certificate::read(folder.join(CERTIFICATE_FILE)) {
            Ok(certificate) => certificate,
            Err(error) => return (None, CertificateState::Damaged(error.to_string())),
        };
        let soon = now() + SOON_DAYS * DAY_SECONDS;
        let state = if !folder.join(KEY_FILE).is_file() {
            CertificateState::Damaged(format!("{KEY_FILE} is missing"))
        } else if !certificate.is_of(self.authority()) {
            CertificateState::Foreign
        } else if certificate.is_expired() {
            CertificateState::Expired
        } else if certificate.expires < soon {
            CertificateState::ExpiresSoon
        } else {
            CertificateState::Valid
        };
        (Some(certificate), state)
    }
}

fn check(request: &KeyRequest) -> Result<(), CertificateError> {
    let KeyRequest { name, role: _, hosts, days } = request;
    check_name(name)?;
    if hosts.len() > MOST_HOSTS {
        return Err(CertificateError::Host { host: format!("{} hosts", hosts.len()) });
    }
    hosts.iter().try_for_each(|host| check_host(host))?;
    match (1..=MOST_DAYS).contains(days) {
        true => Ok(()),
        false => Err(CertificateError::Days { days: *days, most: MOST_DAYS }),
    }
}

/// A folder, with those around it, that only its owner may read.
fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Writes a new file; a secret one may be read by its owner only.
fn write_new(path: &Path, text: &str, secret: bool) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if secret { 0o600 } else { 0o644 });
    let _ = secret;
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
