//! [`TextCodec`]: the encoding of a registered tokenizer, in addition to the built-in algorithms.

use std::fmt;
use std::sync::Arc;

use gguf_file::Metadata;
use menagerie_entries::Entry;

use super::error::TokenizerError;
use super::keys;
use super::kind::TokenKind;
use super::vocabulary::Vocabulary;

/// Ordinary text to ids and back, for one vocabulary. Special tokens are handled by the host.
pub trait TextCodec: Send + Sync {
    /// Appends the ids of a text without special tokens.
    ///
    /// # Errors
    /// Why encoding failed, in words.
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), String>;

    /// Appends the bytes of an ordinary token.
    ///
    /// # Errors
    /// Why decoding failed, in words.
    fn decode(&self, id: u32, out: &mut Vec<u8>) -> Result<(), String>;
}

/// Creates codecs: a tokenizer that tables refer to (`algorithm = "author/name:tokenizer"`).
pub trait CodecKind: Send + Sync {
    /// Its name, `author/name:tokenizer`.
    fn name(&self) -> &str;

    /// The crate or the plugin that registers it.
    fn registered_by(&self) -> &str;

    /// The codec of a vocabulary; `options` are those of the table's entry, names and values as strings.
    ///
    /// # Errors
    /// Why the vocabulary or an option cannot be used, in words.
    fn build(
        &self,
        vocabulary: Arc<CodecVocabulary>,
        options: &[(String, String)],
    ) -> Result<Box<dyn TextCodec>, String>;
}

/// A [`CodecKind`] as a crate or a plugin registers it.
#[derive(Clone)]
pub struct CodecEntry(pub Arc<dyn CodecKind>);

impl Entry for CodecEntry {
    const FAMILY: &'static str = "tokenizer";

    fn name(&self) -> &str {
        self.0.name()
    }

    fn registered_by(&self) -> &str {
        self.0.registered_by()
    }
}

/// The tokens of a file, as stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodecVocabulary {
    /// By id.
    pub tokens: Vec<CodecToken>,
    /// Merges of pairs, `a b`, in order of precedence; empty if the file has none.
    pub merges: Vec<String>,
}

/// A token of a [`CodecVocabulary`].
#[derive(Clone, Debug, PartialEq)]
pub struct CodecToken {
    /// As the file spells it.
    pub text: String,
    /// Its kind.
    pub kind: TokenKind,
    /// `tokenizer.ggml.scores`; 0 without them.
    pub score: f32,
}

/// A codec with its name.
pub(crate) struct Codec {
    name: String,
    codec: Box<dyn TextCodec>,
}

impl Codec {
    /// The codec of a file's vocabulary.
    ///
    /// # Errors
    /// Merges of a wrong type, or an error of the codec.
    pub(crate) fn new(
        kind: &dyn CodecKind,
        options: &[(String, String)],
        vocabulary: &Vocabulary,
        metadata: &Metadata,
    ) -> Result<Self, TokenizerError> {
        let token = |(id, text, kind): (u32, &str, TokenKind)| CodecToken {
            text: text.to_owned(),
            kind,
            score: vocabulary.score(id),
        };
        let merges = keys::strings(metadata, keys::MERGES)?;
        let merges = merges.iter().flat_map(|list| list.strings().into_iter().flatten());
        let given = CodecVocabulary {
            tokens: vocabulary.iter().map(token).collect(),
            merges: merges.map(str::to_owned).collect(),
        };
        let name = kind.name().to_owned();
        match kind.build(Arc::new(given), options) {
            Ok(codec) => Ok(Self { name, codec }),
            Err(message) => Err(TokenizerError::Codec { name, message }),
        }
    }

    /// Appends the ids of a text without special tokens.
    ///
    /// # Errors
    /// An error of the codec, or an id outside of the vocabulary.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let before = out.len();
        self.codec.encode(text, out).map_err(|message| self.error(message))?;
        let (new, size) = (out.get(before..).unwrap_or_default(), vocabulary.len());
        match new.iter().find(|id| usize::try_from(**id).map_or(true, |id| id >= size)) {
            None => Ok(()),
            Some(id) => {
                Err(self.error(format!("returned the token {id}; the vocabulary has {size} tokens, from 0")))
            }
        }
    }

    /// The bytes of an ordinary token.
    ///
    /// # Errors
    /// An error of the codec.
    pub(crate) fn bytes(&self, id: u32) -> Result<Vec<u8>, TokenizerError> {
        let mut bytes = Vec::new();
        self.codec.decode(id, &mut bytes).map_err(|message| self.error(message))?;
        Ok(bytes)
    }

    fn error(&self, message: String) -> TokenizerError {
        TokenizerError::Codec { name: self.name.clone(), message }
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({})", self.name)
    }
}
