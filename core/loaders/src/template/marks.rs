//! Tells which characters of a rendered prompt came from outside.
//!
//! A template receives texts in which a mark (a private-use character that occurs nowhere else) follows characters;
//! the marks in the output tell where those characters went, whatever the template did. White space is never marked,
//! so that `trim` and `strip` work as usual.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::segment::Segment;

/// The text that is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All characters of contents; elsewhere as [`Extent::Tokens`].
    Contents,
    /// Only text that is, or could become together with the template's text, a special token.
    Tokens,
}

/// Adds marks to the values that a template receives.
pub(crate) struct Marker<'a> {
    mark: char,
    guarded: BTreeMap<u8, Vec<&'a str>>,
}

/// Keys whose values templates compare with their own words.
const WORDS: [&str; 5] = ["role", "type", "id", "tool_call_id", "name"];

/// Keys by which templates find the parts of messages and tools. They are marked only where they are names of a caller:
/// in the arguments of a call, and as properties of a schema.
const STRUCTURE: [&str; 21] = [
    "role",
    "content",
    "type",
    "text",
    "name",
    "id",
    "tool_calls",
    "tool_call_id",
    "function",
    "arguments",
    "reasoning_content",
    "reasoning",
    "thinking",
    "description",
    "parameters",
    "properties",
    "required",
    "items",
    "enum",
    "default",
    "strict",
];

impl<'a> Marker<'a> {
    /// A marker whose mark occurs in none of `sources`; `None` without such a character.
    pub(crate) fn new<'s>(
        guarded: &[&'a str],
        sources: impl Iterator<Item = &'s str> + Clone,
    ) -> Option<Self> {
        let free = |mark: &char| !sources.clone().any(|source| source.contains(*mark));
        let mark = ('\u{E000}'..='\u{F8FF}').find(free)?;
        let mut by_first: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
        for text in guarded {
            if let Some(first) = text.bytes().next() {
                by_first.entry(first).or_default().push(text);
            }
        }
        Some(Self { mark, guarded: by_first })
    }

    /// Messages with marks.
    pub(crate) fn messages(&self, messages: &[Value], extent: Extent) -> Vec<Value> {
        messages.iter().map(|message| self.value(message, extent, None, false)).collect()
    }

    /// Tool descriptions with marks: contents are the `description`s.
    pub(crate) fn tools(&self, tools: &[Value], extent: Extent) -> Vec<Value> {
        tools.iter().map(|tool| self.tool(tool, extent, None)).collect()
    }

    /// `is_argument`: within the arguments of a call, whose keys are names of the caller.
    fn value(&self, value: &Value, extent: Extent, key: Option<&str>, is_argument: bool) -> Value {
        let word = key.is_some_and(|key| WORDS.contains(&key));
        match value {
            Value::String(text) if extent == Extent::Contents && !word => Value::String(self.mark_all(text)),
            Value::String(text) => Value::String(self.mark_tokens(text, key == Some("role"))),
            Value::Array(items) => {
                let item = |item| self.value(item, extent, key, is_argument);
                Value::Array(items.iter().map(item).collect())
            }
            Value::Object(map) => self.map(map, is_argument, |key, value| {
                self.value(value, extent, Some(key), is_argument || key == "arguments")
            }),
            other => other.clone(),
        }
    }

    fn tool(&self, value: &Value, extent: Extent, key: Option<&str>) -> Value {
        match value {
            Value::String(text) if key == Some("description") && extent == Extent::Contents => {
                Value::String(self.mark_all(text))
            }
            Value::String(text) => Value::String(self.mark_tokens(text, false)),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.tool(item, extent, None)).collect())
            }
            Value::Object(map) => {
                self.map(map, key == Some("properties"), |key, value| self.tool(value, extent, Some(key)))
            }
            other => other.clone(),
        }
    }

    /// `has_names`: the keys are names of a caller.
    fn map(&self, map: &Map<String, Value>, has_names: bool, inner: impl Fn(&str, &Value) -> Value) -> Value {
        let key = |key: &str| match !has_names && STRUCTURE.contains(&key) {
            true => key.to_owned(),
            false => self.mark_tokens(key, false),
        };
        Value::Object(map.iter().map(|(name, value)| (key(name), inner(name, value))).collect())
    }

    fn mark_all(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() * 4);
        for character in text.chars() {
            out.push(character);
            if !character.is_whitespace() {
                out.push(self.mark);
            }
        }
        out
    }

    /// Marks whole special tokens and, unless `only_whole`, the beginning of one at the end of the text, the end of
    /// one at its start, and a text that is the middle of one.
    fn mark_tokens(&self, text: &str, only_whole: bool) -> String {
        let mut spots = BTreeSet::new();
        let end = text.trim_end().len();
        for (at, byte) in text.bytes().enumerate() {
            let Some(rest) = text.get(at..) else {
                continue;
            };
            // The text from here without trailing white space.
            let tail = text.get(at..end).unwrap_or_default();
            for token in self.guarded.get(&byte).into_iter().flatten() {
                if rest.starts_with(token) {
                    spots.extend(at..at + token.len());
                } else if !only_whole && token.starts_with(tail) {
                    spots.extend(at..at + tail.len());
                }
            }
        }
        if !only_whole {
            self.mark_ends(text, &mut spots);
        }
        let mut out = String::with_capacity(text.len() + 4 * spots.len());
        for (at, character) in text.char_indices() {
            out.push(character);
            if spots.contains(&at) && !character.is_whitespace() {
                out.push(self.mark);
            }
        }
        out
    }

    fn mark_ends(&self, text: &str, spots: &mut BTreeSet<usize>) {
        let head = text.trim_start();
        let start = text.len() - head.len();
        let whole = head.trim_end();
        for token in self.guarded.values().flatten() {
            let fits = |from: &usize| token.get(*from..).is_some_and(|end| head.starts_with(end));
            if let Some(from) = (1..token.len()).find(fits) {
                spots.extend(start..start + token.len() - from);
            }
            if !whole.is_empty() && token.contains(whole) {
                spots.extend(start..start + whole.len());
            }
        }
    }

    /// The text without marks.
    pub(crate) fn strip(&self, marked: &str) -> String {
        marked.chars().filter(|character| *character != self.mark).collect()
    }

    /// The text in parts: marked characters are untrusted, and so is the white space between two of them.
    pub(crate) fn segments(&self, marked: &str) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut append = |text: &str, trusted: bool| match segments.last_mut() {
            Some(last) if last.trusted == trusted => last.text.push_str(text),
            _ if text.is_empty() => {}
            _ => segments.push(Segment { text: text.to_owned(), trusted }),
        };
        let mut white = String::new();
        let mut last_trusted = true;
        let mut characters = marked.chars().peekable();
        while let Some(character) = characters.next() {
            let trusted = characters.next_if_eq(&self.mark).is_none();
            if trusted && character.is_whitespace() {
                white.push(character);
                continue;
            }
            append(&white, trusted || last_trusted);
            white.clear();
            append(character.encode_utf8(&mut [0; 4]), trusted);
            last_trusted = trusted;
        }
        append(&white, true);
        segments
    }

    /// The first special token in a string of the values.
    pub(crate) fn first_token(&self, values: &[Value]) -> Option<&'a str> {
        values.iter().find_map(|value| match value {
            Value::String(text) => {
                let found = text.bytes().enumerate().find_map(|(at, byte)| {
                    let tokens = self.guarded.get(&byte)?;
                    tokens.iter().find(|token| text.get(at..).is_some_and(|rest| rest.starts_with(**token)))
                });
                found.copied()
            }
            Value::Array(items) => self.first_token(items),
            Value::Object(map) => {
                map.values().find_map(|value| self.first_token(std::slice::from_ref(value)))
            }
            _ => None,
        })
    }
}
