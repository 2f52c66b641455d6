//! [`CharacterMap`]: sentencepiece's precompiled character normalization.
//!
//! A double array trie (Kanda, 2018; darts-clone) over prefixes of the input, and the texts that replace them
//! (sentencepiece, normalizer.cc; llama-vocab.cpp, `xcda_array_view`).

use super::budget::Budget;
use super::error::TokenizerError;

/// Prefixes and their replacements.
#[derive(Debug)]
pub(crate) struct CharacterMap {
    /// Bits 10 to 30 are the base (times 256 if bit 9 is set), bits 0 to 7 the byte of this node, bit 8 tells that a
    /// value follows.
    nodes: Vec<u32>,
    /// Texts, each terminated by a 0.
    replacements: Vec<u8>,
}

/// Whether a search continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchState {
    Longer,
    Enough,
}

impl CharacterMap {
    /// Reads `tokenizer.ggml.precompiled_charsmap`: the length of the trie in bytes, the trie, the texts.
    ///
    /// # Errors
    /// A length that does not fit, in words.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let (length, rest) =
            bytes.split_first_chunk::<4>().ok_or_else(|| "shorter than its length field".to_owned())?;
        let length = u32::from_le_bytes(*length) as usize;
        let (trie, replacements) = rest
            .split_at_checked(length)
            .filter(|(trie, _)| trie.len().is_multiple_of(4) && !trie.is_empty())
            .ok_or_else(|| format!("declares a trie of {length} bytes, but {} bytes follow", rest.len()))?;
        if replacements.last().is_some_and(|last| *last != 0) {
            return Err("its last text is not terminated".to_owned());
        }
        let nodes = trie.as_chunks::<4>().0.iter().map(|node| u32::from_le_bytes(*node)).collect();
        Ok(Self { nodes, replacements: replacements.to_vec() })
    }

    /// The replacement of the longest prefix of `text` that has one: the length of the prefix in bytes, and the
    /// replacement.
    ///
    /// # Errors
    /// The budget is exhausted: a damaged trie can contain a cycle.
    pub(crate) fn replacement(
        &self,
        text: &[u8],
        budget: &Budget,
    ) -> Result<Option<(usize, &[u8])>, TokenizerError> {
        let mut longest = None;
        budget.work(self.prefixes(text, |length, at| {
            longest = Some((length, at));
            SearchState::Longer
        }))?;
        Ok(longest.and_then(|(length, at)| Some((length, self.text(at)?))))
    }

    /// The replacement of the shortest prefix of `text` that has one.
    pub(crate) fn of_shortest(&self, text: &[u8]) -> Option<&[u8]> {
        let mut shortest = None;
        self.prefixes(text, |_, at| {
            shortest = Some(at);
            SearchState::Enough
        });
        self.text(shortest?)
    }

    /// The text that begins at a byte.
    fn text(&self, at: u32) -> Option<&[u8]> {
        let text = self.replacements.get(usize::try_from(at).ok()?..)?;
        Some(text.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// Every prefix with a replacement, the shortest first: its length, and the place of its replacement. Returns the
    /// number of bytes looked at.
    fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, u32) -> SearchState) -> usize {
        let Some(root) = self.node(0) else { return 0 };
        let mut node = base(root);
        for (at, byte) in text.iter().enumerate() {
            if *byte == 0 {
                return at + 1;
            }
            node ^= u32::from(*byte);
            let packed = match self.node(node) {
                Some(packed) if packed & ((1 << 31) | 0xFF) == u32::from(*byte) => packed,
                _ => return at + 1,
            };
            node ^= base(packed);
            if packed & (1 << 8) != 0
                && let Some(value) = self.node(node)
                && found(at + 1, value & !(1 << 31)) == SearchState::Enough
            {
                return at + 1;
            }
        }
        text.len()
    }

    fn node(&self, index: u32) -> Option<u32> {
        self.nodes.get(usize::try_from(index).ok()?).copied()
    }
}

fn base(packed: u32) -> u32 {
    (packed >> 10) << ((packed & (1 << 9)) >> 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trie of a damaged file with a cycle over `a`.
    #[test]
    fn a_circle_ends_when_the_time_is_used_up() {
        let mut nodes = vec![0u32; 512];
        nodes[0] = 1 << 10 | 1 << 9;
        nodes[256 ^ 97] = 97 << 10 | 97;
        let mut bytes = (4 * nodes.len() as u32).to_le_bytes().to_vec();
        bytes.extend(nodes.iter().flat_map(|node| node.to_le_bytes()));
        bytes.push(0);
        let map = CharacterMap::read(&bytes).unwrap();
        let text = "a".repeat(1 << 17);
        let late = Budget::with_patience(0, std::time::Duration::ZERO);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(map.replacement(text.as_bytes(), &late).unwrap_err().to_string().contains("takes too long"));
        assert_eq!(map.replacement(b"aab", &Budget::of("aab")), Ok(None));
    }
}
