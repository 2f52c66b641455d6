//! [`toml_text`]: converts a spec from JSON back to TOML.

use crate::text::toml_text::{key, quoted};
use serde_json::{Map, Value};

/// Maximum length of a table in one line.
const LINE: usize = 100;

/// A spec as TOML; `document` has the form of [`ArchSpec::document`](crate::ArchSpec::document). Nulls are left out.
pub fn toml_text(document: &Value) -> String {
    let mut text = String::new();
    if let Some(table) = document.as_object() {
        section(table, "", &mut text);
    }
    text
}

/// A JSON value as TOML, in one line.
pub fn toml_value(value: &Value) -> String {
    match value {
        Value::Null => "nan".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(real)) => format!("{real:?}"),
            _ => number.to_string(),
        },
        Value::String(text) => quoted(text),
        Value::Array(values) => format!("[{}]", values.iter().map(toml_value).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let pair = |(name, value): (&String, &Value)| format!("{} = {}", key(name), toml_value(value));
            format!("{{ {} }}", table.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn section(table: &Map<String, Value>, path: &str, text: &mut String) {
    let is_section = |value: &Value| {
        let nested = value.as_object().is_some_and(|inner| inner.values().any(Value::is_object));
        value.is_object() && (path.is_empty() || nested || toml_value(value).len() > LINE)
    };
    // If one table needs a header, all get one: their order may matter.
    let headers = table.values().any(is_section);
    let there = table.iter().filter(|(_, value)| !value.is_null());
    let (tables, lines): (Vec<_>, Vec<_>) = there.partition(|(_, value)| headers && value.is_object());
    if !path.is_empty() && (!lines.is_empty() || tables.is_empty()) {
        text.push_str(&format!("\n[{path}]\n"));
    }
    for (name, value) in lines {
        text.push_str(&format!("{} = {}\n", key(name), toml_value(value)));
    }
    for (name, value) in tables {
        let dot = if path.is_empty() { "" } else { "." };
        if let Some(inner) = value.as_object() {
            section(inner, &format!("{path}{dot}{}", key(name)), text);
        }
    }
}
