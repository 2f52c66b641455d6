//! Names of nodes and hosts, checked before they become parts of paths and certificates.

use super::error::CertificateError;
use std::net::IpAddr;

/// The longest name of a node, as of a label of a DNS name.
const LONGEST_NAME: usize = 63;
/// The longest DNS name.
const LONGEST_HOST: usize = 253;

/// Checks the name of a node. It becomes the name of a folder, so it has neither dots nor upper-case letters.
pub(crate) fn check_name(name: &str) -> Result<(), CertificateError> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(good) && !name.starts_with('-') {
        true => Ok(()),
        false => Err(CertificateError::Name { name: name.to_owned() }),
    }
}

/// Checks a host: an address, or a DNS name without wildcards.
pub(crate) fn check_host(host: &str) -> Result<(), CertificateError> {
    let label = |label: &str| {
        (1..=LONGEST_NAME).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = || host.len() <= LONGEST_HOST && host.split('.').all(label);
    // Four numbers with dots are an address or an error, never a name.
    let numbers = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match host.parse::<IpAddr>().is_ok() || (!numbers && name()) {
        true => Ok(()),
        false => Err(CertificateError::Host { host: host.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_names_of_folders() {
        let long = "a".repeat(64);
        for name in ["", "..", ".", "a/b", "A", "a b", "-a", "a\u{1b}", &long] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["stage-1", "0", &long[..63]] {
            check_name(name).unwrap();
        }
    }

    #[test]
    fn hosts_are_addresses_or_names() {
        for host in
            ["", "a..b", "*.example", "10.0.0.300", "10.0.0", "a_b", "-a", "a-", "fe80::1%eth0", "a/b"]
        {
            assert!(check_host(host).is_err(), "{host}");
        }
        for host in ["10.0.0.1", "::1", "localhost", "Node-1.Example", "3com.example"] {
            check_host(host).unwrap();
        }
    }
}
