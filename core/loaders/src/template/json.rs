//! `tojson` as transformers defines it for chat templates: Python's `json.dumps`, nothing escaped for HTML.

use std::sync::Arc;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::budget::RenderBudget;

/// The format of the output (arguments of `json.dumps`).
#[derive(Debug)]
struct Style {
    ensure_ascii: bool,
    /// Indentation per level; `None` writes everything on one line.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    /// Maximum number of bytes of the output.
    limit: u64,
}

/// Maximum number of bytes of an indentation or separator.
const LONGEST_SEPARATOR: usize = 64;

/// Registers the filter.
pub(super) fn install(environment: &mut Environment<'_>, budget: &Arc<RenderBudget>) {
    let own = Arc::clone(budget);
    environment.add_filter("tojson", move |value: &Value, positional: Rest<Value>, named: Kwargs| {
        own.size(value)?;
        let text = tojson(value, positional, named, own.left())?;
        own.charge(text.len() as u64)?;
        Ok::<_, Error>(text)
    });
}

/// The filter: `value|tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`
/// (transformers, utils/chat_template_utils.py).
///
/// # Errors
/// A value without a JSON form.
fn tojson(value: &Value, positional: Rest<Value>, named: Kwargs, limit: u64) -> Result<String, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let mut arguments = [const { Value::UNDEFINED }; 4];
    if positional.len() > names.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    for (at, (slot, name)) in arguments.iter_mut().zip(names).enumerate() {
        *slot = match positional.get(at) {
            Some(value) => value.clone(),
            None => named.get::<Option<Value>>(name)?.unwrap_or(Value::UNDEFINED),
        };
    }
    named.assert_all_used()?;
    let [ensure_ascii, indent, separators, sort_keys] = arguments;
    let style =
        Style { limit, ..Style::new(ensure_ascii.is_true(), &indent, &separators, sort_keys.is_true())? };
    let mut out = String::new();
    style.write(value, 0, &mut out)?;
    Ok(out)
}

fn absent(value: &Value) -> bool {
    value.is_undefined() || value.is_none()
}

fn refuse(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadSerialization, problem.into())
}

impl Style {
    fn new(ensure_ascii: bool, indent: &Value, separators: &Value, sort_keys: bool) -> Result<Self, Error> {
        let indent = match (indent.as_str(), indent.as_i64()) {
            _ if absent(indent) => None,
            (Some(text), _) => Some(text.to_owned()),
            (None, Some(count)) => Some(" ".repeat(usize::try_from(count.clamp(0, 64)).unwrap_or_default())),
            (None, None) => return Err(refuse("expected a number or a string as the indent of tojson")),
        };
        let default_item = if indent.is_some() { "," } else { ", " };
        let (item_separator, key_separator) = if absent(separators) {
            (default_item.to_owned(), ": ".to_owned())
        } else {
            let parts: Vec<Value> = separators.try_iter()?.collect();
            match parts.iter().map(Value::as_str).collect::<Option<Vec<_>>>().as_deref() {
                Some([item, key]) => ((*item).to_owned(), (*key).to_owned()),
                _ => return Err(refuse("expected two strings as the separators of tojson")),
            }
        };
        let longest = [&item_separator, &key_separator].into_iter().chain(&indent).map(String::len).max();
        if longest > Some(LONGEST_SEPARATOR) {
            return Err(refuse(format!(
                "an indent or separator of tojson is longer than {LONGEST_SEPARATOR} bytes"
            )));
        }
        Ok(Self { ensure_ascii, indent, item_separator, key_separator, sort_keys, limit: u64::MAX })
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if out.len() as u64 > self.limit {
            return Err(refuse("the JSON exceeds the output limit of the template"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)?),
            ValueKind::String => self.write_text(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq => self.write_list(value, depth, out)?,
            ValueKind::Map => self.write_map(value, depth, out)?,
            kind => return Err(refuse(format!("JSON has no {kind} values"))),
        }
        Ok(())
    }

    fn write_list(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        let items: Vec<Value> = value.try_iter()?.collect();
        out.push('[');
        for (at, item) in items.iter().enumerate() {
            self.separate(at, depth + 1, out);
            self.write(item, depth + 1, out)?;
        }
        self.close(items.is_empty(), depth, ']', out);
        Ok(())
    }

    fn write_map(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        let mut keys: Vec<(String, Value)> =
            value.try_iter()?.map(|key| Ok((key_text(&key)?, key))).collect::<Result<_, Error>>()?;
        if self.sort_keys {
            keys.sort_by(|a, b| a.0.cmp(&b.0));
        }
        out.push('{');
        for (at, (text, key)) in keys.iter().enumerate() {
            self.separate(at, depth + 1, out);
            self.write_text(text, out);
            out.push_str(&self.key_separator);
            self.write(&value.get_item(key)?, depth + 1, out)?;
        }
        self.close(keys.is_empty(), depth, '}', out);
        Ok(())
    }

    fn separate(&self, at: usize, depth: usize, out: &mut String) {
        if at > 0 {
            out.push_str(&self.item_separator);
        }
        self.new_line(depth, out);
    }

    fn close(&self, empty: bool, depth: usize, bracket: char, out: &mut String) {
        if !empty {
            self.new_line(depth, out);
        }
        out.push(bracket);
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_text(&self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                other if other < ' ' || (self.ensure_ascii && !other.is_ascii()) => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                other => out.push(other),
            }
        }
        out.push('"');
    }
}

/// A key as `json.dumps` writes it: strings, numbers, booleans and none.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => (if key.is_true() { "true" } else { "false" }).to_owned(),
        ValueKind::Number => number(key)?,
        kind => return Err(refuse(format!("JSON has no {kind} keys"))),
    })
}

fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() { Ok(value.to_string()) } else { Ok(float_text(f64::try_from(value.clone())?)) }
}

/// Python's `repr` of a float: the shortest digits, with an exponent below 1e-4 and from 1e16.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return (if value > 0.0 { "Infinity" } else { "-Infinity" }).to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}
