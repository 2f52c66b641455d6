//! GGUF keys for the vocabulary of a folder: as llama.cpp's converter writes them (`conversion/base.py`, gguf-py's
//! `SpecialVocab`), and only if they express everything that the folder defines.

use gguf_file::{OwnedArray, OwnedValue};

use super::sentence_piece::SentencePiece;
use super::{HfTexts, document, ranked_files, refused};
use crate::loader::LoadError;
use crate::tables::{Algorithm, TokenizerTables};
use crate::tokenizer::json::file::File;
use crate::tokenizer::json::part::refused as unsupported;
use crate::tokenizer::json::pre_tokenizer::PreTokenizer;
use crate::tokenizer::json::{self, TokenReference, frame, model, vocabulary};
use crate::tokenizer::regex_room::RegexRoom;
use crate::tokenizer::vocabulary::Vocabulary;
use crate::tokenizer::{TokenKind, TokenizerError, keys};

/// The GGUF form of a vocabulary.
#[derive(Debug, Default)]
pub struct VocabularyKeys {
    /// Keys with their values, in the order in which they are written.
    pub keys: Vec<(String, OwnedValue)>,
    /// Properties of the folder that no key can express, in words.
    pub lost: Vec<String>,
}

impl VocabularyKeys {
    fn set(&mut self, key: &str, value: impl Into<OwnedValue>) {
        self.keys.retain(|(known, _)| known != key);
        self.keys.push((key.to_owned(), value.into()));
    }
}

impl HfTexts {
    /// The `tokenizer.*` keys of a GGUF file of this folder. `rows`: the number of rows of the embedding; `pre`: the
    /// name of the pre-tokenizer to use if several match.
    ///
    /// # Errors
    /// The folder has no vocabulary, or one that GGUF keys cannot express.
    pub fn gguf_keys(
        &self,
        rows: usize,
        pre: Option<&str>,
        tables: &TokenizerTables,
    ) -> Result<VocabularyKeys, LoadError> {
        let pieces = self.folder.join("tokenizer.model");
        let tiktoken = ranked_files::tiktoken(&self.folder, self.class.as_deref(), tables);
        let mut found = if pieces.exists() && tiktoken.as_ref() != Some(&pieces) {
            let model = SentencePiece::read(&document::bytes(&pieces)?).map_err(|it| refused(&pieces, it))?;
            VocabularyKeys {
                keys: self.sentence_piece_keys(&pieces, (&model, rows), tables)?,
                lost: Vec::new(),
            }
        } else if let Some((path, file)) = self.stages(tables)? {
            let failed = |source| LoadError::Tokenizer { file: path.display().to_string(), source };
            self.of_json(file, (rows, pre), tables).map_err(failed)?
        } else {
            return Err(self.no_tokenizer());
        };
        self.templates(&mut found);
        self.sampling(&mut found);
        Ok(found)
    }

    fn of_json(
        &self,
        mut file: File,
        (rows, pre): (usize, Option<&str>),
        tables: &TokenizerTables,
    ) -> Result<VocabularyKeys, TokenizerError> {
        vocabulary::add(&mut file, &self.settings)?;
        let tokens = vocabulary::read(&file)?;
        let mut found = VocabularyKeys::default();
        match model::kind(&file.model)? {
            "BPE" => byte_level(&file, pre, tables, &mut found)?,
            "WordPiece" => words(&file, tables, &mut found)?,
            other => {
                let what = format!("is a `{other}`; converting this to GGUF requires a tokenizer.model");
                return Err(unsupported("model", what));
            }
        }
        let spelled = model::kind(&file.model)? == "WordPiece";
        lists(&tokens, rows, spelled, &mut found);
        if let Some(merges) = &file.model.merges {
            let merges = merges.iter().map(|(left, right)| format!("{left} {right}"));
            found.set(keys::MERGES, OwnedArray::strings(merges));
        }
        self.special(&file, &tokens, &mut found)?;
        note_manners(&file, &mut found);
        Ok(found)
    }

    /// Ids of special tokens, and the tokens put around a text.
    fn special(
        &self,
        file: &File,
        tokens: &Vocabulary,
        found: &mut VocabularyKeys,
    ) -> Result<(), TokenizerError> {
        let id = |named: &Option<TokenReference>| match named {
            Some(TokenReference::Text(text)) => tokens.id(text),
            Some(TokenReference::Id(id)) => Some(*id),
            None => None,
        };
        let (bos, eos) = (id(&self.settings.bos), id(&self.settings.eos));
        let unknown = file.model.unk_token.as_deref().and_then(|text| tokens.id(text));
        let unknown = unknown.or(self.settings.unknown.as_deref().and_then(|text| tokens.id(text)));
        let pad = self.settings.pad.as_deref().and_then(|text| tokens.id(text));
        for (key, id) in [(keys::BOS, bos), (keys::EOS, eos), (keys::UNKNOWN, unknown), (keys::PAD, pad)] {
            if let Some(id) = id {
                found.set(key, id);
            }
        }
        let ends: Vec<i32> = self.settings.ends.iter().filter_map(|id| i32::try_from(*id).ok()).collect();
        if ends.iter().any(|end| u32::try_from(*end).ok() != eos) {
            found.set(keys::EOS_LIST, OwnedArray::I32(ends));
        }
        let mut framing = frame::read(&file.post_processor, tokens.len())?;
        if let Some(adds) = self.settings.adds {
            framing = json::added_framing(adds, bos, eos);
        }
        let one = |ids: &[u32], id: Option<u32>, what: &str| match ids {
            [] => Ok(false),
            [only] if Some(*only) == id => Ok(true),
            _ => Err(unsupported(
                "post_processor",
                format!("adds other tokens {what} a text than a named token"),
            )),
        };
        let words = model::kind(&file.model)? == "WordPiece";
        let (bos, eos) = match words {
            // In a WordPiece vocabulary the closing token is the separator, which is always added.
            true => {
                for (key, id) in
                    [(keys::CLASSIFIER, framing.opening.first()), (keys::SEPARATOR, framing.closing.last())]
                {
                    if let Some(id) = id {
                        found.set(key, *id);
                    }
                }
                (!framing.opening.is_empty(), false)
            }
            false => (one(&framing.opening, bos, "before")?, one(&framing.closing, eos, "after")?),
        };
        found.set(keys::ADD_BOS, bos);
        found.set(keys::ADD_EOS, eos);
        Ok(())
    }

    fn templates(&self, found: &mut VocabularyKeys) {
        for (name, source) in &self.templates {
            match name.as_str() {
                "default" => found.set("tokenizer.chat_template", source.as_str()),
                name => found.set(&format!("tokenizer.chat_template.{name}"), source.as_str()),
            }
        }
        let named: Vec<&str> =
            self.chat_template_names().into_iter().filter(|name| *name != "default").collect();
        if !named.is_empty() {
            found.set("tokenizer.chat_templates", OwnedArray::strings(named));
        }
    }

    fn sampling(&self, found: &mut VocabularyKeys) {
        let sampling = &self.sampling;
        let reals = [
            ("general.sampling.temp", sampling.temperature),
            ("general.sampling.top_p", sampling.top_p),
            ("general.sampling.min_p", sampling.min_p),
            ("general.sampling.penalty_repeat", sampling.penalty_repeat),
        ];
        for (key, value) in reals {
            if let Some(value) = value {
                found.set(key, value);
            }
        }
        if let Some(top_k) = sampling.top_k.and_then(|top_k| i32::try_from(top_k).ok()) {
            found.set("general.sampling.top_k", top_k);
        }
    }
}

/// Tokens of byte pair encoding that no sequence of merges produces.
const BYTES: usize = 256;

/// Byte pair encoding over GPT-2's byte letters, with a pre-tokenizer that has a name.
fn byte_level(
    file: &File,
    pre: Option<&str>,
    tables: &TokenizerTables,
    found: &mut VocabularyKeys,
) -> Result<(), TokenizerError> {
    match file.normalizer.get("type").and_then(|kind| kind.as_str()) {
        None => {}
        Some("NFC") => {
            found.lost.push("text is normalized (NFC) in the folder, but not with a GGUF file".to_owned())
        }
        Some(other) => {
            return Err(unsupported("normalizer", format!("is a `{other}`, which GGUF keys cannot express")));
        }
    }
    let reading = PreTokenizer::read(&file.pre_tokenizer, RegexRoom::of_json(&[&file.pre_tokenizer]))?;
    let Some(regexes) = reading.listed() else {
        return Err(unsupported("pre_tokenizer", "has no name in GGUF files"));
    };
    let regexes: Vec<String> = regexes.iter().map(|regex| as_listed(regex)).collect();
    let whole = file.model.ignore_merges == Some(true);
    let mut names = tables.pre_of(&regexes, whole);
    // If merges produce every token, a piece that is a token becomes that token in any case.
    let merges = file.model.merges.as_ref().map_or(0, |merges| merges.len());
    if names.is_empty() && merges + BYTES == file.model.vocab.texts.len() {
        names = tables.pre_of(&regexes, !whole);
    }
    let name = pre.filter(|pre| names.contains(pre)).or(names.first().copied());
    let name = name.ok_or_else(|| {
        let what = format!(
            "cuts by the regexes {regexes:?}, which have no name: give them one in tokenizers/NAME.toml of a spec folder, as \
             `menagerie guide tokenizer-tables` describes, and llama.cpp will not know it; without that, the model"
        );
        unsupported("pre_tokenizer", what)
    })?;
    found.set(keys::MODEL, model_name(tables, Algorithm::Bpe)?);
    found.set(keys::PRE, name);
    Ok(())
}

/// The name of an algorithm in GGUF files.
fn model_name(tables: &TokenizerTables, algorithm: Algorithm) -> Result<&str, TokenizerError> {
    let none = || unsupported("model", "uses an algorithm without a name in the tables of vocabularies");
    tables.vocabulary_of(algorithm).ok_or_else(none)
}

/// A regex in the form of the tables: GPT-2's contractions in a group, possessive quantifiers made plain.
fn as_listed(regex: &str) -> String {
    const CONTRACTIONS: &str = "'s|'t|'re|'ve|'m|'ll|'d|";
    match regex.strip_prefix(CONTRACTIONS) {
        Some(rest) => format!("(?:'s|'t|'re|'ve|'m|'ll|'d)|{rest}"),
        None => regex.to_owned(),
    }
}

/// BERT's WordPiece; only with BERT's own normalizer and pre-tokenizer.
fn words(file: &File, tables: &TokenizerTables, found: &mut VocabularyKeys) -> Result<(), TokenizerError> {
    let normalizer = &file.normalizer;
    let flag = |field: &str| normalizer.get(field).and_then(serde_json::Value::as_bool);
    let whole = ["clean_text", "handle_chinese_chars"].iter().all(|field| flag(field) != Some(false));
    if normalizer.get("type").and_then(|kind| kind.as_str()) != Some("BertNormalizer") || !whole {
        return Err(unsupported(
            "normalizer",
            "is not BERT's, the only one that a WordPiece GGUF file can have",
        ));
    }
    if file.pre_tokenizer.get("type").and_then(|kind| kind.as_str()) != Some("BertPreTokenizer") {
        return Err(unsupported(
            "pre_tokenizer",
            "is not BERT's, the only one that a WordPiece GGUF file can have",
        ));
    }
    let usual = file.model.max_input_chars_per_word.is_none_or(|longest| longest == 100);
    if !usual || file.model.continuing_subword_prefix.as_deref().is_some_and(|prefix| prefix != "##") {
        return Err(unsupported("model", "has limits or a prefix that differ from BERT's"));
    }
    let lowercase = flag("lowercase").unwrap_or(true);
    found.set(keys::MODEL, model_name(tables, Algorithm::WordPiece)?);
    found.set(keys::LOWERCASE, lowercase);
    found.set(keys::STRIP_ACCENTS, flag("strip_accents").unwrap_or(lowercase));
    Ok(())
}

/// Texts and kinds, padded to the rows of the embedding; with `words`, tokens that begin a word get a U+2581.
fn lists(tokens: &Vocabulary, rows: usize, words: bool, found: &mut VocabularyKeys) {
    let mut texts: Vec<String> = Vec::with_capacity(rows);
    let mut kinds: Vec<i32> = Vec::with_capacity(rows);
    for (_, text, kind) in tokens.iter() {
        let plain = matches!(kind, TokenKind::Normal | TokenKind::Byte);
        texts.push(match text.strip_prefix("##") {
            Some(rest) if words && plain && !rest.is_empty() => rest.to_owned(),
            None if words && plain => format!("\u{2581}{text}"),
            _ => text.to_owned(),
        });
        kinds.push(kind.id());
    }
    for id in texts.len()..rows {
        texts.push(format!("[PAD{id}]"));
        kinds.push(TokenKind::Unused.id());
    }
    found.set(keys::TOKENS, OwnedArray::strings(texts));
    found.set(keys::TOKEN_TYPE, OwnedArray::I32(kinds));
}

/// Whether an added token has a flag such as `lstrip`.
type Has = fn(&json::file::AddedToken) -> bool;

/// Flags of added tokens that no key can express.
fn note_manners(file: &File, found: &mut VocabularyKeys) {
    let named = |has: Has| {
        let texts: Vec<String> = file
            .added_tokens
            .iter()
            .filter(|token| has(token))
            .map(|token| format!("{:?}", token.content))
            .collect();
        texts
    };
    let manners: [(&str, Has); 3] = [
        ("include the white space before them", |token| token.lstrip),
        ("include the white space after them", |token| token.rstrip),
        ("match only whole words", |token| token.single_word),
    ];
    for (what, has) in manners {
        let texts = named(has);
        if !texts.is_empty() {
            let first: Vec<&str> = texts.iter().take(3).map(String::as_str).collect();
            let more = if texts.len() > 3 { format!(" and {} more", texts.len() - 3) } else { String::new() };
            found
                .lost
                .push(format!("tokens that {what} ({}{more}): no GGUF key expresses this", first.join(", ")));
        }
    }
}
