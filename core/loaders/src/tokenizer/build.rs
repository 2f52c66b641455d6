//! Building a tokenizer: the keys that each algorithm reads from a file.

use std::collections::BTreeSet;
use std::sync::Arc;

use gguf_file::Metadata;

use super::algorithm::Algorithm;
use super::bpe::Bpe;
use super::character_map::CharacterMap;
use super::cheapest::Cheapest;
use super::codec::Codec;
use super::error::TokenizerError;
use super::framing::Framing;
use super::infill::InfillIds;
use super::longest::Longest;
use super::special::{self, SpecialTokens};
use super::spm::Spm;
use super::unigram::{Spaces, Unigram, UnigramNormalization};
use super::vocabulary::Vocabulary;
use super::word_piece::{Accents, LetterCase, WordPiece};
use super::{Tokenizer, TokenizerParts, ends, keys};
use crate::tables::{self, TokenizerTables, VocabularyKind};
use menagerie_entries::nearest;

/// A tokenizer under construction.
pub(super) struct TokenizerBuilder<'a> {
    pub(super) metadata: &'a Metadata,
    /// `tokenizer.ggml.model`.
    pub(super) model: &'a str,
    pub(super) tables: Arc<TokenizerTables>,
}

struct GgufSettings<'a> {
    pre: Option<&'a str>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    closing: Closing,
    ends: BTreeSet<u32>,
}

/// The token that ends a text.
#[derive(Debug, Clone, Copy)]
enum Closing {
    /// The end-of-sequence token, if the file requests it.
    Asked,
    /// The end-of-sequence token, unless the file excludes it.
    Usual,
    /// This token.
    Always(u32),
}

impl TokenizerBuilder<'_> {
    /// Reads the keys of the file's algorithm. `pre`: the pre-tokenizer for a file that names none.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::from_gguf`].
    pub(super) fn run(self, pre: Option<&str>) -> Result<Tokenizer, TokenizerError> {
        let (algorithm, fixed) = match self.tables.vocabulary(self.model) {
            Some(VocabularyKind::Known { algorithm, pre }) => (*algorithm, pre.clone()),
            Some(VocabularyKind::Codec { name, options }) => {
                let (name, options) = (name.clone(), options.clone());
                return self.codec(&name, &options);
            }
            refused => return Err(unsupported(self.model, refused, &self.tables)),
        };
        let done: &[&str] = match algorithm {
            tables::Algorithm::WordPiece => &[keys::LOWERCASE, keys::STRIP_ACCENTS],
            tables::Algorithm::Unigram => &[keys::CHARACTERS, keys::REMOVE_EXTRA_WHITESPACES],
            _ => &[],
        };
        keys::refuse_unsupported(self.metadata, done)?;
        match algorithm {
            tables::Algorithm::Spm => self.spm(),
            tables::Algorithm::Bpe => {
                let named = keys::text(self.metadata, keys::PRE)?.filter(|pre| !pre.is_empty());
                let pre = fixed.as_deref().or(named).or(pre);
                self.bpe(pre.ok_or(TokenizerError::MissingPre)?)
            }
            tables::Algorithm::WordPiece => self.word_piece(),
            tables::Algorithm::Unigram => self.unigram(),
            tables::Algorithm::Longest => self.longest(),
            tables::Algorithm::Cheapest => self.cheapest(),
        }
    }

    /// The token of a key, or its default in files without the key (llama-vocab.cpp, "default special tokens").
    fn token(&self, key: &str, usual: u32, size: usize) -> Result<Option<u32>, TokenizerError> {
        let usual = Some(usual).filter(|id| usize::try_from(*id).is_ok_and(|id| id < size));
        Ok(keys::token_id(self.metadata, key, size)?.or(usual))
    }

    fn spm(self) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let mut vocabulary = Vocabulary::read(metadata, true)?;
        let size = vocabulary.len();
        let bos = self.token(keys::BOS, 1, size)?;
        let eos = self.token(keys::EOS, 2, size)?;
        let unknown = self.token(keys::UNKNOWN, 0, size)?;
        let ends = ends::of_file(metadata, &mut vocabulary, eos, &self.tables)?;
        let space_prefix = keys::flag(metadata, keys::ADD_SPACE_PREFIX)?.unwrap_or(true);
        let algorithm = Algorithm::Spm(Spm::new(&vocabulary, unknown, space_prefix));
        self.finish(
            vocabulary,
            algorithm,
            GgufSettings { pre: None, bos, eos, add_bos: true, closing: Closing::Asked, ends },
        )
    }

    fn bpe(self, pre: &str) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let entry = self.tables.pre(pre).ok_or_else(|| TokenizerError::UnknownPre {
            pre: pre.to_owned(),
            near: nearest(pre, self.tables.pre_tokenizers()).map(str::to_owned),
        })?;
        let mut vocabulary = Vocabulary::read(metadata, false)?;
        let size = vocabulary.len();
        let bos = keys::token_id(metadata, keys::BOS, size)?;
        let eos = keys::token_id(metadata, keys::EOS, size)?;
        let ends = ends::of_file(metadata, &mut vocabulary, eos, &self.tables)?;
        let algorithm = Algorithm::Bpe(Bpe::new(metadata, &vocabulary, entry)?);
        let add_bos = entry.add_bos && bos.is_some();
        self.finish(
            vocabulary,
            algorithm,
            GgufSettings { pre: Some(pre), bos, eos, add_bos, closing: Closing::Asked, ends },
        )
    }

    fn word_piece(self) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let mut vocabulary = Vocabulary::read(metadata, false)?;
        let size = vocabulary.len();
        let bos = match keys::token_id(metadata, keys::BOS, size)? {
            None => self.token(keys::CLASSIFIER, 101, size)?,
            named => named,
        };
        let eos = keys::token_id(metadata, keys::EOS, size)?;
        let needed = |id: Option<u32>, key| id.ok_or_else(|| no_such_token(key));
        let unknown = needed(self.token(keys::UNKNOWN, 100, size)?, keys::UNKNOWN)?;
        let separator = needed(self.token(keys::SEPARATOR, 102, size)?, keys::SEPARATOR)?;
        let ends = ends::of_file(metadata, &mut vocabulary, eos, &self.tables)?;
        let lowered = keys::flag(metadata, keys::LOWERCASE)?.unwrap_or(true);
        let stripped = keys::flag(metadata, keys::STRIP_ACCENTS)?.unwrap_or(lowered);
        let case = if lowered { LetterCase::Lowered } else { LetterCase::Kept };
        let accents = if stripped { Accents::Stripped } else { Accents::Kept };
        let algorithm = Algorithm::WordPiece(WordPiece::new(&vocabulary, unknown, case, accents));
        let closing = Closing::Always(separator);
        self.finish(vocabulary, algorithm, GgufSettings { pre: None, bos, eos, add_bos: true, closing, ends })
    }

    fn unigram(self) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let mut vocabulary = Vocabulary::read(metadata, true)?;
        let size = vocabulary.len();
        let bos = keys::token_id(metadata, keys::BOS, size)?;
        let eos = self.token(keys::EOS, 1, size)?;
        let unknown = self.token(keys::UNKNOWN, 2, size)?.ok_or_else(|| no_such_token(keys::UNKNOWN))?;
        let ends = ends::of_file(metadata, &mut vocabulary, eos, &self.tables)?;
        let map = keys::bytes(metadata, keys::CHARACTERS)?.map(|bytes| CharacterMap::read(&bytes));
        let characters = map
            .transpose()
            .map_err(|problem| TokenizerError::BadKey { key: keys::CHARACTERS.to_owned(), problem })?;
        let merged = keys::flag(metadata, keys::REMOVE_EXTRA_WHITESPACES)?.unwrap_or(false);
        let spaces = if merged { Spaces::Merged } else { Spaces::Kept };
        let space_prefix = keys::flag(metadata, keys::ADD_SPACE_PREFIX)?.unwrap_or(true);
        let normalization = UnigramNormalization { characters, spaces, space_prefix };
        let algorithm = Algorithm::Unigram(Unigram::new(&vocabulary, unknown, normalization));
        let closing = Closing::Usual;
        self.finish(
            vocabulary,
            algorithm,
            GgufSettings { pre: None, bos, eos, add_bos: false, closing, ends },
        )
    }

    fn longest(self) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let mut vocabulary = Vocabulary::read(metadata, false)?;
        let size = vocabulary.len();
        let bos = keys::token_id(metadata, keys::BOS, size)?;
        let eos = keys::token_id(metadata, keys::EOS, size)?;
        let unknown = keys::token_id(metadata, keys::UNKNOWN, size)?;
        let ends = ends::of_file(metadata, &mut vocabulary, eos, &self.tables)?;
        let algorithm = Algorithm::Longest(Longest::new(&vocabulary, unknown));
        let closing = Closing::Asked;
        self.finish(
            vocabulary,
            algorithm,
            GgufSettings { pre: None, bos, eos, add_bos: false, closing, ends },
        )
    }

    fn cheapest(self) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        let mut vocabulary = Vocabulary::read(metadata, true)?;
        let size = vocabulary.len();
        let bos = self.token(keys::BOS, 1, size)?;
        let eos = self.token(keys::EOS, 2, size)?;
        let ends = ends::of_file(metadata, &mut vocabulary, eos, &self.tables)?;
        let algorithm = Algorithm::Cheapest(Cheapest::new(&vocabulary)?);
        let closing = Closing::Asked;
        self.finish(
            vocabulary,
            algorithm,
            GgufSettings { pre: None, bos, eos, add_bos: false, closing, ends },
        )
    }

    fn codec(self, name: &str, options: &[(String, String)]) -> Result<Tokenizer, TokenizerError> {
        let metadata = self.metadata;
        keys::refuse_unsupported(metadata, &[])?;
        let Some(kind) = self.tables.codec(name).cloned() else {
            return Err(TokenizerError::CodecMissing { model: self.model.to_owned(), name: name.to_owned() });
        };
        let mut vocabulary = Vocabulary::read(metadata, true)?;
        let size = vocabulary.len();
        let bos = keys::token_id(metadata, keys::BOS, size)?;
        let eos = keys::token_id(metadata, keys::EOS, size)?;
        let ends = ends::of_file(metadata, &mut vocabulary, eos, &self.tables)?;
        let algorithm = Algorithm::Codec(Codec::new(&*kind, options, &vocabulary, metadata)?);
        let closing = Closing::Asked;
        self.finish(
            vocabulary,
            algorithm,
            GgufSettings { pre: None, bos, eos, add_bos: false, closing, ends },
        )
    }

    fn finish(
        self,
        vocabulary: Vocabulary,
        algorithm: Algorithm,
        settings: GgufSettings<'_>,
    ) -> Result<Tokenizer, TokenizerError> {
        let Self { metadata, model, tables } = self;
        let GgufSettings { pre, bos, eos, add_bos, closing, ends } = settings;
        let add_bos = keys::flag(metadata, keys::ADD_BOS)?.unwrap_or(add_bos);
        let asked = keys::flag(metadata, keys::ADD_EOS)?;
        let add_eos = asked.unwrap_or(matches!(closing, Closing::Usual));
        for (add, id, key, of) in
            [(add_bos, bos, keys::ADD_BOS, keys::BOS), (add_eos, eos, keys::ADD_EOS, keys::EOS)]
        {
            if add && id.is_none() {
                let problem = format!("true, but `{of}` names no token of the vocabulary");
                return Err(TokenizerError::BadKey { key: key.to_owned(), problem });
            }
        }
        let closing: Vec<u32> = match closing {
            Closing::Always(id) => vec![id],
            Closing::Asked | Closing::Usual => eos.filter(|_| add_eos).into_iter().collect(),
        };
        let separator: Option<u32> = match keys::flag(metadata, keys::ADD_SEPARATOR)? {
            Some(true) => keys::token_id(metadata, keys::SEPARATOR, vocabulary.len())?.or(eos),
            _ => None,
        };
        let framing = Framing {
            opening: bos.filter(|_| add_bos).into_iter().collect(),
            between: separator.into_iter().collect(),
            ending: closing.clone(),
            closing,
        };
        let strip_after = special::strips_after(&vocabulary, model, tables.strip_after());
        let special = SpecialTokens::new(&vocabulary, strip_after);
        let keyed = |key: &str| keys::token_id(metadata, key, vocabulary.len());
        let infill = InfillIds::find(&vocabulary, keyed, &tables)?;
        let (model, pre) = (model.to_owned(), pre.map(str::to_owned));
        let parts = TokenizerParts {
            vocabulary,
            special,
            algorithm,
            tables,
            model,
            pre,
            bos,
            eos,
            add_bos,
            add_eos,
            framing,
            infill,
        };
        Ok(Tokenizer { parts: Arc::new(parts), ends: ends.into_iter().collect() })
    }
}

fn no_such_token(key: &str) -> TokenizerError {
    let problem = "missing, and the token that usually stands for it is past the vocabulary".to_owned();
    TokenizerError::BadKey { key: key.to_owned(), problem }
}

fn unsupported(model: &str, kind: Option<&VocabularyKind>, tables: &TokenizerTables) -> TokenizerError {
    let what = match kind {
        Some(VocabularyKind::Refused { what }) => Some(what.clone()),
        _ => None,
    };
    let supported = tables.usable_vocabularies().map(|name| format!("`{name}`")).collect();
    TokenizerError::UnsupportedModel { model: model.to_owned(), what, supported }
}
