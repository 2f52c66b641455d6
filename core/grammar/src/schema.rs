//! JSON schemas: what is enforced passes, everything else is refused by name.

use crate::error::GrammarError;
use crate::in_place::InPlaceGraph;
use crate::keywords::{Keyword, keyword};
use crate::nesting::{self, MOST_BYTES, MOST_LEVELS};
use crate::numbers::{check_bound, check_factor};
use crate::string_format::{StringFormat, format_of};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const WHAT: &str = "JSON schema";
/// The most items and members that all counts of a schema may add up to; each is a node of the grammar.
const MOST_COUNTED: u64 = 10_000;
/// The largest length of a string.
const MOST_CHARACTERS: u64 = 1_000_000;
/// The names of types.
const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

/// The schema without annotations, as llguidance gets it.
///
/// # Errors
/// A keyword is not supported or is not what the specification says, or a limit is exceeded.
pub(crate) fn checked(schema: &Value) -> Result<Value, GrammarError> {
    if levels(schema) > MOST_LEVELS {
        return Err(GrammarError::TooDeep { what: WHAT, most: MOST_LEVELS });
    }
    let bytes = schema.to_string().len();
    if bytes > MOST_BYTES {
        return Err(GrammarError::TooLarge { what: WHAT, bytes, most: MOST_BYTES });
    }
    let mut reader = SchemaReader { is_draft_04: names_draft_04(schema), ..SchemaReader::default() };
    let read = reader.read(schema, "")?;
    reader.check_references()?;
    let mut read = match read {
        Value::Object(fields) => fields,
        Value::Bool(true) => Map::new(),
        _ => return Err(fault("", "the schema `false`", "allows no answer")),
    };
    let options = json!({
        "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ",
        // With \u escapes the name of a member could be written in another way, and so come twice.
        "json_allowed_escapes": "nrbtf\\\"",
    });
    read.insert("x-guidance".to_owned(), options);
    Ok(Value::Object(read))
}

/// The nesting of a value, found without recursion.
fn levels(value: &Value) -> usize {
    let mut deepest = 0;
    let mut rest = vec![(value, 1)];
    while let Some((value, level)) = rest.pop() {
        deepest = deepest.max(level);
        match value {
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(fields) => rest.extend(fields.values().map(|field| (field, level + 1))),
            _ => {}
        }
    }
    deepest
}

fn fault(at: &str, keyword: &str, reason: impl Into<String>) -> GrammarError {
    let keyword = if keyword.contains('`') { keyword.to_owned() } else { format!("`{keyword}`") };
    GrammarError::Schema { at: at.to_owned(), keyword, reason: reason.into() }
}

/// The pointer of a part.
fn below(at: &str, part: &str) -> String {
    format!("{at}/{}", part.replace('~', "~0").replace('/', "~1"))
}

/// Reads the schemas of a document.
#[derive(Default)]
struct SchemaReader {
    graph: InPlaceGraph,
    /// Places of references and their targets.
    references: Vec<(String, String)>,
    /// The sum of all counts.
    counted: u64,
    /// The version of the language, if it is an older one.
    older: Option<String>,
    /// Whether that is draft-04, which names a document by `id`.
    is_draft_04: bool,
    /// The first schema whose meaning is another one in older versions, with its keyword.
    newer: Option<(String, &'static str)>,
}

impl SchemaReader {
    fn read(&mut self, schema: &Value, at: &str) -> Result<Value, GrammarError> {
        self.graph.add(at);
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(_) => return Ok(schema.clone()),
            other => {
                return Err(fault(
                    at,
                    &format!("`{other}`"),
                    "is not a schema: expected an object or a boolean",
                ));
            }
        };
        let mut read = Map::new();
        for (name, value) in fields {
            if let Some(value) = self.keyword(name, value, at)? {
                read.insert(name.clone(), value);
            }
        }
        self.check_together(fields, at)?;
        enforce_format(&mut read);
        Ok(Value::Object(read))
    }

    /// The value of a keyword as llguidance gets it; `None` if it is left out because nothing depends on it.
    fn keyword(&mut self, name: &str, value: &Value, at: &str) -> Result<Option<Value>, GrammarError> {
        let wrong = |reason: String| fault(at, name, reason);
        let expected = |what: &str| fault(at, name, format!("is {}, but must be {what}", shown(value)));
        let known = if name == "id" && self.is_draft_04 { Some(Keyword::Identity) } else { keyword(name) };
        let Some(kind) = known else {
            let reason =
                "is not a keyword of JSON Schema 2020-12 that is supported: remove it, or correct its name";
            return Err(fault(at, name, reason));
        };
        match kind {
            Keyword::Annotation => return Ok(None),
            Keyword::Unsupported(advice) => return Err(wrong(format!("is not supported: {advice}"))),
            Keyword::Unique if *value == json!(false) => return Ok(None),
            Keyword::Unique => {
                return Err(wrong(
                    "is not supported, because an answer could have equal items: remove it".into(),
                ));
            }
            Keyword::Identity | Keyword::Dialect => {
                self.check_root(kind, name, value, at)?;
                return Ok(None);
            }
            Keyword::Schema
            | Keyword::SchemaList
            | Keyword::SchemaMap
            | Keyword::PatternMap
            | Keyword::InPlace => {
                return self.schemas(kind, name, value, at).map(Some);
            }
            Keyword::Type => check_type(value).map_err(wrong)?,
            Keyword::Values => match value.as_array().filter(|values| !values.is_empty()) {
                Some(values) => values.iter().try_for_each(check_value).map_err(wrong)?,
                None => return Err(expected("a list of values, not empty")),
            },
            Keyword::Value => check_value(value).map_err(wrong)?,
            Keyword::Count => self.count(value).map_err(wrong)?,
            Keyword::Length => match value.as_u64() {
                Some(0..=MOST_CHARACTERS) => {}
                _ => return Err(expected(&format!("a whole number from 0 to {MOST_CHARACTERS}"))),
            },
            Keyword::Bound => check_bound(value).map_err(wrong)?,
            Keyword::Factor => check_factor(value).map_err(wrong)?,
            Keyword::Names => check_names(value).ok_or_else(|| expected("a list of different names"))?,
            Keyword::Pattern => match value.as_str() {
                Some(pattern) => check_pattern(pattern).map_err(wrong)?,
                None => return Err(expected("a regular expression")),
            },
            Keyword::Format => {
                let name = value.as_str().ok_or_else(|| expected("the name of a format"))?;
                format_of(name).map_err(|known| wrong(format!("`{name}` is not supported, only {known}")))?;
            }
            Keyword::Reference => {
                let target = value.as_str().ok_or_else(|| expected("a reference"))?;
                self.references.push((at.to_owned(), target.to_owned()));
            }
        }
        Ok(Some(value.clone()))
    }

    /// The schemas in the value of a keyword.
    fn schemas(&mut self, kind: Keyword, name: &str, value: &Value, at: &str) -> Result<Value, GrammarError> {
        let here = below(at, name);
        if name == "prefixItems" {
            self.newer.get_or_insert((at.to_owned(), "prefixItems"));
        }
        match (kind, value) {
            (Keyword::Schema, Value::Array(_)) => {
                Err(fault(at, name, "is a list: since JSON Schema 2020-12 a list of schemas is prefixItems"))
            }
            (Keyword::Schema, schema) => self.read(schema, &here),
            (Keyword::SchemaList | Keyword::InPlace, Value::Array(schemas)) if !schemas.is_empty() => {
                let mut read = Vec::with_capacity(schemas.len());
                for (index, schema) in schemas.iter().enumerate() {
                    let place = below(&here, &index.to_string());
                    if kind == Keyword::InPlace {
                        self.graph.connect(at, &place);
                    }
                    read.push(self.read(schema, &place)?);
                }
                Ok(Value::Array(read))
            }
            (Keyword::SchemaMap | Keyword::PatternMap, Value::Object(schemas)) => {
                let mut read = Map::new();
                for (key, schema) in schemas {
                    if kind == Keyword::PatternMap {
                        check_pattern(key).map_err(|reason| fault(at, name, reason))?;
                    }
                    read.insert(key.clone(), self.read(schema, &below(&here, key))?);
                }
                Ok(Value::Object(read))
            }
            (Keyword::SchemaList | Keyword::InPlace, _) => {
                Err(fault(at, name, format!("is {}, but must be a list of schemas, not empty", shown(value))))
            }
            _ => Err(fault(at, name, format!("is {}, but must be an object of schemas", shown(value)))),
        }
    }

    /// Checks a keyword that may only be at the root.
    fn check_root(&mut self, kind: Keyword, name: &str, value: &Value, at: &str) -> Result<(), GrammarError> {
        let Some(text) = value.as_str() else {
            return Err(fault(at, name, format!("is {}, but must be a text", shown(value))));
        };
        if !at.is_empty() {
            return Err(fault(at, name, "is supported only at the root: remove it"));
        }
        if kind == Keyword::Identity {
            return Ok(());
        }
        let plain = plain_dialect(text);
        match plain {
            "json-schema.org/draft/2020-12/schema" => {}
            "json-schema.org/draft/2019-09/schema"
            | "json-schema.org/draft-07/schema"
            | "json-schema.org/draft-06/schema"
            | DRAFT_04 => self.older = Some(plain.to_owned()),
            _ => {
                let reason = format!(
                    "{text:?} is not supported: only JSON Schema 2020-12, 2019-09, draft-07, draft-06 and draft-04"
                );
                return Err(fault(at, name, reason));
            }
        }
        Ok(())
    }

    /// Adds a count of items or members to the sum.
    fn count(&mut self, value: &Value) -> Result<(), String> {
        let count = value
            .as_u64()
            .ok_or_else(|| format!("is {}, but must be a whole number from 0", shown(value)))?;
        self.counted = self.counted.saturating_add(count);
        if self.counted > MOST_COUNTED {
            return Err(format!(
                "is {count}; all counts of items and members of a schema together may be at most {MOST_COUNTED}"
            ));
        }
        Ok(())
    }

    /// Checks keywords that act together.
    fn check_together(&mut self, fields: &Map<String, Value>, at: &str) -> Result<(), GrammarError> {
        let is_closed = fields.get("additionalProperties") == Some(&json!(false));
        let has_patterns =
            fields.get("patternProperties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        let required = fields.get("required").and_then(Value::as_array).map_or(0, Vec::len) as u64;
        let fewest = fields.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
        if fewest > required + 1 && (has_patterns || !is_closed) {
            let reason = format!(
                "is {fewest}, which would not be enforced: an answer may repeat the names of members that the schema does not \
                 list; at most the number of required members and 1 ({}) is possible",
                required + 1
            );
            return Err(fault(at, "minProperties", reason));
        }
        if fields.contains_key("$ref") {
            let others = fields.keys().filter(|name| {
                *name != "$ref"
                    && !matches!(
                        keyword(name),
                        Some(Keyword::Annotation | Keyword::Dialect | Keyword::Identity)
                    )
                    && !["$defs", "definitions"].contains(&name.as_str())
            });
            if others.count() > 0 {
                self.newer.get_or_insert((at.to_owned(), "$ref"));
            }
        }
        Ok(())
    }

    /// Checks that references lead to schemas of the document, and not in a circle.
    fn check_references(&mut self) -> Result<(), GrammarError> {
        for (at, target) in std::mem::take(&mut self.references) {
            let Some(place) =
                target.strip_prefix('#').filter(|place| place.is_empty() || place.starts_with('/'))
            else {
                let reason = format!(
                    "{target:?} leads out of the document: only references like #/$defs/name are supported"
                );
                return Err(fault(&at, "$ref", reason));
            };
            if place.contains(['~', '%']) || !self.graph.has(place) {
                let reason = format!(
                    "{target:?} leads to no schema of the document (names with ~ or % are not supported)"
                );
                return Err(fault(&at, "$ref", reason));
            }
            self.graph.connect(&at, place);
        }
        if let Some(at) = self.graph.cycle() {
            let reason = "leads back to the schema itself, for the same value: it describes nothing";
            return Err(fault(at, "$ref", reason));
        }
        match (&self.older, &self.newer) {
            (Some(dialect), Some((at, keyword)))
                if *keyword == "prefixItems" || dialect.contains("draft-0") =>
            {
                let reason = format!(
                    "has another meaning in {dialect}, which $schema names: use JSON Schema 2020-12, or remove $schema"
                );
                Err(fault(at, keyword, reason))
            }
            _ => Ok(()),
        }
    }
}

/// The name of draft-04.
const DRAFT_04: &str = "json-schema.org/draft-04/schema";

/// The name of a version without its protocol and its empty fragment.
fn plain_dialect(text: &str) -> &str {
    text.trim_end_matches('#').trim_start_matches("https://").trim_start_matches("http://")
}

fn names_draft_04(schema: &Value) -> bool {
    schema.get("$schema").and_then(Value::as_str).is_some_and(|text| plain_dialect(text) == DRAFT_04)
}

/// Replaces a format that a regular expression enforces.
fn enforce_format(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str).map(format_of);
    let Some(Ok(StringFormat::Pattern(pattern))) = format else { return };
    schema.shift_remove("format");
    if !schema.contains_key("pattern") {
        schema.insert("pattern".to_owned(), json!(pattern));
    } else if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(json!({ "pattern": pattern }));
    }
}

fn check_type(value: &Value) -> Result<(), String> {
    let names: Vec<&Value> = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
    let mut seen = BTreeSet::new();
    for name in &names {
        let known = name.as_str().filter(|name| TYPES.contains(name));
        let Some(known) = known else {
            return Err(format!("is {}, but the types are {}", shown(name), TYPES.join(", ")));
        };
        if !seen.insert(known) {
            return Err(format!("names {known} twice"));
        }
    }
    if names.is_empty() { Err("is an empty list".to_owned()) } else { Ok(()) }
}

/// Checks that all texts in a constant can be written without `\u` escapes.
fn check_value(value: &Value) -> Result<(), String> {
    let is_plain = |text: &str| {
        let is_named = |character: char| matches!(character, '\n' | '\r' | '\t' | '\u{8}' | '\u{c}');
        text.chars().all(|character| !character.is_control() || is_named(character) || character > '\u{7f}')
    };
    let refused = || Err("has a text with a control character, which no answer has: remove it".to_owned());
    match value {
        Value::String(text) if !is_plain(text) => refused(),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::Object(fields) if !fields.keys().all(|name| is_plain(name)) => refused(),
        Value::Object(fields) => fields.values().try_for_each(check_value),
        Value::Number(number) => check_bound(&Value::Number(number.clone())),
        _ => Ok(()),
    }
}

fn check_names(value: &Value) -> Option<()> {
    let names = value.as_array()?;
    let different: Option<BTreeSet<&str>> = names.iter().map(Value::as_str).collect();
    (different?.len() == names.len()).then_some(())
}

fn check_pattern(pattern: &str) -> Result<(), String> {
    if nesting::depth(pattern) > MOST_LEVELS {
        return Err(format!("has a regular expression that is nested deeper than {MOST_LEVELS} levels"));
    }
    Ok(())
}

/// A value in an error: short.
fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
