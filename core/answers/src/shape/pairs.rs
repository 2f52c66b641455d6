//! Arguments as pairs with bare keys, whose texts are between marks of the format.

use super::fault::{CallShapeFault, SchemaPlace};
use super::members::{listed, members};
use super::python::check_name;
use super::value::{ParameterReader, TextRule};
use super::{CallShape, UntilText};
use serde_json::{Map, Value};

/// The deepest nesting of values.
const MOST_LEVELS: usize = 16;

/// `key:value, ..` with texts between `mark`s.
pub(super) fn pairs(mark: &str, tool: &str, schema: &Value) -> Result<CallShape, CallShapeFault> {
    let none = Map::new();
    let fields = schema.as_object().unwrap_or(&none);
    PairWriter { mark, reader: ParameterReader { tool, root: schema } }.members(fields, "", 0)
}

struct PairWriter<'a> {
    mark: &'a str,
    reader: ParameterReader<'a>,
}

impl PairWriter<'_> {
    fn members(
        &self,
        fields: &Map<String, Value>,
        at: &str,
        level: usize,
    ) -> Result<CallShape, CallShapeFault> {
        let tool = self.reader.tool;
        let mut shapes = Vec::new();
        for member in members(fields, SchemaPlace { tool, at })? {
            check_name(tool, member.name, &member.at)?;
            let key = CallShape::Text(format!("{}:", member.name));
            let value = self.value(member.schema, &member.at, level)?;
            shapes.push((CallShape::sequence(vec![key, value]), member.required));
        }
        Ok(listed(&shapes, &self.comma()))
    }

    fn comma(&self) -> CallShape {
        CallShape::sequence(vec![CallShape::Text(",".to_owned()), CallShape::Space])
    }

    fn value(&self, schema: &Value, at: &str, level: usize) -> Result<CallShape, CallShapeFault> {
        let tool = self.reader.tool;
        let read = self.reader.read(schema, at)?;
        let mut shapes = Vec::new();
        for text in read.texts {
            shapes.extend(self.text(text));
        }
        if let Some(schema) = &read.json {
            shapes.push(match self.nested(schema, at, level)? {
                Some(shape) => shape,
                None => CallShape::Json { tool: tool.to_owned(), at: at.to_owned(), schema: schema.clone() },
            });
        }
        match shapes.is_empty() {
            true => {
                let reason = "allows no value that this format of calls can write";
                Err(SchemaPlace { tool, at }.fault("schema", reason))
            }
            false => Ok(CallShape::one_of(shapes)),
        }
    }

    /// A text between marks; `None` if it has a mark.
    fn text(&self, text: TextRule) -> Option<CallShape> {
        let mark = || CallShape::Marker(self.mark.to_owned());
        let inside = match text {
            TextRule::Fixed(text) if text.contains(self.mark) => return None,
            TextRule::Fixed(text) => vec![mark(), CallShape::Text(text), mark()],
            TextRule::Any { least, most } => {
                let (space, end) = (String::new(), self.mark.to_owned());
                vec![mark(), CallShape::Until(UntilText { least, most, space, end, is_no_json: false })]
            }
        };
        Some(CallShape::sequence(inside))
    }

    /// An object with listed members, or a list, as the format writes them; other values are JSON, which the parser reads
    /// too.
    fn nested(&self, schema: &Value, at: &str, level: usize) -> Result<Option<CallShape>, CallShapeFault> {
        let Some(fields) = schema.as_object().filter(|_| level < MOST_LEVELS) else { return Ok(None) };
        let kind = match fields.get("type") {
            Some(Value::String(name)) => name.as_str(),
            Some(Value::Array(names)) if names.len() == 1 => names[0].as_str().unwrap_or_default(),
            _ => return Ok(None),
        };
        let text = |text: &str| CallShape::Text(text.to_owned());
        let around = |open: &str, inside: CallShape, close: &str| {
            Some(CallShape::sequence(vec![text(open), inside, text(close)]))
        };
        match kind {
            "object"
                if fields
                    .get("properties")
                    .is_some_and(|map| map.as_object().is_some_and(|map| !map.is_empty())) =>
            {
                Ok(around("{", self.members(fields, at, level + 1)?, "}"))
            }
            "array"
                if !["minItems", "maxItems", "prefixItems"].iter().any(|key| fields.contains_key(*key)) =>
            {
                let Some(items) = fields.get("items").filter(|items| items.is_object()) else {
                    return Ok(None);
                };
                let at = SchemaPlace { tool: self.reader.tool, at }.below("items");
                let item = self.value(items, &at, level + 1)?;
                let further = CallShape::sequence(vec![self.comma(), item.clone()]);
                let all = CallShape::sequence(vec![item, CallShape::Repeated(Box::new(further))]);
                Ok(around("[", CallShape::Optional(Box::new(all)), "]"))
            }
            _ => Ok(None),
        }
    }
}
