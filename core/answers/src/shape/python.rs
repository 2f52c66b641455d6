//! Arguments as Python's keyword arguments.

use super::CallShape;
use super::fault::{CallShapeFault, SchemaPlace};
use super::members::{is_note, listed, members};
use super::value::ParameterReader;
use serde_json::{Map, Value};

/// Texts in single quotes, with the escapes that JSON and Python share.
const QUOTED: &str = r"'([^'\\\n\r]|\\[nrt'\\])*'";

/// `key=value, ..`: values as JSON, which the parser reads as Python literals, or as Python writes them.
pub(super) fn keywords(tool: &str, schema: &Value) -> Result<CallShape, CallShapeFault> {
    let none = Map::new();
    let fields = schema.as_object().unwrap_or(&none);
    let reader = ParameterReader { tool, root: schema };
    let mut shapes = Vec::new();
    for member in members(fields, SchemaPlace { tool, at: "" })? {
        check_name(tool, member.name, &member.at)?;
        let schema = reader.with_definitions(member.schema);
        let json = CallShape::Json { tool: tool.to_owned(), at: member.at, schema };
        let mut values = vec![json];
        values.extend(literals(member.schema));
        let key = CallShape::Text(format!("{}=", member.name));
        shapes.push((CallShape::sequence(vec![key, CallShape::one_of(values)]), member.required));
    }
    let comma = CallShape::sequence(vec![CallShape::Text(",".to_owned()), CallShape::Space]);
    Ok(listed(&shapes, &comma))
}

/// Checks that a name can be written without quotes.
pub(super) fn check_name(tool: &str, name: &str, at: &str) -> Result<(), CallShapeFault> {
    let plain = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '$');
    if name.is_empty() || name.len() > crate::pattern::LONGEST_KEY || !name.chars().all(plain) {
        let reason = "is no name that this format of calls can write: rename it";
        return Err(SchemaPlace { tool, at }.fault(name, reason));
    }
    Ok(())
}

/// Values of a schema as Python writes them, where that differs from JSON.
fn literals(schema: &Value) -> Vec<CallShape> {
    let Some(fields) = schema.as_object() else { return Vec::new() };
    let has_only = |known: &[&str]| fields.keys().all(|key| known.contains(&key.as_str()) || is_note(key));
    let text = |text: &str| CallShape::Text(text.to_owned());
    match fields.get("type").and_then(Value::as_str) {
        Some("boolean") if has_only(&["type"]) => vec![text("True"), text("False")],
        Some("null") if has_only(&["type"]) => vec![text("None")],
        Some("string") if has_only(&["type"]) => vec![CallShape::Regex(QUOTED.to_owned())],
        Some("string") if has_only(&["type", "enum"]) => {
            let values = fields.get("enum").and_then(Value::as_array).into_iter().flatten();
            let plain =
                values.filter_map(Value::as_str).filter(|value| !value.contains(['\'', '\\', '\n', '\r']));
            plain.map(|value| text(&format!("'{value}'"))).collect()
        }
        _ => Vec::new(),
    }
}
