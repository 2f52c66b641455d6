//! Keys and values as TOML.

use crate::text::tree::{Item, TomlEntry, TomlNode};

/// A key of TOML, quoted where it must be.
pub(crate) fn key(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.to_string() } else { quoted(key) }
}

/// A basic string of TOML, which escapes as JSON does.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A value as TOML, in one line.
pub(crate) fn value(node: &TomlNode) -> String {
    match &node.item {
        Item::Text(text) => quoted(text),
        Item::Integer(value) => value.to_string(),
        Item::Real(value) if value.is_nan() => "nan".to_string(),
        Item::Real(value) => format!("{value:?}"),
        Item::Bool(value) => value.to_string(),
        Item::List(nodes) => format!("[{}]", nodes.iter().map(value).collect::<Vec<_>>().join(", ")),
        Item::Table(table) => {
            let pair = |entry: &TomlEntry| format!("{} = {}", key(&entry.key), value(&entry.node));
            format!("{{ {} }}", table.entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}
