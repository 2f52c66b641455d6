//! A table file as written.

mod calls;

use std::collections::BTreeSet;

use toml_span::{Value, value::Table};

use super::entries::{
    Algorithm, CallEntry, ContentPair, FillIn, InfillEntry, NotEnd, PreTokenizerEntry, RankedKind,
    ReasoningPair, StripAfter, VocabularyKind,
};
use super::error::{TableError, TableFault};
use crate::tokenizer::InfillPart;
use menagerie_entries::nearest;

/// An entry with its position in the file.
#[derive(Debug)]
pub(super) struct PlacedEntry<T> {
    pub(super) at: EntryPlace,
    pub(super) value: T,
}

/// A position in a file: byte and key.
#[derive(Debug, Clone)]
pub(super) struct EntryPlace {
    pub(super) byte: usize,
    pub(super) key: String,
}

/// A name and its regexes.
pub(super) type Split = (String, Vec<String>);

/// Names, the split they use, and flags (without regexes).
pub(super) type Pre = (Vec<String>, String, PreTokenizerEntry);

/// Names, the split they use, and the rest (without regexes).
pub(super) type Ranked = (Vec<String>, Option<String>, RankedKind);

/// One file, before it is compared with others.
#[derive(Debug, Default)]
pub(super) struct EntryFile {
    pub(super) splits: Vec<PlacedEntry<Split>>,
    pub(super) pre: Vec<PlacedEntry<Pre>>,
    pub(super) vocabularies: Vec<PlacedEntry<(String, VocabularyKind)>>,
    /// Names, the split they use, and the rest (without regexes).
    pub(super) ranked: Vec<PlacedEntry<Ranked>>,
    pub(super) end: Vec<PlacedEntry<String>>,
    pub(super) steering: Vec<PlacedEntry<String>>,
    pub(super) fill_in: Vec<PlacedEntry<FillIn>>,
    pub(super) infill: Vec<PlacedEntry<InfillEntry>>,
    pub(super) not_end: Vec<PlacedEntry<NotEnd>>,
    pub(super) strip_after: Vec<PlacedEntry<StripAfter>>,
    pub(super) reasoning: Vec<PlacedEntry<ReasoningPair>>,
    pub(super) content: Vec<PlacedEntry<ContentPair>>,
    pub(super) calls: Vec<PlacedEntry<CallEntry>>,
    /// Names and sources.
    pub(super) templates: Vec<PlacedEntry<(String, String)>>,
}

/// Maximum number of special tokens that differ only by a number.
const MOST_NUMBERED: usize = 1 << 16;

const TABLES: [&str; 14] = [
    "split",
    "pre",
    "vocabulary",
    "ranked",
    "end",
    "steering",
    "fill_in_the_middle",
    "infill",
    "not_end",
    "strip_after",
    "reasoning",
    "content",
    "call",
    "chat_template",
];

/// A file's name and text.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableSource<'s> {
    pub(super) file: &'s str,
    pub(super) text: &'s str,
}

impl TableSource<'_> {
    /// The error for a fault at a position.
    pub(super) fn error(self, at: &EntryPlace, fault: TableFault) -> TableError {
        let before = self.text.get(..at.byte).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        TableError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            key: at.key.clone(),
            fault,
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The first part that is not TOML, unknown, missing, empty or of another type.
    pub(super) fn read(self) -> Result<EntryFile, TableError> {
        let root = toml_span::parse(self.text).map_err(|error| {
            let at = EntryPlace { byte: error.span.start, key: "file".to_owned() };
            self.error(&at, TableFault::Toml(error.to_string()))
        })?;
        let root = KeyedValue { source: self, value: &root, key: String::new() };
        let table = root.table(&TABLES)?;
        let mut written = EntryFile::default();
        for (key, node) in root.entries(table) {
            match key {
                "split" => written.splits = node.splits()?,
                "pre" => written.pre = node.list(KeyedValue::pre)?,
                "vocabulary" => written.vocabularies = node.list(KeyedValue::vocabulary)?,
                "ranked" => written.ranked = node.list(KeyedValue::ranked)?,
                "end" => written.end = node.only_texts()?,
                "steering" => written.steering = node.only_texts()?,
                "fill_in_the_middle" => written.fill_in = node.list(KeyedValue::fill_in)?,
                "infill" => written.infill = node.list(KeyedValue::infill)?,
                "not_end" => written.not_end = node.list(KeyedValue::not_end)?,
                "strip_after" => written.strip_after = node.list(KeyedValue::strip_after)?,
                "content" => written.content = node.list(KeyedValue::content)?,
                "call" => written.calls = node.list(KeyedValue::call)?,
                "chat_template" => written.templates = node.list(KeyedValue::chat_template)?,
                _ => written.reasoning = node.list(KeyedValue::reasoning)?,
            }
        }
        Ok(written)
    }
}

/// A value with its key.
struct KeyedValue<'s, 'v> {
    source: TableSource<'s>,
    value: &'v Value<'s>,
    key: String,
}

impl<'s, 'v> KeyedValue<'s, 'v> {
    fn at(&self) -> EntryPlace {
        EntryPlace { byte: self.value.span.start, key: self.key.clone() }
    }

    fn fault<T>(&self, fault: TableFault) -> Result<T, TableError> {
        Err(self.source.error(&self.at(), fault))
    }

    fn wanted<T>(&self, wanted: &'static str) -> Result<T, TableError> {
        let found = match self.value {
            value if value.as_str().is_some() => "a string",
            value if value.as_bool().is_some() => "a boolean",
            value if value.as_array().is_some() => "a list",
            value if value.as_table().is_some() => "a table",
            _ => "a number",
        };
        self.fault(TableFault::Type { wanted, found })
    }

    fn placed<T>(&self, value: T) -> PlacedEntry<T> {
        PlacedEntry { at: self.at(), value }
    }

    fn child(&self, key: &str, value: &'v Value<'s>) -> Self {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Self { source: self.source, value, key }
    }

    /// The value as a table with only these keys.
    fn table(&self, known: &[&str]) -> Result<&'v Table<'s>, TableError> {
        let Some(table) = self.value.as_table() else { return self.wanted("a table") };
        if let Some(key) = table.keys().find(|key| !known.contains(&key.name.as_ref())) {
            let at = EntryPlace { byte: key.span.start, key: self.child(&key.name, self.value).key };
            let near = nearest(&key.name, known.iter().copied()).map(str::to_owned);
            return Err(self.source.error(&at, TableFault::UnknownKey { near }));
        }
        Ok(table)
    }

    fn entries(&self, table: &'v Table<'s>) -> impl Iterator<Item = (&'v str, Self)> {
        table.iter().map(|(key, value)| (key.name.as_ref(), self.child(&key.name, value)))
    }

    fn get(&self, key: &str) -> Option<Self> {
        self.value.as_table()?.get(key).map(|value| self.child(key, value))
    }

    fn need(&self, key: &str) -> Result<Self, TableError> {
        let at = EntryPlace { byte: self.value.span.start, key: self.child(key, self.value).key };
        self.get(key).ok_or_else(|| self.source.error(&at, TableFault::Missing))
    }

    fn text(&self) -> Result<String, TableError> {
        match self.value.as_str() {
            Some("") => self.fault(TableFault::Empty { wanted: "a string" }),
            Some(text) => Ok(text.to_owned()),
            None => self.wanted("a string"),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, TableError> {
        let Some(node) = self.get(key) else { return Ok(false) };
        node.value.as_bool().map_or_else(|| node.wanted("a boolean"), Ok)
    }

    fn items(&self) -> Result<Vec<Self>, TableError> {
        let Some(items) = self.value.as_array() else { return self.wanted("a list") };
        let item = |(at, value)| Self { source: self.source, value, key: format!("{}[{at}]", self.key) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A list of unique strings with their positions.
    fn texts(&self) -> Result<Vec<PlacedEntry<String>>, TableError> {
        let mut seen = BTreeSet::new();
        let mut texts = Vec::new();
        for item in self.items()? {
            let text = item.text()?;
            if !seen.insert(text.clone()) {
                return item.fault(TableFault::Twice { name: text });
            }
            texts.push(item.placed(text));
        }
        if texts.is_empty() {
            return self.fault(TableFault::Empty { wanted: "a list of strings" });
        }
        Ok(texts)
    }

    fn plain_texts(&self) -> Result<Vec<String>, TableError> {
        Ok(self.texts()?.into_iter().map(|text| text.value).collect())
    }

    fn list<T>(
        &self,
        read: impl Fn(&Self) -> Result<PlacedEntry<T>, TableError>,
    ) -> Result<Vec<PlacedEntry<T>>, TableError> {
        self.items()?.iter().map(read).collect()
    }

    /// A table whose only key is `texts`.
    fn only_texts(&self) -> Result<Vec<PlacedEntry<String>>, TableError> {
        self.table(&["texts"])?;
        self.need("texts")?.texts()
    }

    fn splits(&self) -> Result<Vec<PlacedEntry<Split>>, TableError> {
        let Some(table) = self.value.as_table() else { return self.wanted("a table") };
        let read = |(name, node): (&str, Self)| {
            let regexes = node.items()?.iter().map(KeyedValue::text).collect::<Result<Vec<_>, _>>()?;
            if regexes.is_empty() {
                return node.fault(TableFault::Empty { wanted: "a list of regexes" });
            }
            Ok(node.placed((name.to_owned(), regexes)))
        };
        self.entries(table).map(read).collect()
    }

    fn pre(&self) -> Result<PlacedEntry<Pre>, TableError> {
        self.table(&["names", "split", "ignore_merges", "add_bos", "text"])?;
        let pre = PreTokenizerEntry {
            regexes: Vec::new(),
            ignore_merges: self.flag("ignore_merges")?,
            add_bos: self.flag("add_bos")?,
            text: self.flag("text")?,
        };
        Ok(self.placed((self.need("names")?.plain_texts()?, self.need("split")?.text()?, pre)))
    }

    fn vocabulary(&self) -> Result<PlacedEntry<(String, VocabularyKind)>, TableError> {
        self.table(&["name", "algorithm", "pre", "options", "refused"])?;
        let name = self.need("name")?.text()?;
        if let Some(what) = self.get("refused") {
            return Ok(self.placed((name, VocabularyKind::Refused { what: what.text()? })));
        }
        let node = self.need("algorithm")?;
        let name_of_it = node.text()?;
        if name_of_it.contains(':') {
            let options = self.get("options").map(|node| node.options()).transpose()?.unwrap_or_default();
            return Ok(self.placed((name, VocabularyKind::Codec { name: name_of_it, options })));
        }
        let known = Algorithm::NAMES.iter().find(|(known, _)| *known == name_of_it);
        let Some((_, algorithm)) = known else {
            return node.fault(TableFault::UnknownAlgorithm { name: name_of_it });
        };
        let algorithm = *algorithm;
        let pre = self.get("pre").map(|pre| pre.text()).transpose()?;
        Ok(self.placed((name, VocabularyKind::Known { algorithm, pre })))
    }

    /// Names and values as text, in the order of the names.
    fn options(&self) -> Result<Vec<(String, String)>, TableError> {
        let Some(table) = self.value.as_table() else { return self.wanted("a table") };
        let text = |(key, node): (&str, Self)| {
            let value = match (node.value.as_str(), node.value.as_integer(), node.value.as_float()) {
                (Some(text), _, _) => text.to_owned(),
                (_, Some(integer), _) => integer.to_string(),
                (_, _, Some(real)) => real.to_string(),
                _ => return node.wanted("a string or a number"),
            };
            Ok((key.to_owned(), value))
        };
        self.entries(table).map(text).collect()
    }

    fn ranked(&self) -> Result<PlacedEntry<Ranked>, TableError> {
        self.table(&["names", "split", "specials", "numbered", "opening", "nfc"])?;
        let list = |key: &str| self.get(key).map_or(Ok(Vec::new()), |node| node.plain_texts());
        let numbered = match self.get("numbered") {
            None => None,
            Some(node) => {
                node.table(&["text", "count"])?;
                let count = node.need("count")?;
                let number = count.value.as_integer().and_then(|count| usize::try_from(count).ok());
                let number = number.filter(|count| *count <= MOST_NUMBERED);
                Some((node.need("text")?.text()?, number.map_or_else(|| count.wanted("a small number"), Ok)?))
            }
        };
        let kind = RankedKind {
            regexes: Vec::new(),
            specials: list("specials")?,
            numbered,
            opening: list("opening")?,
            composed: self.flag("nfc")?,
        };
        let split = self.get("split").map(|node| node.text()).transpose()?;
        Ok(self.placed((self.need("names")?.plain_texts()?, split, kind)))
    }

    fn fill_in(&self) -> Result<PlacedEntry<FillIn>, TableError> {
        self.table(&["key", "texts"])?;
        let (key, texts) = (self.need("key")?.text()?, self.need("texts")?.plain_texts()?);
        Ok(self.placed(FillIn { key, texts }))
    }

    fn infill(&self) -> Result<PlacedEntry<InfillEntry>, TableError> {
        self.table(&["part", "keys", "texts"])?;
        let node = self.need("part")?;
        let name = node.text()?;
        let part = InfillPart::ALL.into_iter().find(|part| part.name() == name);
        let part = part.map_or_else(|| node.wanted("prefix, suffix, middle or file"), Ok)?;
        let list = |key: &str| self.need(key)?.plain_texts();
        Ok(self.placed(InfillEntry { part, keys: list("keys")?, texts: list("texts")? }))
    }

    fn not_end(&self) -> Result<PlacedEntry<NotEnd>, TableError> {
        self.table(&["text", "beside", "plain"])?;
        let text = self.need("text")?.text()?;
        let lists = self.need("beside")?;
        let beside = lists.items()?.iter().map(KeyedValue::plain_texts).collect::<Result<Vec<_>, _>>()?;
        if beside.is_empty() {
            return lists.fault(TableFault::Empty { wanted: "a list of lists of strings" });
        }
        Ok(self.placed(NotEnd { text, beside, plain: self.flag("plain")? }))
    }

    fn strip_after(&self) -> Result<PlacedEntry<StripAfter>, TableError> {
        self.table(&["model", "tokens", "also", "except"])?;
        let list = |key: &str| self.get(key).map_or(Ok(Vec::new()), |node| node.plain_texts());
        Ok(self.placed(StripAfter {
            model: self.need("model")?.text()?,
            tokens: self.need("tokens")?.plain_texts()?,
            also: list("also")?,
            except: list("except")?,
        }))
    }

    fn chat_template(&self) -> Result<PlacedEntry<(String, String)>, TableError> {
        self.table(&["name", "source"])?;
        Ok(self.placed((self.need("name")?.text()?, self.need("source")?.text()?)))
    }

    fn reasoning(&self) -> Result<PlacedEntry<ReasoningPair>, TableError> {
        self.table(&["open", "close", "always"])?;
        let (open, close) = (self.need("open")?.text()?, self.need("close")?.text()?);
        Ok(self.placed(ReasoningPair { open, close, always: self.flag("always")? }))
    }
}
