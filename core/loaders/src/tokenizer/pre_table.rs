//! What the names of `tokenizer.ggml.pre` stand for, read from specs/tokenizers/pre.toml.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use toml_span::Value;

use super::error::TokenizerError;
use crate::nearest::nearest;

const SOURCE: &str = include_str!("../../../../specs/tokenizers/pre.toml");
const FLAGS: [&str; 3] = ["ignore_merges", "add_bos", "text"];

/// The table of pre-tokenizers.
#[derive(Debug)]
pub struct PreTokenizerTable {
    entries: BTreeMap<String, PreEntry>,
    strip_after: Vec<String>,
}

/// How a vocabulary cuts text before merging, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PreEntry {
    /// Applied one after the other to every piece the one before it left.
    pub(crate) regexes: Vec<String>,
    /// A piece that is a token is that token, whatever the merges say.
    pub(crate) ignore_merges: bool,
    /// Whether the beginning-of-sequence token is put first where the file does not say.
    pub(crate) add_bos: bool,
    /// Tokens hold text with U+2581 for spaces, not GPT-2's byte letters.
    pub(crate) text: bool,
}

impl PreTokenizerTable {
    /// The table that is part of the program.
    pub fn built_in() -> Result<&'static Self, TokenizerError> {
        static TABLE: OnceLock<Result<PreTokenizerTable, TokenizerError>> = OnceLock::new();
        TABLE.get_or_init(|| Self::parse("specs/tokenizers/pre.toml", SOURCE)).as_ref().map_err(Clone::clone)
    }

    /// Reads a table; `name` is for messages. Errors: bad TOML, an unknown key, a name without or with two meanings.
    pub fn parse(name: &str, source: &str) -> Result<Self, TokenizerError> {
        let fault = |place: &str, problem: String| TokenizerError::Table {
            place: format!("{name}: {place}"),
            problem,
        };
        let root = toml_span::parse(source).map_err(|error| fault("TOML", error.to_string()))?;
        let splits = read_splits(&root).map_err(|(place, problem)| fault(&place, problem))?;
        let list =
            root.pointer("/pre").and_then(Value::as_array).ok_or_else(|| fault("pre", "missing".into()))?;
        let mut entries = BTreeMap::new();
        for (at, item) in list.iter().enumerate() {
            let place = format!("pre[{at}]");
            let (names, entry) = read_entry(item, &splits).map_err(|problem| fault(&place, problem))?;
            for pre in names {
                if entries.insert(pre.clone(), entry.clone()).is_some() {
                    return Err(fault(&place, format!("`{pre}` is there twice")));
                }
            }
        }
        let strip_after = root.pointer("/name/strip_after").map_or(Some(Vec::new()), texts);
        let strip_after =
            strip_after.ok_or_else(|| fault("name.strip_after", "not a list of texts".into()))?;
        Ok(Self { entries, strip_after })
    }

    /// Whether the special tokens of a model of this `general.name` take the white space after them along.
    pub(crate) fn strips_after(&self, general_name: &str) -> bool {
        let name = general_name.to_lowercase();
        self.strip_after.iter().any(|part| name.contains(part))
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The entry of a name; an error with the nearest names otherwise.
    pub(crate) fn entry(&self, pre: &str) -> Result<&PreEntry, TokenizerError> {
        self.entries.get(pre).ok_or_else(|| TokenizerError::UnknownPre {
            pre: pre.to_owned(),
            near: nearest(pre, self.names()),
        })
    }
}

type Splits = BTreeMap<String, Vec<String>>;

fn read_splits(root: &Value<'_>) -> Result<Splits, (String, String)> {
    let table = root.pointer("/split").and_then(Value::as_table);
    let table = table.ok_or_else(|| ("split".to_owned(), "missing".to_owned()))?;
    table
        .iter()
        .map(|(key, value)| {
            let list = texts(value)
                .ok_or_else(|| (format!("split.{}", key.name), "not a list of texts".to_owned()))?;
            Ok((key.name.to_string(), list))
        })
        .collect()
}

fn read_entry(item: &Value<'_>, splits: &Splits) -> Result<(Vec<String>, PreEntry), String> {
    let table = item.as_table().ok_or("not a table")?;
    for key in table.keys() {
        if !FLAGS.contains(&key.name.as_ref()) && !["names", "split"].contains(&key.name.as_ref()) {
            return Err(format!("unknown key `{}`", key.name));
        }
    }
    let flag = |key: &str| match item.pointer(&format!("/{key}")) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| format!("`{key}` is not a boolean")),
    };
    let names = item.pointer("/names").and_then(texts).ok_or("`names` is not a list of texts")?;
    let split = item.pointer("/split").and_then(Value::as_str).ok_or("`split` is missing")?;
    let regexes = splits.get(split).cloned().ok_or_else(|| format!("there is no [split] `{split}`"))?;
    let entry = PreEntry {
        regexes,
        ignore_merges: flag("ignore_merges")?,
        add_bos: flag("add_bos")?,
        text: flag("text")?,
    };
    Ok((names, entry))
}

fn texts(value: &Value<'_>) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}
