//! Files of byte-level vocabularies: `tekken.json`, and tiktoken's.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::document;
use crate::loader::LoadError;
use crate::tables::{RankedKind, TokenizerTables};
use crate::tokenizer::json::file::{AddedToken, File};
use crate::tokenizer::json::ranked::Ranked;

/// The file of Mistral's Tekken.
pub(super) const TEKKEN: &str = "tekken.json";

/// Maximum number of tokens.
const MOST: u64 = 1 << 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tekken {
    config: TekkenConfig,
    vocab: Vec<TekkenToken>,
    special_tokens: Option<Vec<TekkenSpecial>>,
    /// Settings of images, sound and others: unrelated to text.
    #[serde(default, rename = "image")]
    _image: IgnoredAny,
    #[serde(default, rename = "multimodal")]
    _multimodal: IgnoredAny,
    #[serde(default, rename = "audio")]
    _audio: IgnoredAny,
    #[serde(default, rename = "model_settings_builder")]
    _settings: IgnoredAny,
}

#[derive(Deserialize)]
struct TekkenConfig {
    pattern: String,
    default_vocab_size: u64,
    default_num_special_tokens: u64,
}

#[derive(Deserialize)]
struct TekkenToken {
    rank: u64,
    token_bytes: String,
}

#[derive(Deserialize)]
struct TekkenSpecial {
    rank: u64,
    token_str: String,
}

/// The tiktoken file of a folder, found by its ending or its exact name; `class` is `tokenizer_class`.
pub(super) fn tiktoken(folder: &Path, class: Option<&str>, tables: &TokenizerTables) -> Option<PathBuf> {
    let known = class.is_some_and(|class| tables.ranked(class).is_some());
    // sentencepiece files have the same name.
    let plain = ["tiktoken.model"].into_iter().chain(known.then_some("tokenizer.model"));
    let mut named: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    named.sort();
    let ends = named.into_iter().find(|path| path.extension().is_some_and(|end| end == "tiktoken"));
    ends.or_else(|| plain.map(|name| folder.join(name)).find(|path| path.is_file()))
}

/// Reads a `tekken.json` as the stages of a tokenizer.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub(super) fn read_tekken(path: &Path, tables: &TokenizerTables) -> Result<File, LoadError> {
    let wrong = |problem: String| damaged(path, problem);
    let tekken: Tekken =
        serde_json::from_str(&document::text(path)?).map_err(|error| wrong(error.to_string()))?;
    let kind = tables.ranked(TEKKEN).cloned();
    let kind =
        kind.ok_or_else(|| wrong("the tables of vocabularies do not contain such files".to_owned()))?;
    let TekkenConfig { pattern, default_vocab_size: size, default_num_special_tokens: first } = tekken.config;
    if size > MOST || first > size {
        return Err(wrong(format!("`config`: {first} special tokens of {size} in all")));
    }
    let count = usize::try_from(size - first).unwrap_or_default();
    let mut tokens = Vec::with_capacity(count.min(tekken.vocab.len()));
    for (rank, token) in (0..).zip(tekken.vocab.iter().take(count)) {
        let bytes = BASE64.decode(&token.token_bytes).ok().filter(|_| token.rank == rank);
        tokens.push(bytes.ok_or_else(|| wrong(format!("`vocab[{rank}]`: expected base64 with this rank")))?);
    }
    if tokens.len() < count {
        return Err(wrong(format!("`vocab` has {} tokens, `config` says {count}", tokens.len())));
    }
    let named = match tekken.special_tokens {
        Some(listed) => listed.into_iter().map(|token| (token.rank, token.token_str)).collect(),
        None => (0..).zip(kind.specials.iter().cloned()).collect::<Vec<_>>(),
    };
    let called = kind.numbered.as_ref().map_or("<SPECIAL_{}>", |(text, _)| text.as_str());
    let mut specials: Vec<(u64, String)> =
        (0..first).map(|id| (id, called.replace("{}", &id.to_string()))).collect();
    for (id, text) in named {
        let place = usize::try_from(id).ok().and_then(|id| specials.get_mut(id));
        place.ok_or_else(|| wrong(format!("`special_tokens`: the rank {id} of {first}")))?.1 = text;
    }
    let RankedKind { opening, composed, .. } = kind;
    let ranked = Ranked { tokens, first, specials, regexes: vec![pattern], opening, composed };
    ranked.into_file().map_err(|source| LoadError::Tokenizer { file: path.display().to_string(), source })
}

/// Reads a tiktoken file; `class` determines everything else.
///
/// # Errors
/// The file cannot be read or is damaged, or the tables do not contain the class.
pub(super) fn read_tiktoken(
    path: &Path,
    (class, listed): (Option<&str>, &[AddedToken]),
    tables: &TokenizerTables,
) -> Result<File, LoadError> {
    let kind = class.and_then(|class| tables.ranked(class)).ok_or_else(|| unknown(path, class, tables))?;
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    let text = document::text(path)?;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let parts = line.split_once(' ');
        let rank =
            parts.and_then(|(_, rank)| rank.parse::<usize>().ok()).filter(|rank| *rank == tokens.len());
        let bytes = parts.and_then(|(bytes, _)| BASE64.decode(bytes).ok()).filter(|_| rank.is_some());
        let problem = || format!("line {}: expected bytes in base64 and the rank {}", at + 1, tokens.len());
        tokens.push(bytes.ok_or_else(|| damaged(path, problem()))?);
    }
    let RankedKind { regexes, specials, numbered, opening, composed } = kind.clone();
    let numbered = numbered.map_or((String::new(), 0), |numbered| numbered);
    let more = (0..numbered.1).map(|number| numbered.0.replace("{}", &number.to_string()));
    let own = (tokens.len() as u64..).zip(specials.into_iter().chain(more));
    let mut specials: Vec<(u64, String)> = own.collect();
    for token in listed.iter().filter(|token| token.special) {
        if !specials.iter().any(|(id, text)| *id == token.id || *text == token.content) {
            specials.push((token.id, token.content.clone()));
        }
    }
    let ranked = Ranked { tokens, first: 0, specials, regexes, opening, composed };
    ranked.into_file().map_err(|source| LoadError::Tokenizer { file: path.display().to_string(), source })
}

fn unknown(path: &Path, class: Option<&str>, tables: &TokenizerTables) -> LoadError {
    let known: Vec<&str> = tables.ranked_names().filter(|name| *name != TEKKEN).collect();
    let problem = match class {
        Some(class) => {
            format!(
                "the tables do not contain the pre-tokenizer of class {class} (they have {})",
                known.join(", ")
            )
        }
        None => "tokenizer_config.json has no `tokenizer_class`, so the pre-tokenizer is unknown".to_owned(),
    };
    let advice = "add the model's tokenizer.json (transformers' save_pretrained writes it), or add the class to \
                  [[ranked]] of tokenizers/NAME.toml in a spec folder, as `menagerie guide tokenizer-tables` describes";
    LoadError::Folder { file: path.display().to_string(), problem, advice: advice.to_owned() }
}

fn damaged(path: &Path, problem: String) -> LoadError {
    let advice = "the file is damaged; download it again".to_owned();
    LoadError::Folder { file: path.display().to_string(), problem, advice }
}
