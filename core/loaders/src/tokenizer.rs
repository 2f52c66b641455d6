//! Text to token ids and back, from the tokenizer that a GGUF file carries.

mod bpe;
mod byte_letters;
mod decoder;
mod ends;
mod error;
mod keys;
mod kind;
mod merges;
mod pre_table;
mod special;
mod splitter;
mod spm;
mod text_index;
mod vocabulary;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gguf_file::Metadata;

pub use decoder::{TextDecoder, TextDecoderOptions};
pub use error::TokenizerError;
pub use kind::TokenKind;
pub use pre_table::PreTokenizerTable;
pub use special::Special;

use crate::segment::Segment;
use bpe::Bpe;
use pre_table::PreEntry;
use special::{Fragment, SpecialTokens, Trust};
use spm::Spm;
use vocabulary::Vocabulary;

/// A vocabulary with its way of cutting text; cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Tokenizer {
    parts: Arc<Parts>,
    ends: Arc<[u32]>,
}

struct Parts {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    algorithm: Algorithm,
    model: String,
    pre: Option<String>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
}

enum Algorithm {
    Spm(Spm),
    Bpe(Bpe),
}

impl Tokenizer {
    /// Builds the tokenizer of a file.
    ///
    /// `spec_pre` is the pre-tokenizer that counts where the file names none (a spec's `[tokenizer] pre`).
    /// Errors: an algorithm other than `llama` and `gpt2`, an unknown or missing pre-tokenizer, damaged lists.
    pub fn from_gguf(metadata: &Metadata, spec_pre: Option<&str>) -> Result<Self, TokenizerError> {
        let model = keys::text(metadata, keys::MODEL)?.ok_or(TokenizerError::MissingKey {
            key: keys::MODEL,
            advice: "the file holds no tokenizer; use one that does, or give token ids",
        })?;
        match model {
            "llama" => Self::build_spm(metadata, model),
            "gpt2" => {
                let pre = keys::text(metadata, keys::PRE)?.filter(|pre| !pre.is_empty()).or(spec_pre);
                Self::build_bpe(metadata, model, pre.ok_or(TokenizerError::MissingPre)?)
            }
            "gemma4" => Self::build_bpe(metadata, model, "gemma4"),
            other => Err(TokenizerError::UnsupportedModel { model: other.to_owned(), what: describe(other) }),
        }
    }

    fn build_spm(metadata: &Metadata, model: &str) -> Result<Self, TokenizerError> {
        if keys::flag(metadata, keys::REMOVE_EXTRA_WHITESPACES)? == Some(true) {
            return Err(TokenizerError::BadKey {
                key: keys::REMOVE_EXTRA_WHITESPACES.to_owned(),
                problem: "removing white space is not supported for a `llama` vocabulary".to_owned(),
            });
        }
        let mut vocabulary = Vocabulary::read(metadata, true)?;
        let size = vocabulary.len();
        // Ids that a file need not give: llama-vocab.cpp, "default special tokens".
        let default = |id: u32| Some(id).filter(|id| usize::try_from(*id).is_ok_and(|id| id < size));
        let bos = keys::token_id(metadata, keys::BOS, size)?.or(default(1));
        let eos = keys::token_id(metadata, keys::EOS, size)?.or(default(2));
        let unknown = keys::token_id(metadata, keys::UNKNOWN, size)?.or(default(0));
        let ends = ends::find(metadata, &mut vocabulary, eos)?;
        let space_prefix = keys::flag(metadata, keys::ADD_SPACE_PREFIX)?.unwrap_or(true);
        let algorithm = Algorithm::Spm(Spm::new(&vocabulary, unknown, space_prefix));
        Self::finish(
            metadata,
            vocabulary,
            algorithm,
            Settings { model, pre: None, bos, eos, add_bos: true, ends },
        )
    }

    fn build_bpe(metadata: &Metadata, model: &str, pre: &str) -> Result<Self, TokenizerError> {
        let entry: &PreEntry = PreTokenizerTable::built_in()?.entry(pre)?;
        let mut vocabulary = Vocabulary::read(metadata, false)?;
        let size = vocabulary.len();
        let bos = keys::token_id(metadata, keys::BOS, size)?;
        let eos = keys::token_id(metadata, keys::EOS, size)?;
        let ends = ends::find(metadata, &mut vocabulary, eos)?;
        let algorithm = Algorithm::Bpe(Bpe::new(metadata, &vocabulary, entry)?);
        let add_bos = entry.add_bos && bos.is_some();
        Self::finish(
            metadata,
            vocabulary,
            algorithm,
            Settings { model, pre: Some(pre), bos, eos, add_bos, ends },
        )
    }

    fn finish(
        metadata: &Metadata,
        vocabulary: Vocabulary,
        algorithm: Algorithm,
        settings: Settings<'_>,
    ) -> Result<Self, TokenizerError> {
        let Settings { model, pre, bos, eos, add_bos, ends } = settings;
        let add_bos = keys::flag(metadata, keys::ADD_BOS)?.unwrap_or(add_bos);
        let add_eos = keys::flag(metadata, keys::ADD_EOS)?.unwrap_or(false);
        for (add, id, key, of) in
            [(add_bos, bos, keys::ADD_BOS, keys::BOS), (add_eos, eos, keys::ADD_EOS, keys::EOS)]
        {
            if add && id.is_none() {
                let problem = format!("true, but `{of}` names no token of the vocabulary");
                return Err(TokenizerError::BadKey { key: key.to_owned(), problem });
            }
        }
        let name = keys::text(metadata, keys::GENERAL_NAME).ok().flatten().unwrap_or_default();
        let strips = PreTokenizerTable::built_in()?.strips_after(name);
        let strip_after = if strips { special::strips_after(&vocabulary) } else { Default::default() };
        let special = SpecialTokens::new(&vocabulary, strip_after);
        let (model, pre) = (model.to_owned(), pre.map(str::to_owned));
        let parts = Parts { vocabulary, special, algorithm, model, pre, bos, eos, add_bos, add_eos };
        Ok(Self { parts: Arc::new(parts), ends: ends.into_iter().collect() })
    }

    /// The same tokenizer with more end-of-generation tokens (a spec's `[tokenizer] end`); texts that the vocabulary
    /// does not have are left out.
    pub fn with_end_tokens<S: AsRef<str>>(self, texts: &[S]) -> Self {
        let mut ends: BTreeSet<u32> = self.ends.iter().copied().collect();
        ends.extend(texts.iter().filter_map(|text| self.id_of(text.as_ref())));
        Self { parts: self.parts, ends: ends.into_iter().collect() }
    }

    /// The ids of a text, without beginning- and end-of-sequence tokens (see [`Self::frame`]).
    ///
    /// Errors: a character that the vocabulary cannot express, a text on which the pre-tokenizer gives up.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        self.encode_fragments(text, Trust::Whole(special))
    }

    /// The ids of a prompt in parts, encoded as one text; only what lies wholly in trusted parts can name special tokens.
    pub fn encode_segments(&self, segments: &[Segment]) -> Result<Vec<u32>, TokenizerError> {
        let mut text = String::with_capacity(segments.iter().map(|segment| segment.text.len()).sum());
        let mut trusted: Vec<Range<usize>> = Vec::new();
        for segment in segments {
            let start = text.len();
            text.push_str(&segment.text);
            match trusted.last_mut() {
                Some(last) if segment.trusted && last.end == start => last.end = text.len(),
                _ if segment.trusted && text.len() > start => trusted.push(start..text.len()),
                _ => {}
            }
        }
        self.encode_fragments(&text, Trust::Ranges(&trusted))
    }

    fn encode_fragments(&self, text: &str, trust: Trust<'_>) -> Result<Vec<u32>, TokenizerError> {
        let vocabulary = &self.parts.vocabulary;
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut after_special = true;
        for fragment in self.parts.special.partition(vocabulary, text, trust) {
            match (fragment, &self.parts.algorithm) {
                (Fragment::Token(id), _) => ids.push(id),
                (Fragment::Text(part), Algorithm::Bpe(bpe)) => bpe.encode(vocabulary, part, &mut ids)?,
                (Fragment::Text(part), Algorithm::Spm(spm)) => {
                    spm.encode(vocabulary, part, spm.space_prefix && after_special, &mut ids)?;
                }
            }
            after_special = matches!(fragment, Fragment::Token(_));
        }
        Ok(ids)
    }

    /// Puts the beginning-of-sequence token first and the end-of-sequence token last, where the model wants them and
    /// they are not there already (a chat template may have written them).
    pub fn frame(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos().filter(|bos| self.parts.add_bos && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        if let Some(eos) = self.eos().filter(|eos| self.parts.add_eos && ids.last() != Some(eos)) {
            ids.push(eos);
        }
        ids
    }

    /// The text of ids from the start of a text; special tokens by name if `show_special`, else left out.
    pub fn decode(&self, ids: &[u32], show_special: bool) -> Result<String, TokenizerError> {
        let mut decoder = TextDecoder::new(self, TextDecoderOptions { show_special, at_start: true });
        let mut text = String::new();
        for id in ids {
            text.push_str(&decoder.push(*id)?);
        }
        text.push_str(&decoder.flush());
        Ok(text)
    }

    /// What `tokenizer.ggml.model` says: `llama` (SPM), `gpt2` (byte-level BPE) or `gemma4`.
    pub fn model(&self) -> &str {
        &self.parts.model
    }

    /// The pre-tokenizer in use, or `None` for SPM.
    pub fn pre(&self) -> Option<&str> {
        self.parts.pre.as_deref()
    }

    /// How many tokens the vocabulary has; a model's embedding may have more rows.
    pub fn vocab_size(&self) -> usize {
        self.parts.vocabulary.len()
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.parts.bos
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.parts.eos
    }

    /// Whether prompts begin with [`Self::bos`].
    pub fn adds_bos(&self) -> bool {
        self.parts.add_bos
    }

    /// Whether prompts end with [`Self::eos`].
    pub fn adds_eos(&self) -> bool {
        self.parts.add_eos
    }

    /// Whether text gets a space before its first word (SPM).
    pub fn adds_space_prefix(&self) -> bool {
        matches!(&self.parts.algorithm, Algorithm::Spm(spm) if spm.space_prefix)
    }

    /// All ids that end a generation, sorted.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.ends
    }

    /// Whether an id ends a generation.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The id whose text in the vocabulary is exactly this one.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.parts.vocabulary.id(text)
    }

    /// The text of a token as the vocabulary spells it (`Ġthe`, `▁the`, `<0x0A>`).
    pub fn token_text(&self, id: u32) -> Result<&str, TokenizerError> {
        self.parts.vocabulary.text(id).ok_or(TokenizerError::IdOutOfRange { id, size: self.vocab_size() })
    }

    /// The kind of a token.
    pub fn token_kind(&self, id: u32) -> Result<TokenKind, TokenizerError> {
        self.token_text(id).map(|_| self.parts.vocabulary.kind(id))
    }

    /// The bytes that a token stands for, special tokens by name; unused places give none.
    pub fn token_bytes(&self, id: u32) -> Result<Vec<u8>, TokenizerError> {
        let text = self.token_text(id)?;
        Ok(match self.parts.vocabulary.kind(id) {
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined => text.as_bytes().to_vec(),
            TokenKind::Unused => Vec::new(),
            TokenKind::Byte => byte_of(text).map_or_else(|| text.as_bytes().to_vec(), |byte| vec![byte]),
            TokenKind::Normal if self.spells_byte_letters() => {
                let bytes: Option<Vec<u8>> = text.chars().map(byte_letters::byte).collect();
                bytes.unwrap_or_else(|| text.as_bytes().to_vec())
            }
            TokenKind::Normal => text.replace(spm::SPACE, " ").into_bytes(),
        })
    }

    fn spells_byte_letters(&self) -> bool {
        matches!(&self.parts.algorithm, Algorithm::Bpe(bpe) if !bpe.spells_text())
    }

    /// The bytes of a token as text, incomplete characters as U+FFFD: for listings.
    pub fn token_piece(&self, id: u32) -> Result<String, TokenizerError> {
        Ok(String::from_utf8_lossy(&self.token_bytes(id)?).into_owned())
    }

    /// The texts that only trusted text can turn into their tokens, by id.
    pub fn guarded_texts(&self) -> Vec<&str> {
        let vocabulary = &self.parts.vocabulary;
        let guarded = vocabulary.iter().filter(|(id, _, _)| special::is_guarded(vocabulary, *id));
        guarded.map(|(_, text, _)| text).collect()
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer({}, {:?}, {} tokens)", self.model(), self.pre(), self.vocab_size())
    }
}

struct Settings<'a> {
    model: &'a str,
    pre: Option<&'a str>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    ends: BTreeSet<u32>,
}

/// The byte of a token written `<0xNN>`.
fn byte_of(text: &str) -> Option<u8> {
    u8::from_str_radix(text.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

/// What a known but unsupported `tokenizer.ggml.model` is.
fn describe(model: &str) -> &'static str {
    match model {
        "bert" => " (WordPiece)",
        "t5" => " (Unigram)",
        "rwkv" => " (a greedy trie)",
        "plamo2" => " (PLaMo-2's own segmentation)",
        "hybriddna" => " (text and DNA k-mers)",
        "whitespace" => " (whole words)",
        "none" | "no_vocab" => " (the file holds no vocabulary)",
        _ => "",
    }
}
