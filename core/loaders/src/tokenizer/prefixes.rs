//! [`Prefixes`]: the tokens that are prefixes of a text.

use super::budget::Budget;
use super::error::TokenizerError;

/// Texts of tokens in byte order; a look-up narrows a range of them byte by byte.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    bytes: Vec<u8>,
    /// Sorted by text.
    entries: Vec<PrefixEntry>,
    /// The start of the texts with each first byte; one more entry than bytes.
    starts: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct PrefixEntry {
    start: usize,
    length: usize,
    id: u32,
}

impl Prefixes {
    /// The texts of these tokens; empty ones are skipped, and the last of equal ones is kept.
    pub(crate) fn new<T: AsRef<[u8]>>(tokens: impl Iterator<Item = (u32, T)>) -> Self {
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for (id, text) in tokens {
            let text = text.as_ref();
            if !text.is_empty() {
                entries.push(PrefixEntry { start: bytes.len(), length: text.len(), id });
                bytes.extend_from_slice(text);
            }
        }
        entries.sort_by(|a, b| text_of(&bytes, a).cmp(text_of(&bytes, b)).then(b.id.cmp(&a.id)));
        entries.dedup_by(|later, kept| text_of(&bytes, later) == text_of(&bytes, kept));
        let begins = |byte: usize| {
            entries.partition_point(|entry| {
                text_of(&bytes, entry).first().is_some_and(|first| usize::from(*first) < byte)
            })
        };
        let starts = (0..=256).map(begins).collect();
        Self { bytes, entries, starts }
    }

    /// Every token that is a prefix of `text`, the shortest first: its length in bytes, and its id.
    ///
    /// # Errors
    /// The budget's time is exhausted.
    pub(crate) fn of(
        &self,
        text: &[u8],
        budget: &Budget,
        found: impl FnMut(usize, u32),
    ) -> Result<(), TokenizerError> {
        budget.work(self.walk(text, found))
    }

    /// Finds them; returns the number of bytes looked at.
    fn walk(&self, text: &[u8], mut found: impl FnMut(usize, u32)) -> usize {
        let Some(first) = text.first().map(|first| usize::from(*first)) else {
            return 0;
        };
        let bounds = self.starts.get(first).zip(self.starts.get(first + 1));
        let mut left = bounds.and_then(|(from, to)| self.entries.get(*from..*to)).unwrap_or_default();
        for depth in 1..=text.len() {
            match left.first() {
                None => return depth,
                Some(entry) if entry.length == depth => {
                    found(depth, entry.id);
                    left = left.get(1..).unwrap_or_default();
                }
                Some(_) => {}
            }
            let Some(next) = text.get(depth) else {
                return depth;
            };
            let byte = |entry: &PrefixEntry| self.bytes.get(entry.start + depth).copied().unwrap_or_default();
            let from = left.partition_point(|entry| byte(entry) < *next);
            let to = left.partition_point(|entry| byte(entry) <= *next);
            left = left.get(from..to).unwrap_or_default();
        }
        text.len()
    }

    /// The longest token that is a prefix of `text`: its length in bytes, and its id.
    ///
    /// # Errors
    /// The errors of [`Self::of`].
    pub(crate) fn longest(
        &self,
        text: &[u8],
        budget: &Budget,
    ) -> Result<Option<(usize, u32)>, TokenizerError> {
        let mut longest = None;
        self.of(text, budget, |length, id| longest = Some((length, id)))?;
        Ok(longest)
    }
}

fn text_of<'b>(bytes: &'b [u8], entry: &PrefixEntry) -> &'b [u8] {
    bytes.get(entry.start..entry.start + entry.length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A token that almost matches at every position.
    #[test]
    fn walks_end_when_the_time_is_used_up() {
        let prefixes = Prefixes::new([(0, "a".repeat(1 << 17) + "b")].into_iter());
        let text = "a".repeat(1 << 17);
        let late = Budget::with_patience(0, std::time::Duration::ZERO);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(prefixes.longest(text.as_bytes(), &late).unwrap_err().to_string().contains("takes too long"));
        assert_eq!(prefixes.longest(text.as_bytes(), &Budget::of(&text)), Ok(None));
    }

    proptest! {
        #[test]
        fn all_prefixes_are_found(
            tokens in prop::collection::vec("[ab\u{e9}]{0,5}", 0..40),
            text in "[abc\u{e9}]{0,12}",
        ) {
            let prefixes = Prefixes::new((0u32..).zip(&tokens));
            let mut found = Vec::new();
            let budget = Budget::of(&text);
            prefixes.of(text.as_bytes(), &budget, |length, id| found.push((length, id))).unwrap();
            let mut expected: Vec<(usize, u32)> = Vec::new();
            for (id, token) in (0u32..).zip(&tokens) {
                if !token.is_empty() && text.starts_with(token.as_str()) {
                    expected.retain(|(length, _)| *length != token.len());
                    expected.push((token.len(), id));
                }
            }
            expected.sort_unstable();
            prop_assert_eq!(&found, &expected);
            let longest = prefixes.longest(text.as_bytes(), &budget).unwrap();
            prop_assert_eq!(longest, expected.last().copied());
        }
    }
}
