//! A tokenizer from a `tokenizer.json` (the tokenizers crate), by the stages that it names: normalize, find the added
//! tokens, split, encode the pieces with the model. Anything that is not supported exactly is refused with its place
//! in the file.

mod added;
mod cut;
pub(crate) mod file;
pub(crate) mod frame;
mod lists;
pub(crate) mod model;
mod normalizer;
mod pairs;
pub(crate) mod part;
mod pattern;
mod pieces;
pub(crate) mod pre_tokenizer;
pub(crate) mod ranked;
mod scripts;
mod spelling;
mod staged;
pub(crate) mod vocabulary;

use std::sync::Arc;

use file::{AddedToken, File};
pub(crate) use staged::StagedAlgorithm;

use super::algorithm::Algorithm;
use super::error::TokenizerError;
use super::framing::Framing;
use super::infill::InfillIds;
use super::special::SpecialTokens;
use super::{Tokenizer, TokenizerParts, ends};
use crate::tables::TokenizerTables;

/// Settings of the tokenizer from other files of a folder.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Tokens that the file does not list as added, with their flags.
    pub(crate) added: Vec<AddedToken>,
    /// Texts that are special tokens if the vocabulary contains them.
    pub(crate) special: Vec<String>,
    pub(crate) bos: Option<TokenReference>,
    pub(crate) eos: Option<TokenReference>,
    /// Whether a beginning-of-sequence and an end-of-sequence token are added, if set explicitly; this takes
    /// precedence over the file's template.
    pub(crate) adds: Option<Adds>,
    /// The unknown and the padding token, by text.
    pub(crate) unknown: Option<String>,
    pub(crate) pad: Option<String>,
    /// Additional ids that end a generation.
    pub(crate) ends: Vec<u32>,
}

/// A token by text or by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenReference {
    Text(String),
    Id(u32),
}

/// The tokens that are added around a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Adds {
    pub(crate) bos: bool,
    pub(crate) eos: bool,
}

/// Reads the text of a `tokenizer.json`.
///
/// # Errors
/// The text is not JSON, or has an unknown field.
pub(crate) fn read(text: &str) -> Result<File, TokenizerError> {
    let file: File = serde_json::from_str(text).map_err(|error| {
        part::bad(format!("line {}, column {}", error.line(), error.column()), said(&error))
    })?;
    match file.version.as_deref() {
        None | Some("1.0") => Ok(file),
        Some(other) => Err(part::refused("version", format!("is {other:?}"))),
    }
}

/// The message without its position, which the error already contains.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Builds the tokenizer of a file and its settings.
///
/// # Errors
/// A damaged file, or one with an unsupported feature.
pub(crate) fn build(
    mut file: File,
    settings: &Settings,
    tables: Arc<TokenizerTables>,
) -> Result<Tokenizer, TokenizerError> {
    vocabulary::add(&mut file, settings)?;
    let mut vocabulary = vocabulary::read(&file)?;
    let size = vocabulary.len();
    let named = |named: &Option<TokenReference>| match named {
        Some(TokenReference::Text(text)) => vocabulary.id(text),
        Some(TokenReference::Id(id)) => Some(*id).filter(|id| (*id as usize) < size),
        None => None,
    };
    let (bos, eos) = (named(&settings.bos), named(&settings.eos));
    let mut framing = frame::read(&file.post_processor, size)?;
    if let Some(adds) = settings.adds {
        framing = added_framing(adds, bos, eos);
    }
    let stated = eos.into_iter().chain(settings.ends.iter().copied()).filter(|id| (*id as usize) < size);
    let ends = ends::find(&mut vocabulary, stated.collect(), |_| Ok(None), &tables)?;
    let staged = StagedAlgorithm::read(&file, &vocabulary)?;
    let bos = bos.or(framing.opening.first().copied());
    let infill = InfillIds::find(&vocabulary, |_| Ok(None), &tables)?;
    let starts = |id: u32| framing.opening.first() == Some(&id);
    let closes = |id: u32| framing.closing.last() == Some(&id);
    let parts = TokenizerParts {
        add_bos: bos.is_some_and(starts),
        add_eos: eos.is_some_and(closes),
        special: SpecialTokens::new(&vocabulary, Default::default()),
        algorithm: Algorithm::Staged(Box::new(staged)),
        vocabulary,
        tables,
        model: model::kind(&file.model)?.to_owned(),
        pre: None,
        bos,
        eos,
        framing,
        infill,
    };
    Ok(Tokenizer { parts: Arc::new(parts), ends: ends.into_iter().collect() })
}

/// The replacement of the file's template in transformers 5 (`update_post_processor`).
pub(crate) fn added_framing(adds: Adds, bos: Option<u32>, eos: Option<u32>) -> Framing {
    let opening: Vec<u32> = bos.filter(|_| adds.bos).into_iter().collect();
    let closing: Vec<u32> = eos.filter(|_| adds.eos).into_iter().collect();
    Framing { between: opening.clone(), ending: closing.clone(), opening, closing }
}
