//! Merging the tables of one file into the others: new entries are added, equal ones change nothing, anything else is
//! a conflict.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::error::{TableError, TableFault};
use super::read::{EntryFile, EntryPlace, PlacedEntry, TableSource};
use super::{FileEntry, TokenizerTables};
use crate::template::ChatTemplate;
use crate::tokenizer::Splitter;
use menagerie_entries::nearest;

/// Maximum time for compiling the regexes of a file: folders are read without a request, and a short regex can take
/// half a second.
const COMPILING: Duration = Duration::from_secs(3);

/// Adds the entries of one file.
pub(super) struct TableMerge<'a> {
    pub(super) tables: &'a mut TokenizerTables,
    pub(super) source: TableSource<'a>,
    /// Number of the file.
    pub(super) file: usize,
    /// Whether entries of built-in files may be replaced.
    pub(super) allow_shadow: bool,
}

impl TableMerge<'_> {
    /// Adds all entries; if it fails, the tables are partly changed.
    pub(super) fn run(mut self, written: EntryFile) -> Result<(), TableError> {
        self.splits(&written)?;
        self.pre(&written)?;
        self.vocabularies(&written)?;
        self.ranked(&written)?;
        self.templates(&written)?;
        for text in written.end {
            self.tables.end.entry(text.value).or_insert(self.file);
        }
        for text in written.steering {
            self.tables.steering.entry(text.value).or_insert(self.file);
        }
        for one in written.fill_in {
            self.fill_in(one.value);
        }
        for one in written.infill {
            self.infill(one.value);
        }
        for one in &written.not_end {
            self.not_end(one)?;
        }
        for one in written.strip_after {
            if !self.tables.strip_after.contains(&one.value) {
                self.tables.strip_after.push(one.value);
            }
        }
        for one in &written.reasoning {
            self.reasoning(one)?;
        }
        for one in &written.content {
            self.content(one)?;
        }
        for PlacedEntry { at, value } in &written.calls {
            self.put(|tables| &mut tables.calls, at, value.format.name(), value)?;
        }
        Ok(())
    }

    /// An existing definition of `name` by another file, unless this file may replace it.
    fn conflict(&self, at: &EntryPlace, name: &str, other: usize) -> Result<(), TableError> {
        if other == self.file {
            return Err(self.source.error(at, TableFault::Twice { name: name.to_owned() }));
        }
        let built_in = other < self.tables.built_in_files;
        if built_in && self.allow_shadow {
            return Ok(());
        }
        let other = self.tables.files.get(other).cloned().unwrap_or_default();
        Err(self.source.error(at, TableFault::Conflict { name: name.to_owned(), other, built_in }))
    }

    /// Sets the value of a name; an equal value changes nothing.
    fn put<T: PartialEq + Clone>(
        &mut self,
        of: fn(&mut TokenizerTables) -> &mut BTreeMap<String, FileEntry<T>>,
        at: &EntryPlace,
        name: &str,
        value: &T,
    ) -> Result<(), TableError> {
        if let Some(held) = of(self.tables).get(name).map(|held| (held.file, held.value == *value)) {
            let (other, same) = held;
            if same && other != self.file {
                return Ok(());
            }
            self.conflict(at, name, other)?;
        }
        of(self.tables).insert(name.to_owned(), FileEntry { value: value.clone(), file: self.file });
        Ok(())
    }

    fn splits(&mut self, written: &EntryFile) -> Result<(), TableError> {
        let built_in = self.file < self.tables.built_in_files;
        let start = Instant::now();
        for PlacedEntry { at, value: (name, regexes) } in &written.splits {
            if !built_in && start.elapsed() > COMPILING {
                let problem =
                    format!("the lists before it took longer than {} s to compile", COMPILING.as_secs());
                return Err(self.source.error(at, TableFault::Regex { regex: name.clone(), problem }));
            }
            // The built-in ones are compiled by the tests; compiling all takes a tenth of a second.
            if !built_in {
                Splitter::new(regexes).map_err(|(regex, problem)| {
                    self.source.error(at, TableFault::Regex { regex, problem })
                })?;
            }
            self.put(|tables| &mut tables.splits, at, name, regexes)?;
        }
        Ok(())
    }

    fn pre(&mut self, written: &EntryFile) -> Result<(), TableError> {
        for PlacedEntry { at, value: (names, split, pre) } in &written.pre {
            let regexes = self.regexes(at, split)?;
            let pre = super::PreTokenizerEntry { regexes, ..pre.clone() };
            self.tables.usual_pre.extend(names.first().cloned());
            for name in names {
                self.put(|tables| &mut tables.pre, at, name, &pre)?;
            }
        }
        Ok(())
    }

    /// The regexes of a split.
    fn regexes(&self, at: &EntryPlace, split: &str) -> Result<Vec<String>, TableError> {
        let splits = &self.tables.splits;
        splits.get(split).map(|held| held.value.clone()).ok_or_else(|| {
            let near = nearest(split, splits.keys().map(String::as_str)).map(str::to_owned);
            self.source.error(at, TableFault::UnknownSplit { name: split.to_owned(), near })
        })
    }

    fn ranked(&mut self, written: &EntryFile) -> Result<(), TableError> {
        for PlacedEntry { at, value: (names, split, kind) } in &written.ranked {
            let regexes = split.as_ref().map_or(Ok(Vec::new()), |split| self.regexes(at, split))?;
            let kind = super::RankedKind { regexes, ..kind.clone() };
            for name in names {
                self.put(|tables| &mut tables.ranked, at, name, &kind)?;
            }
        }
        Ok(())
    }

    fn vocabularies(&mut self, written: &EntryFile) -> Result<(), TableError> {
        for PlacedEntry { at, value: (name, kind) } in &written.vocabularies {
            self.put(|tables| &mut tables.vocabularies, at, name, kind)?;
        }
        Ok(())
    }

    fn templates(&mut self, written: &EntryFile) -> Result<(), TableError> {
        // The built-in ones are compiled by the tests.
        let built_in = self.file < self.tables.built_in_files;
        for PlacedEntry { at, value: (name, source) } in &written.templates {
            if !built_in {
                ChatTemplate::new(name, source, None, None).map_err(|error| {
                    self.source.error(at, TableFault::Template { problem: error.to_string() })
                })?;
            }
            self.put(|tables| &mut tables.templates, at, name, source)?;
        }
        Ok(())
    }

    /// Texts of an existing key are added after the existing ones, so that files that have one keep it.
    fn fill_in(&mut self, one: super::FillIn) {
        match self.tables.fill_in.iter_mut().find(|known| known.key == one.key) {
            Some(known) => {
                let new: Vec<String> = one.texts.into_iter().filter(|t| !known.texts.contains(t)).collect();
                known.texts.extend(new);
            }
            None => self.tables.fill_in.push(one),
        }
    }

    /// Keys and texts of an existing part are added after the existing ones, so that files that have one keep it.
    fn infill(&mut self, one: super::InfillEntry) {
        let Some(known) = self.tables.infill.iter_mut().find(|known| known.part == one.part) else {
            return self.tables.infill.push(one);
        };
        for (list, more) in [(&mut known.keys, one.keys), (&mut known.texts, one.texts)] {
            let new: Vec<String> = more.into_iter().filter(|text| !list.contains(text)).collect();
            list.extend(new);
        }
    }

    /// A rule about end tokens can change the meaning of tokens that another file declares.
    fn not_end(&mut self, one: &PlacedEntry<super::NotEnd>) -> Result<(), TableError> {
        if self.tables.not_end.iter().any(|held| held.value == one.value) {
            return Ok(());
        }
        let declared = self.tables.end.get(&one.value.text).copied();
        if let Some(other) = declared.filter(|other| *other != self.file) {
            self.conflict(&one.at, &one.value.text, other)?;
        }
        self.tables.not_end.push(FileEntry { value: one.value.clone(), file: self.file });
        Ok(())
    }

    fn reasoning(&mut self, one: &PlacedEntry<super::ReasoningPair>) -> Result<(), TableError> {
        let new = FileEntry { value: one.value.clone(), file: self.file };
        let known = self.tables.reasoning.iter().position(|held| held.value.open == one.value.open);
        let Some((place, held)) = known.and_then(|at| Some((at, self.tables.reasoning.get(at)?))) else {
            self.tables.reasoning.push(new);
            return Ok(());
        };
        if held.file != self.file && held.value == one.value {
            return Ok(());
        }
        self.conflict(&one.at, &one.value.open, held.file)?;
        if let Some(held) = self.tables.reasoning.get_mut(place) {
            *held = new;
        }
        Ok(())
    }

    /// Markers of text are known by the opening one.
    fn content(&mut self, one: &PlacedEntry<super::ContentPair>) -> Result<(), TableError> {
        let new = FileEntry { value: one.value.clone(), file: self.file };
        let known = self.tables.content.iter().position(|held| held.value.tags.open == one.value.tags.open);
        let Some((place, held)) = known.and_then(|at| Some((at, self.tables.content.get(at)?))) else {
            self.tables.content.push(new);
            return Ok(());
        };
        if held.file != self.file && held.value == one.value {
            return Ok(());
        }
        self.conflict(&one.at, &one.value.tags.open, held.file)?;
        if let Some(held) = self.tables.content.get_mut(place) {
            *held = new;
        }
        Ok(())
    }
}
