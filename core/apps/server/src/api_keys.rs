//! [`ApiKeys`]: the keys with which clients may use the server.

use sha2::{Digest, Sha256};
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
}
