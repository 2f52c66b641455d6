//! Arguments with a tag around each, whose values have no quotes.

use super::fault::{CallShapeFault, SchemaPlace};
use super::members::{ToolParameter, members};
use super::value::{ParameterReader, TextRule};
use super::{CallShape, UntilText};
use crate::format::CallFormat;
use crate::pattern::ArgumentForm;
use crate::tool::{ToolSet, ValueKind};
use serde_json::{Map, Value};

/// The arguments of a tool, in the order of its schema.
pub(super) fn arguments(
    format: &CallFormat,
    tools: &ToolSet,
    tool: &str,
    schema: &Value,
) -> Result<CallShape, CallShapeFault> {
    let none = Map::new();
    let fields = schema.as_object().unwrap_or(&none);
    let writer = ArgumentWriter { format, tools, reader: ParameterReader { tool, root: schema } };
    let mut shapes = Vec::new();
    for member in members(fields, SchemaPlace { tool, at: "" })? {
        let shape = writer.argument(&member)?;
        shapes.push(if member.required { shape } else { CallShape::Optional(Box::new(shape)) });
    }
    Ok(CallShape::sequence(shapes))
}

struct ArgumentWriter<'a> {
    format: &'a CallFormat,
    tools: &'a ToolSet,
    reader: ParameterReader<'a>,
}

impl ArgumentWriter<'_> {
    fn argument(&self, member: &ToolParameter<'_>) -> Result<CallShape, CallShapeFault> {
        let tool = self.reader.tool;
        let place = SchemaPlace { tool, at: &member.at };
        let forms = self.format.forms();
        let text_form = forms.iter().find(|(_, json)| !json).map(|(form, _)| form);
        let json_form = forms.iter().find(|(_, json)| *json).map(|(form, _)| form).or(text_form);
        // The parser tells texts from other values by the form, or else by the schema.
        let kind = if forms.len() > 1 { None } else { Some(self.tools.kind(tool, member.name)) };
        let mut value = self.reader.read(member.schema, &member.at)?;
        match kind {
            Some(ValueKind::Text) => value.json = None,
            Some(ValueKind::Json) => value.texts.clear(),
            _ => {}
        }
        let may_be_json = kind == Some(ValueKind::Either);
        let mut shapes = Vec::new();
        for text in &value.texts {
            if let Some(form) = text_form
                && let Some(shape) = self.text(form, text, may_be_json)
            {
                shapes.push(self.around(form, member, shape)?);
            }
        }
        if let (Some(schema), Some(form)) = (&value.json, json_form) {
            for value in self.json(form, schema, &member.at, may_be_json && !value.texts.is_empty()) {
                shapes.push(self.around(form, member, value)?);
            }
        }
        match shapes.is_empty() {
            true => Err(place.fault(member.name, "allows no value that this format of calls can write")),
            false => Ok(CallShape::one_of(shapes)),
        }
    }

    /// A value with the text before it, and white space after it.
    fn around(
        &self,
        form: &ArgumentForm,
        member: &ToolParameter<'_>,
        value: Vec<CallShape>,
    ) -> Result<CallShape, CallShapeFault> {
        let place = SchemaPlace { tool: self.reader.tool, at: &member.at };
        let next = form.middle.first_word().and_then(|word| word.chars().next());
        let name = member.name;
        let told = next.is_some_and(|next| !name.contains(next)) && name.trim() == name;
        if !told || name.is_empty() || name.len() > crate::pattern::LONGEST_KEY {
            return Err(place.fault(name, "is no name that this format of calls can write: rename it"));
        }
        let mut shapes = CallShape::literal(form.lead.text());
        shapes.push(CallShape::Text(name.to_owned()));
        shapes.push(CallShape::Marker(format!("{}{}", form.middle.text(), form.before_value)));
        shapes.extend(value);
        shapes.push(CallShape::Space);
        Ok(CallShape::sequence(shapes))
    }

    /// A text with the end after it; `None` if the parser would read it as another value.
    fn text(&self, form: &ArgumentForm, text: &TextRule, may_be_json: bool) -> Option<Vec<CallShape>> {
        let cdata = self.format.keys().cdata;
        let (space, end) = if cdata { ("", "]]>") } else { (&*form.after_value, &*form.end) };
        let mut shapes = Vec::new();
        if cdata {
            shapes.push(CallShape::Text("<![CDATA[".to_owned()));
        }
        match text {
            TextRule::Fixed(text) if text.contains(end) || (may_be_json && is_other_json(text)) => {
                return None;
            }
            TextRule::Fixed(text) => {
                shapes.push(CallShape::Text(format!("{text}{space}")));
                shapes.push(CallShape::Marker(end.to_owned()));
            }
            TextRule::Any { least, most } => shapes.push(CallShape::Until(UntilText {
                least: *least,
                most: *most,
                space: space.to_owned(),
                end: end.to_owned(),
                is_no_json: may_be_json,
            })),
        }
        if cdata {
            shapes.push(CallShape::Marker(form.end.clone()));
        }
        Some(shapes)
    }

    /// JSON with the end after it. Beside texts, constants are one piece with their ends, as the texts are.
    fn json(
        &self,
        form: &ArgumentForm,
        schema: &Value,
        at: &str,
        is_beside_texts: bool,
    ) -> Vec<Vec<CallShape>> {
        let end = || vec![CallShape::Text(form.after_value.clone()), CallShape::Marker(form.end.clone())];
        let json = |schema: Value| {
            let tool = self.reader.tool.to_owned();
            let mut shapes = vec![CallShape::Json { tool, at: at.to_owned(), schema }];
            shapes.extend(end());
            shapes
        };
        let constant = |text: &str| {
            let mut shapes = vec![CallShape::Text(text.to_owned())];
            shapes.extend(end());
            shapes
        };
        let types = schema.get("type").and_then(Value::as_array).filter(|_| is_beside_texts);
        let Some(types) = types.filter(|_| schema.get("enum").is_none()) else {
            return vec![json(schema.clone())];
        };
        let mut values = Vec::new();
        if types.iter().any(|name| name == "null") {
            values.push(constant("null"));
        }
        if types.iter().any(|name| name == "boolean") {
            values.extend([constant("true"), constant("false")]);
        }
        let others: Vec<&Value> = types.iter().filter(|name| *name != "null" && *name != "boolean").collect();
        if !others.is_empty() {
            let mut rest = schema.clone();
            rest["type"] = serde_json::json!(others);
            values.push(json(rest));
        }
        values
    }
}

/// Whether a text is JSON of another type than a string.
fn is_other_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text.trim()).is_ok_and(|value| !value.is_string())
}
