//! [`Authority`]: the certificate authority of a cluster.

use super::certificate::{Certificate, read_bounded};
use super::day::{DAY_SECONDS, now};
use super::error::CertificateError;
use super::key_folder::KeyRequest;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The common name of an authority.
const COMMON_NAME: &str = "menagerie cluster authority";
/// Days for which an authority is valid.
const DAYS: u32 = 3650;
/// Clocks of machines may differ: certificates are valid from a day before they are made.
const SKEW: u64 = DAY_SECONDS;

/// The certificate authority of a cluster. It signs the certificates of nodes, and nothing below them.
#[derive(Debug)]
pub(crate) struct Authority {
    pub(crate) certificate: Certificate,
    pub(crate) pem: String,
    certificate_path: PathBuf,
    key_path: PathBuf,
}

/// A new certificate and its private key, as PEM texts.
pub(crate) struct SignedKey {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    /// The authority in a folder, which is made if the folder has none. Returns whether it was made.
    ///
    /// An existing key is never replaced: if only the key is there, it gets a certificate again.
    ///
    /// # Errors
    /// Files that cannot be read or written, or are not those of an authority of this program.
    pub(crate) fn open_or_create(folder: &Path) -> Result<(Self, bool), CertificateError> {
        let certificate_path = folder.join(super::AUTHORITY_FILE);
        let key_path = folder.join("ca.key");
        let made = !certificate_path.exists();
        if made {
            if !key_path.exists() {
                write_key(folder, &key_path, &KeyPair::generate()?.serialize_pem())?;
            }
            let pem = parameters(DAYS).self_signed(&key_of(&key_path)?)?.pem();
            write_whole(&certificate_path, &pem)?;
        }
        let pem = read_bounded(&certificate_path)?;
        let failed = |reason: &str| CertificateError::file(&certificate_path, reason);
        let certificate = Certificate::of_pem(pem.as_bytes()).map_err(|reason| failed(&reason))?;
        if !certificate.authority || certificate.common_name != COMMON_NAME || certificate.key.is_none() {
            return Err(failed(
                "not an authority of `menagerie cluster keys`: name another folder, or use the tools that made it",
            ));
        }
        Ok((Self { certificate, pem, certificate_path, key_path }, made))
    }

    /// The certificate of the authority.
    pub(crate) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Signs a new certificate with a new key.
    ///
    /// # Errors
    /// No key of the authority; an authority that expires before the certificate.
    pub(crate) fn sign(&self, request: &KeyRequest) -> Result<SignedKey, CertificateError> {
        let signer = self.signer()?;
        let days = request.days;
        if now() + u64::from(days) * DAY_SECONDS > self.certificate.expires {
            let path = menagerie_files::path_text(&self.certificate_path);
            return Err(CertificateError::Authority { path, expires: self.certificate.last_day(), days });
        }
        let mut wanted = CertificateParams::new(request.hosts.clone())?;
        valid_for(&mut wanted, days);
        wanted.distinguished_name = DistinguishedName::new();
        wanted.distinguished_name.push(DnType::CommonName, request.role.common_name());
        wanted.distinguished_name.push(DnType::OrganizationalUnitName, request.name.as_str());
        wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        wanted.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        wanted.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let issuer = parameters(DAYS);
        let certificate = wanted.signed_by(&key, &Issuer::from_params(&issuer, signer))?;
        Ok(SignedKey { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// The key, which must be that of the certificate.
    fn signer(&self) -> Result<KeyPair, CertificateError> {
        if !self.key_path.exists() {
            return Err(CertificateError::NoKey { path: menagerie_files::path_text(&self.key_path) });
        }
        let key = key_of(&self.key_path)?;
        if Some(parameters(DAYS).key_identifier(&key)) != self.certificate.key {
            let other = format!("not the key of {}", menagerie_files::path_text(&self.certificate_path));
            return Err(CertificateError::file(&self.key_path, other));
        }
        Ok(key)
    }
}

/// The parameters of the certificate of an authority.
fn parameters(days: u32) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    valid_for(&mut parameters, days);
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    // No authorities below this one.
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn valid_for(parameters: &mut CertificateParams, days: u32) {
    let at = |seconds: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    parameters.not_before = at(now().saturating_sub(SKEW));
    parameters.not_after = at(now() + u64::from(days) * DAY_SECONDS);
}

fn key_of(path: &Path) -> Result<KeyPair, CertificateError> {
    let text = read_bounded(path)?;
    KeyPair::from_pem(&text)
        .map_err(|error| CertificateError::file(path, format!("not a private key: {error}")))
}

/// Writes a key that only its owner may read; a file with the name is never replaced.
fn write_key(folder: &Path, path: &Path, pem: &str) -> Result<(), CertificateError> {
    let failed = |reason: &dyn std::fmt::Display| CertificateError::file(path, reason);
    // The mode of temporary files is 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    file.write_all(pem.as_bytes())
        .and_then(|()| file.as_file().sync_all())
        .map_err(|error| failed(&error))?;
    file.persist_noclobber(path).map_err(|error| failed(&error.error))?;
    Ok(())
}

/// Writes a file that appears whole or not at all.
fn write_whole(path: &Path, text: &str) -> Result<(), CertificateError> {
    let mut file = menagerie_files::AtomicFile::create(path)
        .map_err(|error| CertificateError::file(path, error.reason))?;
    file.write_all(text.as_bytes()).map_err(|error| CertificateError::file(path, error))?;
    file.commit().map_err(|error| CertificateError::file(path, error.reason))
}
