//! How a value is written where a format writes texts without the quotes of JSON: the schema's part about strings apart
//! from the rest.

use super::fault::{CallShapeFault, SchemaPlace};
use super::members::is_note;
use serde_json::{Map, Value, json};

/// The most references that are followed for one value.
const MOST_REFERENCES: usize = 16;
/// The largest length of a text.
const MOST_CHARACTERS: u64 = 1_000_000;
const NO_QUOTES: &str = "cannot be enforced where texts are written without quotes: remove it";

/// Texts that a value may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextRule {
    /// This one.
    Fixed(String),
    /// Any text with so many characters.
    Any { least: u64, most: Option<u64> },
}

/// The values of a schema: strings, and JSON of other types.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ValueShape {
    pub(super) texts: Vec<TextRule>,
    pub(super) json: Option<Value>,
}

/// Reads schemas of the parameters of one tool.
#[derive(Clone, Copy)]
pub(super) struct ParameterReader<'s> {
    pub(super) tool: &'s str,
    /// The schema of all parameters, to which references lead.
    pub(super) root: &'s Value,
}

impl<'s> ParameterReader<'s> {
    /// The values of a schema.
    ///
    /// # Errors
    /// It allows nothing, or has a keyword that cannot be enforced for texts without quotes.
    pub(super) fn read(self, schema: &Value, at: &str) -> Result<ValueShape, CallShapeFault> {
        let shape = self.value(schema, at, 0)?;
        if shape.texts.is_empty() && shape.json.is_none() {
            return Err(SchemaPlace { tool: self.tool, at }.fault("schema", "allows no value"));
        }
        Ok(shape)
    }

    /// A schema with the definitions to which it may refer.
    pub(super) fn with_definitions(self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        if let Some(fields) = schema.as_object_mut()
            && Value::Object(fields.clone()).to_string().contains("\"$ref\"")
        {
            for key in ["$defs", "definitions"] {
                if let Some(definitions) = self.root.get(key) {
                    fields.insert(key.to_owned(), definitions.clone());
                }
            }
        }
        schema
    }

    /// The schema to which a reference leads.
    pub(super) fn resolved(self, target: &Value, at: &str) -> Result<&'s Value, CallShapeFault> {
        let pointer = target.as_str().and_then(|target| target.strip_prefix('#'));
        pointer.and_then(|pointer| self.root.pointer(pointer)).ok_or_else(|| {
            SchemaPlace { tool: self.tool, at }
                .fault("$ref", format!("{target} leads to no schema of the parameters"))
        })
    }

    fn value(self, schema: &Value, at: &str, references: usize) -> Result<ValueShape, CallShapeFault> {
        let place = SchemaPlace { tool: self.tool, at };
        let fields = match schema {
            Value::Bool(true) => &Map::new(),
            Value::Object(fields) => fields,
            other => return Err(place.fault("schema", format!("is {other}, which describes no value"))),
        };
        let only = |known: &[&str]| only_these(fields, known, place);
        if let Some(target) = fields.get("$ref") {
            only(&["$ref", "$defs", "definitions"])?;
            if references == MOST_REFERENCES {
                return Err(place.fault("$ref", "leads through too many references"));
            }
            return self.value(self.resolved(target, at)?, at, references + 1);
        }
        if let Some(values) = listed_values(fields) {
            only(&["type", "enum", "const"])?;
            return Ok(self.of_values(&values, fields));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(schemas) = fields.get(keyword).and_then(Value::as_array) {
                if let Some(types) = types_of(fields)
                    && !types.contains(&"string")
                {
                    return Ok(ValueShape { texts: Vec::new(), json: Some(self.with_definitions(schema)) });
                }
                only(&[keyword])?;
                return self.of_several(keyword, schemas, at, references);
            }
        }
        let Some(types) = types_of(fields) else {
            let mut json = fields.clone();
            json.insert("type".to_owned(), json!(["null", "boolean", "number", "array", "object"]));
            // Without keywords, texts are values too.
            let texts = match fields.keys().all(|key| is_note(key)) {
                true => vec![TextRule::Any { least: 0, most: None }],
                false => Vec::new(),
            };
            return Ok(ValueShape { texts, json: Some(self.with_definitions(&Value::Object(json))) });
        };
        self.of_types(&types, fields, place)
    }

    /// Values of these types.
    fn of_types(
        self,
        types: &[&str],
        fields: &Map<String, Value>,
        place: SchemaPlace<'_>,
    ) -> Result<ValueShape, CallShapeFault> {
        let only = |known: &[&str]| only_these(fields, known, place);
        let mut shape = ValueShape::default();
        let others: Vec<&str> = types.iter().copied().filter(|name| *name != "string").collect();
        if types.contains(&"string") {
            if others.is_empty() {
                only(&["type", "minLength", "maxLength"])?;
            } else if let Some(keyword) = ["pattern", "format"].iter().find(|key| fields.contains_key(**key))
            {
                return Err(place.fault(keyword, NO_QUOTES));
            }
            shape.texts.push(text_of(fields, place)?);
        }
        if !others.is_empty() {
            let mut json = fields.clone();
            json.insert("type".to_owned(), json!(others));
            json.retain(|key, _| !["minLength", "maxLength"].contains(&key.as_str()));
            shape.json = Some(self.with_definitions(&Value::Object(json)));
        }
        Ok(shape)
    }

    /// Listed values of the types that the schema has, if it has any.
    fn of_values(self, values: &[Value], fields: &Map<String, Value>) -> ValueShape {
        let types = types_of(fields);
        let is_text = types.as_ref().is_none_or(|types| types.contains(&"string"));
        let texts = values.iter().filter_map(Value::as_str).filter(|_| is_text);
        let others: Vec<&Value> = values.iter().filter(|value| !value.is_string()).collect();
        let mut json = json!({ "enum": others });
        if let Some(types) = types {
            let others: Vec<&str> = types.into_iter().filter(|name| *name != "string").collect();
            json["type"] = json!(others);
        }
        let has_others = !others.is_empty() && json["type"].as_array().is_none_or(|types| !types.is_empty());
        ValueShape {
            texts: texts.map(|text| TextRule::Fixed(text.to_owned())).collect(),
            json: has_others.then_some(json),
        }
    }

    fn of_several(
        self,
        keyword: &str,
        schemas: &[Value],
        at: &str,
        references: usize,
    ) -> Result<ValueShape, CallShapeFault> {
        let place = SchemaPlace { tool: self.tool, at };
        let (mut texts, mut json) = (Vec::new(), Vec::new());
        let mut with_texts = 0;
        for (index, schema) in schemas.iter().enumerate() {
            let at = format!("{at}/{keyword}/{index}");
            let shape = self.value(schema, &at, references)?;
            with_texts += usize::from(!shape.texts.is_empty());
            texts.extend(shape.texts);
            json.extend(shape.json);
        }
        if keyword == "oneOf" && with_texts > 1 {
            return Err(place.fault("oneOf", "has several alternatives for texts: use anyOf, or one of them"));
        }
        let json = match json.len() {
            0 => None,
            1 => json.pop(),
            _ => Some(json!({ keyword: json })),
        };
        Ok(ValueShape { texts, json: json.map(|json| self.with_definitions(&json)) })
    }
}

/// Checks that a schema has no other keywords than these and notes.
fn only_these(
    fields: &Map<String, Value>,
    known: &[&str],
    place: SchemaPlace<'_>,
) -> Result<(), CallShapeFault> {
    let other = fields.keys().find(|key| !known.contains(&key.as_str()) && !is_note(key));
    other.map_or(Ok(()), |keyword| Err(place.fault(keyword, NO_QUOTES)))
}

/// The values of `enum` or `const`.
fn listed_values(fields: &Map<String, Value>) -> Option<Vec<Value>> {
    match (fields.get("const"), fields.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

/// The names of the types of a schema, if it has any.
pub(super) fn types_of(fields: &Map<String, Value>) -> Option<Vec<&str>> {
    match fields.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn text_of(fields: &Map<String, Value>, place: SchemaPlace<'_>) -> Result<TextRule, CallShapeFault> {
    let length = |keyword: &str| match fields.get(keyword) {
        None => Ok(None),
        Some(value) => match value.as_u64().filter(|length| *length <= MOST_CHARACTERS) {
            Some(length) => Ok(Some(length)),
            None => {
                let reason = format!("is {value}, but must be a whole number from 0 to {MOST_CHARACTERS}");
                Err(place.fault(keyword, reason))
            }
        },
    };
    let (least, most) = (length("minLength")?.unwrap_or(0), length("maxLength")?);
    if most.is_some_and(|most| most < least) {
        return Err(place.fault("maxLength", "is less than minLength"));
    }
    Ok(TextRule::Any { least, most })
}
