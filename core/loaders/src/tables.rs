//! [`TokenizerTables`]: data about vocabularies and chat formats, from `specs/tokenizers/` and spec folders.

mod entries;
mod error;
mod merge;
mod read;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::tokenizer::CodecKind;
pub(crate) use entries::{
    Algorithm, CallEntry, ContentPair, FillIn, InfillEntry, NotEnd, PreTokenizerEntry, RankedKind,
    ReasoningPair, StripAfter, VocabularyKind,
};
pub use error::{TableError, TableFault};
use menagerie_answers::{AnswerSyntax, CallFormat, ReasoningTags};
use menagerie_entries::{nearest, nearest_clause};
use merge::TableMerge;
use read::TableSource;

/// The files of `specs/tokenizers/`; `tables` of this package is a link to them, so that the package is complete.
const BUILT_IN: [(&str, &str); 7] = [
    ("specs/tokenizers/pre.toml", include_str!("../tables/pre.toml")),
    ("specs/tokenizers/vocabularies.toml", include_str!("../tables/vocabularies.toml")),
    ("specs/tokenizers/ranked.toml", include_str!("../tables/ranked.toml")),
    ("specs/tokenizers/ends.toml", include_str!("../tables/ends.toml")),
    ("specs/tokenizers/reasoning.toml", include_str!("../tables/reasoning.toml")),
    ("specs/tokenizers/calls.toml", include_str!("../tables/calls.toml")),
    ("specs/tokenizers/chats.toml", include_str!("../tables/chats.toml")),
];

/// Pre-tokenizers, vocabulary algorithms, end-of-generation and fill-in-the-middle texts, reasoning tags, formats of
/// calls, chat templates.
///
/// The built-in files and those of spec folders (`<folder>/tokenizers/*.toml`) have the same format, which
/// `specs/tokenizers/README.md` describes; any file may contain any of the tables.
#[derive(Debug, Clone, Default)]
pub struct TokenizerTables {
    files: Vec<String>,
    built_in_files: usize,
    splits: BTreeMap<String, FileEntry<Vec<String>>>,
    pre: BTreeMap<String, FileEntry<PreTokenizerEntry>>,
    /// The first name of each of their entries.
    usual_pre: Vec<String>,
    vocabularies: BTreeMap<String, FileEntry<VocabularyKind>>,
    /// By `tokenizer_class`, or by the file's name.
    ranked: BTreeMap<String, FileEntry<RankedKind>>,
    /// Text and file.
    end: BTreeMap<String, usize>,
    steering: BTreeMap<String, usize>,
    fill_in: Vec<FillIn>,
    infill: Vec<InfillEntry>,
    not_end: Vec<FileEntry<NotEnd>>,
    strip_after: Vec<StripAfter>,
    reasoning: Vec<FileEntry<ReasoningPair>>,
    content: Vec<FileEntry<ContentPair>>,
    calls: BTreeMap<String, FileEntry<CallEntry>>,
    templates: BTreeMap<String, FileEntry<String>>,
    codecs: Codecs,
}

/// Registered tokenizers by name.
#[derive(Clone, Default)]
struct Codecs(BTreeMap<String, Arc<dyn CodecKind>>);

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// An entry and the number of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileEntry<T> {
    value: T,
    file: usize,
}

impl TokenizerTables {
    /// The built-in tables.
    ///
    /// # Errors
    /// An error in one of them (the tests read all).
    pub fn built_in() -> Result<Arc<Self>, TableError> {
        static TABLES: OnceLock<Result<Arc<TokenizerTables>, TableError>> = OnceLock::new();
        TABLES.get_or_init(|| Self::read(&BUILT_IN).map(Arc::new)).clone()
    }

    fn read(files: &[(&str, &str)]) -> Result<Self, TableError> {
        let mut tables = Self { built_in_files: files.len(), ..Self::default() };
        for (file, text) in files {
            tables.add(file, text, false)?;
        }
        Ok(tables)
    }

    /// Adds the tables of a file of a spec folder. An entry that already exists with the same content changes
    /// nothing.
    ///
    /// `allow_shadow`: an entry may replace one of a built-in file. Entries of another folder's file are never replaced.
    ///
    /// # Errors
    /// The file is invalid, or has another definition of an existing name; the tables are then unchanged.
    pub fn add(&mut self, file: &str, text: &str, allow_shadow: bool) -> Result<(), TableError> {
        let source = TableSource { file, text };
        let written = source.read()?;
        let mut tables = self.clone();
        let number = tables.files.len();
        tables.files.push(file.to_owned());
        TableMerge { tables: &mut tables, source, file: number, allow_shadow }.run(written)?;
        *self = tables;
        Ok(())
    }

    /// Adds a tokenizer that entries may use as their algorithm.
    pub fn register(&mut self, codec: Arc<dyn CodecKind>) {
        self.codecs.0.insert(codec.name().to_owned(), codec);
    }

    pub(crate) fn codec(&self, name: &str) -> Option<&Arc<dyn CodecKind>> {
        self.codecs.0.get(name)
    }

    /// The files that were added to the built-in ones, in this order.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.files.iter().skip(self.built_in_files).map(String::as_str)
    }

    /// The names of all pre-tokenizers, sorted.
    pub(crate) fn pre_tokenizers(&self) -> impl Iterator<Item = &str> {
        self.pre.keys().map(String::as_str)
    }

    /// The tags of reasoning, the most common first.
    pub(crate) fn reasoning(&self) -> impl Iterator<Item = &ReasoningPair> {
        self.reasoning.iter().map(|held| &held.value)
    }

    /// Tags of reasoning and markers of text in the answers of a model with this chat template: those that apply to
    /// every model, and those of which the template contains a tag. There are no calls yet.
    pub fn answer_syntax(&self, template: &str) -> AnswerSyntax {
        let applies = |pair: &&ReasoningPair| {
            pair.always || template.contains(&pair.open) || template.contains(&pair.close)
        };
        let tags =
            |pair: &ReasoningPair| ReasoningTags { open: pair.open.clone(), close: pair.close.clone() };
        let content = self.content.iter().map(|held| &held.value);
        let content = content.filter(|pair| pair.template.iter().all(|text| template.contains(text)));
        AnswerSyntax::of_reasoning(self.reasoning().filter(applies).map(tags).collect())
            .with_content(content.map(|pair| pair.tags.clone()).collect())
    }

    /// The formats of calls that a chat template may have, by name.
    pub(crate) fn calls_of(&self, template: &str) -> Vec<&Arc<CallFormat>> {
        let fitting = self.calls.values().filter(|held| held.value.fits(template));
        fitting.map(|held| &held.value.format).collect()
    }

    /// The names of all formats of calls, sorted.
    pub fn call_formats(&self) -> impl Iterator<Item = &str> {
        self.calls.keys().map(String::as_str)
    }

    /// The source of a chat template by its name.
    pub fn chat_template(&self, name: &str) -> Option<&str> {
        self.templates.get(name).map(|held| held.value.as_str())
    }

    /// A chat template by source or name: the text itself if it contains Jinja (a `{`), or else the source of the
    /// template with this name.
    ///
    /// # Errors
    ///
    /// No template has this name; the error contains the nearest one.
    pub fn chat_template_of<'a>(&'a self, text: &'a str) -> Result<&'a str, String> {
        if text.contains('{') {
            return Ok(text);
        }
        self.chat_template(text).ok_or_else(|| {
            let near = nearest_clause(nearest(text, self.chat_templates()));
            format!(
                "chat.fallback `{text}` of the spec is neither a Jinja template nor the name of one{near}"
            )
        })
    }

    /// The names of all chat templates, sorted.
    pub fn chat_templates(&self) -> impl Iterator<Item = &str> {
        self.templates.keys().map(String::as_str)
    }

    pub(crate) fn pre(&self, name: &str) -> Option<&PreTokenizerEntry> {
        self.pre.get(name).map(|held| &held.value)
    }

    /// The names of pre-tokenizers with these regexes; the preferred names of their entries come first.
    pub(crate) fn pre_of(&self, regexes: &[String], ignore_merges: bool) -> Vec<&str> {
        let same = |pre: &PreTokenizerEntry| {
            pre.ignore_merges == ignore_merges && !pre.text && pre.regexes.iter().eq(regexes)
        };
        let mut names: Vec<(bool, &str)> = (self.pre.iter())
            .filter(|(_, held)| same(&held.value))
            .map(|(name, _)| (!self.usual_pre.contains(name), name.as_str()))
            .collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    pub(crate) fn vocabulary(&self, name: &str) -> Option<&VocabularyKind> {
        self.vocabularies.get(name).map(|held| &held.value)
    }

    pub(crate) fn ranked(&self, name: &str) -> Option<&RankedKind> {
        self.ranked.get(name).map(|held| &held.value)
    }

    /// Names of known classes of byte-level vocabularies, and of files.
    pub(crate) fn ranked_names(&self) -> impl Iterator<Item = &str> {
        self.ranked.keys().map(String::as_str)
    }

    /// The value of `tokenizer.ggml.model` for an algorithm, if the name does not imply a pre-tokenizer.
    pub(crate) fn vocabulary_of(&self, wanted: Algorithm) -> Option<&str> {
        let fits = |held: &FileEntry<VocabularyKind>| matches!(&held.value, VocabularyKind::Known { algorithm, pre: None } if *algorithm == wanted);
        self.vocabularies.iter().find(|(_, held)| fits(held)).map(|(name, _)| name.as_str())
    }

    /// Supported values of `tokenizer.ggml.model`.
    pub(crate) fn usable_vocabularies(&self) -> impl Iterator<Item = &str> {
        let usable = |held: &FileEntry<VocabularyKind>| {
            matches!(held.value, VocabularyKind::Known { .. } | VocabularyKind::Codec { .. })
        };
        self.vocabularies.iter().filter(move |(_, held)| usable(held)).map(|(name, _)| name.as_str())
    }

    pub(crate) fn end_texts(&self) -> impl Iterator<Item = &str> {
        self.end.keys().map(String::as_str)
    }

    pub(crate) fn steering_texts(&self) -> impl Iterator<Item = &str> {
        let infill = self.infill.iter().flat_map(|entry| &entry.texts);
        self.steering.keys().chain(infill).map(String::as_str)
    }

    pub(crate) fn infill(&self) -> &[InfillEntry] {
        &self.infill
    }

    pub(crate) fn fill_in(&self) -> &[FillIn] {
        &self.fill_in
    }

    pub(crate) fn not_end(&self) -> impl Iterator<Item = &NotEnd> {
        self.not_end.iter().map(|held| &held.value)
    }

    pub(crate) fn strip_after(&self) -> &[StripAfter] {
        &self.strip_after
    }
}
