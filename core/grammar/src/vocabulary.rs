//! [`ModelVocabulary`]: the tokens of a model as llguidance gets them.

use crate::error::GrammarError;
use llguidance::toktrie::{
    ApproximateTokEnv, INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv,
};
use menagerie_engine::Tokenizing;
use std::sync::Arc;

/// The byte before the names of tokens that are not text; it occurs in no text.
const MARK: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
/// The most bytes of a token that is text; the trie takes no longer ones. Longer tokens are never allowed.
const MOST_TOKEN_BYTES: usize = 1000;
/// The most tokens of the trie.
const MOST_TOKENS: usize = 1 << 21;

/// The tokens of a model. Control tokens and the tokens that end an answer are not text, whatever their names.
pub(crate) struct ModelVocabulary {
    trie: TokTrie,
    tokenizer: Arc<dyn Tokenizing>,
    /// Whether the tokens of a text have exactly its bytes: an added space before the text would not fit a grammar.
    is_exact: bool,
}

impl ModelVocabulary {
    /// Builds the trie.
    ///
    /// # Errors
    /// The vocabulary is empty or too large.
    pub(crate) fn new(tokenizer: Arc<dyn Tokenizing>) -> Result<Self, GrammarError> {
        let size = tokenizer.vocabulary();
        if size == 0 || size > MOST_TOKENS {
            let reason = format!("it has {size} tokens; the number must be from 1 to {MOST_TOKENS}");
            return Err(GrammarError::Vocabulary { reason });
        }
        let ends: Vec<u32> =
            tokenizer.end_of_generation().iter().copied().filter(|&id| (id as usize) < size).collect();
        let words: Vec<Vec<u8>> = (0..size as u32).map(|id| word(&*tokenizer, &ends, id)).collect();
        let first_end = ends.first().copied().unwrap_or(INVALID_TOKEN);
        let trie = TokTrie::from(&TokRxInfo::new(size as u32, first_end), &words);
        let trie = if ends.is_empty() { trie } else { trie.with_eos_tokens(&ends) };
        let mut vocabulary = Self { trie, tokenizer, is_exact: true };
        vocabulary.is_exact =
            ["a", "{\"a\": [1, \"b c\"]}", "\": "].into_iter().all(|text| vocabulary.exact(text).is_some());
        Ok(vocabulary)
    }

    /// The tokens of a text, if they have exactly its bytes.
    fn exact(&self, text: &str) -> Option<Vec<u32>> {
        let ids = self.tokenizer.encode(text).ok()?;
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.trie.token(*id)).copied().collect();
        (bytes == text.as_bytes()).then_some(ids)
    }
}

/// The bytes of a token in the trie; empty = never allowed.
fn word(tokenizer: &dyn Tokenizing, ends: &[u32], id: u32) -> Vec<u8> {
    let bytes = tokenizer.bytes(id);
    if bytes.is_empty() || bytes.len() > MOST_TOKEN_BYTES {
        return Vec::new();
    }
    if tokenizer.is_control(id) || ends.contains(&id) {
        return [&[MARK], bytes.as_slice()].concat();
    }
    if bytes.contains(&MARK) { Vec::new() } else { bytes }
}

impl TokenizerEnv for ModelVocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let exact = std::str::from_utf8(bytes).ok().and_then(|text| self.exact(text));
        exact.unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.is_exact
    }
}

/// A vocabulary of single bytes.
pub(crate) fn bytes_alone() -> TokEnv {
    ApproximateTokEnv::single_byte_env()
}
