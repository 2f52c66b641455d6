//! [`ApiKeys`]: the keys with which clients may use the server.

use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Keys, as their SHA-256. Their order numbers the clients.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys(Vec<[u8; 32]>);

impl ApiKeys {
    /// The keys of a text: one per line. Empty lines and lines that begin with `#` are left out.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(digest).collect())
    }

    /// Whether there are no keys, so that everybody may use the server.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of a key, from 1. All keys are compared, each in a time that does not depend on its bytes.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let given = digest(key);
        let mut found = None;
        for (number, known) in (1..).zip(&self.0) {
            if bool::from(known.ct_eq(&given)) {
                found = Some(number);
            }
        }
        found
    }

    /// What separates the states of the client with this number from those of others, also after the order of the keys
    /// has changed. `None` without keys.
    pub(crate) fn salt(&self, number: u64) -> Option<Arc<str>> {
        let key = self.0.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        Some(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_by_line() {
        let keys = ApiKeys::parse("# of the team\n first \n\nsecond\n");
        assert_eq!((keys.number("first"), keys.number("second")), (Some(1), Some(2)));
        assert_eq!((keys.number("# of the team"), keys.number(""), keys.number("firs")), (None, None, None));
        assert!(ApiKeys::parse("\n# none\n").is_empty());
    }

    #[test]
    fn a_salt_belongs_to_a_key_and_not_to_its_place() {
        let (keys, turned) = (ApiKeys::parse("first\nsecond"), ApiKeys::parse("second\nfirst"));
        assert_eq!((keys.salt(1), keys.salt(2)), (turned.salt(2), turned.salt(1)));
        assert!(keys.salt(1).is_some() && keys.salt(1) != keys.salt(2));
        assert_eq!((keys.salt(0), keys.salt(3)), (None, None));
    }
}
