//! [`CharacterMap`]: sentencepiece's precompiled normalisation of characters.
//!
//! A double array trie (Kanda, 2018; darts-clone) over prefixes of the input, and the texts that replace them
//! (sentencepiece, normalizer.cc; llama-vocab.cpp, `xcda_array_view`).

/// Prefixes and what replaces them.
#[derive(Debug)]
pub(crate) struct CharacterMap {
    /// Bits 10 to 30 are the base (times 256 if bit 9 is set), bits 0 to 7 the byte that leads here, bit 8 says that a
    /// value hangs below.
    nodes: Vec<u32>,
    /// Texts, each ended by a 0.
    replacements: Vec<u8>,
}

/// Whether a search goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
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
            .ok_or_else(|| format!("says its trie has {length} bytes, and {} bytes follow", rest.len()))?;
        if replacements.last().is_some_and(|last| *last != 0) {
            return Err("the last of its texts does not end".to_owned());
        }
        let nodes = trie.as_chunks::<4>().0.iter().map(|node| u32::from_le_bytes(*node)).collect();
        Ok(Self { nodes, replacements: replacements.to_vec() })
    }

    /// What stands for the longest prefix of `text` that is replaced: how many bytes that is, and the text.
    pub(crate) fn replacement(&self, text: &[u8]) -> Option<(usize, &[u8])> {
        let mut longest = None;
        self.prefixes(text, |length, at| {
            longest = Some((length, at));
            Next::Longer
        });
        let (length, at) = longest?;
        Some((length, self.text(at)?))
    }

    /// What stands for the shortest prefix of `text` that is replaced.
    pub(crate) fn of_shortest(&self, text: &[u8]) -> Option<&[u8]> {
        let mut shortest = None;
        self.prefixes(text, |_, at| {
            shortest = Some(at);
            Next::Enough
        });
        self.text(shortest?)
    }

    /// The text that begins at a byte.
    fn text(&self, at: u32) -> Option<&[u8]> {
        let text = self.replacements.get(usize::try_from(at).ok()?..)?;
        Some(text.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// Every prefix that is replaced, the shortest first: its length, and where its text is.
    fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, u32) -> Next) {
        let Some(root) = self.node(0) else { return };
        let mut node = base(root);
        for (at, byte) in text.iter().enumerate() {
            if *byte == 0 {
                break;
            }
            node ^= u32::from(*byte);
            let packed = match self.node(node) {
                Some(packed) if packed & ((1 << 31) | 0xFF) == u32::from(*byte) => packed,
                _ => break,
            };
            node ^= base(packed);
            if packed & (1 << 8) != 0
                && let Some(value) = self.node(node)
                && found(at + 1, value & !(1 << 31)) == Next::Enough
            {
                break;
            }
        }
    }

    fn node(&self, index: u32) -> Option<u32> {
        self.nodes.get(usize::try_from(index).ok()?).copied()
    }
}

fn base(packed: u32) -> u32 {
    (packed >> 10) << ((packed & (1 << 9)) >> 6)
}
