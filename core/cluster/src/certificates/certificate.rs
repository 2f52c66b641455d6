//! [`Certificate`]: what a file with a certificate says.

use super::day::{Day, now};
use super::error::CertificateError;
use super::role::NodeRole;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::X509Certificate;

/// The most bytes of a file with certificates.
const MOST_BYTES: u64 = 1 << 20;

/// What a certificate says. Its signature is not checked: peers do that when they connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The common name.
    pub common_name: String,
    /// The name of the node, which is the organizational unit; empty if there is none.
    pub node: String,
    /// The hosts that it is for: addresses and DNS names.
    pub hosts: Vec<String>,
    /// The last second in which it is valid, since 1970.
    pub expires: u64,
    /// Whether it is that of an authority.
    pub authority: bool,
    /// The identifier of its own key, if it is that of an authority.
    pub(crate) key: Option<Vec<u8>>,
    /// The identifier of the key that signed it.
    pub(crate) signed_by: Option<Vec<u8>>,
}

impl Certificate {
    /// Reads the first certificate of a PEM file.
    ///
    /// # Errors
    /// The file cannot be read, is larger than a mebibyte, or does not begin with a certificate.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CertificateError> {
        let path = path.as_ref();
        let text = read_bounded(path)?;
        Self::of_pem(text.as_bytes()).map_err(|reason| CertificateError::file(path, reason))
    }

    /// Reads the first certificate of a PEM text.
    pub(crate) fn of_pem(pem: &[u8]) -> Result<Self, String> {
        let (_, block) = parse_x509_pem(pem).map_err(|error| format!("not a PEM file: {error}"))?;
        if block.label != "CERTIFICATE" {
            return Err(format!("expected a certificate, found \"{}\"", block.label));
        }
        let parsed = block.parse_x509().map_err(|error| format!("not a certificate: {error}"))?;
        Ok(Self::of_parsed(&parsed))
    }

    fn of_parsed(parsed: &X509Certificate<'_>) -> Self {
        let subject = parsed.subject();
        let first = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let mut certificate = Self {
            common_name: first(subject.iter_common_name().find_map(|name| name.as_str().ok())),
            node: first(subject.iter_organizational_unit().find_map(|name| name.as_str().ok())),
            hosts: Vec::new(),
            expires: u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0),
            authority: parsed.is_ca(),
            key: None,
            signed_by: None,
        };
        for extension in parsed.iter_extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    certificate.hosts = names.general_names.iter().filter_map(host).collect();
                }
                ParsedExtension::SubjectKeyIdentifier(key) => certificate.key = Some(key.0.to_vec()),
                ParsedExtension::AuthorityKeyIdentifier(by) => {
                    certificate.signed_by = by.key_identifier.as_ref().map(|key| key.0.to_vec());
                }
                _ => {}
            }
        }
        certificate
    }

    /// The role, if the common name is that of a role.
    pub fn role(&self) -> Option<NodeRole> {
        NodeRole::from_common_name(&self.common_name)
    }

    /// The last day.
    pub fn last_day(&self) -> Day {
        Day::of_seconds(self.expires)
    }

    /// Whether it has expired.
    pub fn is_expired(&self) -> bool {
        self.expires < now()
    }

    /// Whether the key of an authority is named as the one that signed it.
    pub(crate) fn is_of(&self, authority: &Self) -> bool {
        self.signed_by.is_some() && self.signed_by == authority.key
    }
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four: Option<[u8; 4]> = (*bytes).try_into().ok();
            let sixteen: Option<[u8; 16]> = (*bytes).try_into().ok();
            four.map(IpAddr::from).or(sixteen.map(IpAddr::from)).map(|address| address.to_string())
        }
        _ => None,
    }
}

/// The text of a small file.
pub(crate) fn read_bounded(path: &Path) -> Result<String, CertificateError> {
    let failed = |reason: &dyn std::fmt::Display| CertificateError::file(path, reason);
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(failed(&"larger than 1 MiB: not a file with certificates")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        for text in [
            "",
            "x",
            "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\nMIIB\n",
        ] {
            assert!(Certificate::of_pem(text.as_bytes()).is_err(), "{text}");
        }
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        assert!(Certificate::of_pem(key.as_bytes()).unwrap_err().contains("PRIVATE KEY"));
    }

    #[test]
    fn a_changed_or_cut_certificate_never_panics() {
        let pem = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap().cert.pem();
        let mut random = 7u32;
        for _ in 0..2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut bytes = pem.clone().into_bytes();
            let at = (random >> 8) as usize % bytes.len();
            bytes[at] = (random & 0x7f) as u8;
            let _ = Certificate::of_pem(&bytes);
            let _ = Certificate::of_pem(&bytes[..at]);
        }
    }
}
