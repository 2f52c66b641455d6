//! [`ApiKeys`]: the keys with which clients may use the server.

use sha2::{Digest, Sha256};
use std::sync::{Arc, PoisonError, RwLock};
use subtle::ConstantTimeEq;

/// The mark of a key whose client may set the priority of its requests.
const PRIORITY: &str = "priority";

/// Keys, as their SHA-256. Their order numbers the clients. All copies of a value are the same keys.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys(Arc<RwLock<Vec<ApiKey>>>);

/// A key.
#[derive(Clone, Copy, Debug)]
struct ApiKey {
    digest: [u8; 32],
    /// Whether it is in the file. Its number stays its own when it is taken out.
    is_valid: bool,
    has_priority: bool,
}

impl ApiKeys {
    /// The keys of a text: one per line. Empty lines and lines that begin with `#` are left out. The word `priority` after
    /// a key allows its client to set the priority of its requests.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let key = |line: &str| {
            let marked = line.rsplit_once(char::is_whitespace).filter(|(_, mark)| *mark == PRIORITY);
            let key = marked.map_or(line, |(key, _)| key.trim_end());
            ApiKey { digest: digest(key), is_valid: true, has_priority: marked.is_some() }
        };
        Self(Arc::new(RwLock::new(lines.map(key).collect())))
    }

    /// Whether there are no keys, so that everybody may use the server.
    pub fn is_empty(&self) -> bool {
        !self.read(|keys| keys.iter().any(|key| key.is_valid))
    }

    /// The number of a key, from 1. All keys are compared, each in a time that does not depend on its bytes.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let given = digest(key);
        self.read(|keys| {
            let mut found = None;
            for (number, known) in (1..).zip(keys) {
                if bool::from(known.digest.ct_eq(&given)) && known.is_valid {
                    found = Some(number);
                }
            }
            found
        })
    }

    /// The number of the client with this salt, if its key is in the file.
    pub(crate) fn with_salt(&self, salt: &str) -> Option<u64> {
        let is_it = |number: &u64| {
            self.numbered(*number).is_some_and(|key| key.is_valid)
                && self.salt(*number).as_deref() == Some(salt)
        };
        (1..=self.read(<[ApiKey]>::len) as u64).find(is_it)
    }

    /// What separates the states of the client with this number from those of others, also after the order of the keys
    /// has changed. `None` without keys.
    pub(crate) fn salt(&self, number: u64) -> Option<Arc<str>> {
        let key = self.numbered(number)?.digest;
        Some(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }

    /// Whether the client with this number may set the priority of its requests.
    pub(crate) fn may_prioritize(&self, number: u64) -> bool {
        self.numbered(number).is_some_and(|key| key.has_priority)
    }

    /// Takes over the keys of another file, in all copies. A key keeps its number, so that nothing of a request that runs
    /// is taken for another client's. Returns how many keys are new and how many are gone.
    pub(crate) fn replace(&self, other: &Self) -> (usize, usize) {
        let mut other = other.read(|keys| keys.to_vec());
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (mut added, mut removed) = (0, 0);
        for key in keys.iter_mut() {
            let place = other.iter().position(|one| one.digest == key.digest);
            let new = place.map(|at| other.remove(at));
            added += usize::from(new.is_some() && !key.is_valid);
            removed += usize::from(new.is_none() && key.is_valid);
            (key.is_valid, key.has_priority) = (new.is_some(), new.is_some_and(|new| new.has_priority));
        }
        added += other.len();
        keys.append(&mut other);
        (added, removed)
    }

    fn numbered(&self, number: u64) -> Option<ApiKey> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.read(|keys| keys.get(place).copied())
    }

    fn read<T>(&self, read: impl FnOnce(&[ApiKey]) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
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
        assert_eq!((keys.with_salt(&turned.salt(1).unwrap()), keys.with_salt("")), (Some(2), None));
    }

    #[test]
    fn keys_keep_their_numbers_when_the_file_changes() {
        let keys = ApiKeys::parse("first\nsecond priority\n");
        assert!(keys.may_prioritize(2) && !keys.may_prioritize(1) && !keys.may_prioritize(0));
        let (copy, salt) = (keys.clone(), keys.salt(2));
        assert_eq!(keys.replace(&ApiKeys::parse("third\nsecond\n")), (1, 1));
        assert_eq!(
            (copy.number("first"), copy.number("second"), copy.number("third")),
            (None, Some(2), Some(3))
        );
        assert_eq!((copy.salt(2), copy.may_prioritize(2)), (salt, false));
        assert_eq!(keys.replace(&ApiKeys::parse("first\t priority\n")), (1, 2));
        assert_eq!((copy.number("first"), copy.number("second")), (Some(1), None));
        assert!(copy.may_prioritize(1));
        assert_eq!(keys.number("first priority"), None);
        keys.replace(&ApiKeys::default());
        assert!(copy.is_empty());
    }
}
