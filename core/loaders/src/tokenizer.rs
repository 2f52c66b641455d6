//! Text to token ids and back, from the tokenizer that a GGUF file carries.

mod bpe;
mod byte_letters;
mod decoder;
mod ends;
mod error;
mod keys;
mod kind;
mod merges;
mod special;
mod splitter;
mod spm;
mod text_index;
mod vocabulary;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gguf_file::Metadata;

pub use decoder::{TextDecoder, TextDecoderOptions};
pub use error::TokenizerError;
pub use kind::TokenKind;
pub use special::Special;

use crate::nearest::nearest;
use crate::segment::Segment;
use crate::tables::{self, TokenizerTables, VocabularyKind};
use bpe::Bpe;
use special::{Fragment, SpecialTokens, Trust};
pub(crate) use splitter::Splitter;
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
    tables: Arc<TokenizerTables>,
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

/// What a file's tokenizer is built with beside the file.
#[derive(Debug, Clone, Default)]
pub struct TokenizerOptions<'a> {
    /// The pre-tokenizer that counts where the file names none (a spec's `[tokenizer] pre`).
    pub pre: Option<&'a str>,
    /// Pre-tokenizers, vocabulary kinds and texts; `None` is [`TokenizerTables::built_in`].
    pub tables: Option<Arc<TokenizerTables>>,
}

impl Tokenizer {
    /// Builds the tokenizer of a file.
    ///
    /// # Errors
    /// An algorithm that is not there, an unknown or missing pre-tokenizer, damaged lists.
    pub fn from_gguf(metadata: &Metadata, options: &TokenizerOptions<'_>) -> Result<Self, TokenizerError> {
        let model = keys::text(metadata, keys::MODEL)?.ok_or(TokenizerError::MissingKey {
            key: keys::MODEL,
            advice: "the file holds no tokenizer; use one that does, or give token ids",
        })?;
        let tables = match &options.tables {
            Some(tables) => Arc::clone(tables),
            None => TokenizerTables::built_in()?,
        };
        let build = Build { metadata, model, tables };
        let (algorithm, fixed) = match build.tables.vocabulary(model) {
            Some(VocabularyKind::Known { algorithm, pre }) => (*algorithm, pre.clone()),
            refused => return Err(unsupported(model, refused, &build.tables)),
        };
        keys::refuse_unsupported(metadata)?;
        match algorithm {
            tables::Algorithm::Spm => build.spm(),
            tables::Algorithm::Bpe => {
                let named = keys::text(metadata, keys::PRE)?.filter(|pre| !pre.is_empty());
                let pre = fixed.as_deref().or(named).or(options.pre);
                build.bpe(pre.ok_or(TokenizerError::MissingPre)?)
            }
        }
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
    /// # Errors
    /// A character that the vocabulary cannot express, a text on which the pre-tokenizer gives up.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        self.encode_fragments(text, Trust::Whole(special))
    }

    /// The ids of a prompt in parts, encoded as one text; only what lies wholly in trusted parts can name special tokens.
    ///
    /// # Errors
    /// As [`Self::encode`].
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
    ///
    /// # Errors
    /// An id past the vocabulary.
    pub fn decode(&self, ids: &[u32], show_special: bool) -> Result<String, TokenizerError> {
        let mut decoder = TextDecoder::new(self, TextDecoderOptions { show_special, at_start: true });
        let mut text = String::new();
        for id in ids {
            text.push_str(&decoder.push(*id)?);
        }
        text.push_str(&decoder.flush());
        Ok(text)
    }

    /// The tables it was built with.
    pub fn tables(&self) -> &TokenizerTables {
        &self.parts.tables
    }

    /// What `tokenizer.ggml.model` says.
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
    pub(crate) fn adds_space_prefix(&self) -> bool {
        matches!(&self.parts.algorithm, Algorithm::Spm(spm) if spm.space_prefix)
    }

    /// All ids that end a generation, sorted.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.ends
    }

    /// The id whose text in the vocabulary is exactly this one.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.parts.vocabulary.id(text)
    }

    /// The text of a token as the vocabulary spells it (`Ġthe`, `▁the`, `<0x0A>`).
    ///
    /// # Errors
    /// An id past the vocabulary.
    pub fn token_text(&self, id: u32) -> Result<&str, TokenizerError> {
        self.parts.vocabulary.text(id).ok_or(TokenizerError::IdOutOfRange { id, size: self.vocab_size() })
    }

    /// The kind of a token.
    ///
    /// # Errors
    /// An id past the vocabulary.
    pub fn token_kind(&self, id: u32) -> Result<TokenKind, TokenizerError> {
        self.token_text(id).map(|_| self.parts.vocabulary.kind(id))
    }

    /// The bytes that a token stands for, special tokens by name; unused places give none.
    ///
    /// # Errors
    /// An id past the vocabulary.
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
    ///
    /// # Errors
    /// An id past the vocabulary.
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

/// A tokenizer under construction.
struct Build<'a> {
    metadata: &'a Metadata,
    model: &'a str,
    tables: Arc<TokenizerTables>,
}

struct Settings<'a> {
    pre: Option<&'a str>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    ends: BTreeSet<u32>,
}

impl Build<'_> {
    fn spm(self) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let mut vocabulary = Vocabulary::read(metadata, true)?;
        let size = vocabulary.len();
        // Ids that a file need not give: llama-vocab.cpp, "default special tokens".
        let default = |id: u32| Some(id).filter(|id| usize::try_from(*id).is_ok_and(|id| id < size));
        let bos = keys::token_id(metadata, keys::BOS, size)?.or(default(1));
        let eos = keys::token_id(metadata, keys::EOS, size)?.or(default(2));
        let unknown = keys::token_id(metadata, keys::UNKNOWN, size)?.or(default(0));
        let ends = ends::find(metadata, &mut vocabulary, eos, &self.tables)?;
        let space_prefix = keys::flag(metadata, keys::ADD_SPACE_PREFIX)?.unwrap_or(true);
        let algorithm = Algorithm::Spm(Spm::new(&vocabulary, unknown, space_prefix));
        self.finish(vocabulary, algorithm, Settings { pre: None, bos, eos, add_bos: true, ends })
    }

    fn bpe(self, pre: &str) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let entry = self.tables.pre(pre).ok_or_else(|| TokenizerError::UnknownPre {
            pre: pre.to_owned(),
            near: nearest(pre, self.tables.pre_tokenizers()),
        })?;
        let mut vocabulary = Vocabulary::read(metadata, false)?;
        let size = vocabulary.len();
        let bos = keys::token_id(metadata, keys::BOS, size)?;
        let eos = keys::token_id(metadata, keys::EOS, size)?;
        let ends = ends::find(metadata, &mut vocabulary, eos, &self.tables)?;
        let algorithm = Algorithm::Bpe(Bpe::new(metadata, &vocabulary, entry)?);
        let add_bos = entry.add_bos && bos.is_some();
        self.finish(vocabulary, algorithm, Settings { pre: Some(pre), bos, eos, add_bos, ends })
    }

    fn finish(
        self,
        vocabulary: Vocabulary,
        algorithm: Algorithm,
        settings: Settings<'_>,
    ) -> Result<Tokenizer, TokenizerError> {
        let Self { metadata, model, tables } = self;
        let Settings { pre, bos, eos, add_bos, ends } = settings;
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
        let strip_after = special::strips_after(&vocabulary, model, tables.strip_after());
        let special = SpecialTokens::new(&vocabulary, strip_after);
        let (model, pre) = (model.to_owned(), pre.map(str::to_owned));
        let parts = Parts { vocabulary, special, algorithm, tables, model, pre, bos, eos, add_bos, add_eos };
        Ok(Tokenizer { parts: Arc::new(parts), ends: ends.into_iter().collect() })
    }
}

fn unsupported(model: &str, kind: Option<&VocabularyKind>, tables: &TokenizerTables) -> TokenizerError {
    let what = match kind {
        Some(VocabularyKind::Refused { what }) => Some(what.clone()),
        _ => None,
    };
    let supported = tables.usable_vocabularies().map(|name| format!("`{name}`")).collect();
    TokenizerError::UnsupportedModel { model: model.to_owned(), what, supported }
}

/// The byte of a token written `<0xNN>`.
fn byte_of(text: &str) -> Option<u8> {
    u8::from_str_radix(text.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}
