//! The schema of the parameters of a tool as a list of parameters.

use super::CallShape;
use super::fault::{CallShapeFault, SchemaPlace};
use serde_json::{Map, Value, json};

/// Keywords that are notes for readers.
const NOTES: [&str; 8] =
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];

/// Whether an answer does not depend on a keyword.
pub(super) fn is_note(keyword: &str) -> bool {
    NOTES.contains(&keyword)
}

/// The schema of parameters, which is one of an object; no schema is one without parameters.
pub(super) fn object_schema(schema: &Value, place: SchemaPlace<'_>) -> Result<Value, CallShapeFault> {
    let fields = match schema {
        Value::Null => {
            return Ok(json!({ "type": "object", "properties": {}, "additionalProperties": false }));
        }
        Value::Object(fields) => fields,
        other => return Err(place.fault("parameters", format!("is {other}, not a schema of an object"))),
    };
    let mut read = fields.clone();
    match fields.get("type") {
        None => {
            read.insert("type".to_owned(), json!("object"));
        }
        Some(Value::String(name)) if name == "object" => {}
        Some(other) => return Err(place.fault("type", format!("is {other}, but parameters are an object"))),
    }
    Ok(Value::Object(read))
}

/// The same schema without members that it does not list, if it lists any and does not say what others may be: a model
/// that is constrained cannot make up parameters.
pub(super) fn closed(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let lists = fields.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    let says = ["additionalProperties", "patternProperties", "anyOf", "allOf", "oneOf", "$ref"];
    let mut fields = fields.clone();
    if lists && !says.iter().any(|keyword| fields.contains_key(*keyword)) {
        fields.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(fields)
}

/// A parameter, or a member of an object.
pub(super) struct ToolParameter<'s> {
    pub(super) name: &'s str,
    pub(super) schema: &'s Value,
    pub(super) required: bool,
    /// The JSON pointer of its schema.
    pub(super) at: String,
}

/// The members of an object that is not written as JSON.
///
/// # Errors
/// The schema has a keyword that such a format cannot enforce, or requires a member that it does not list.
pub(super) fn members<'s>(
    fields: &'s Map<String, Value>,
    place: SchemaPlace<'_>,
) -> Result<Vec<ToolParameter<'s>>, CallShapeFault> {
    const KNOWN: [&str; 8] =
        ["type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema", "$id"];
    if let Some(keyword) = fields.keys().find(|key| !KNOWN.contains(&key.as_str()) && !is_note(key)) {
        return Err(place.fault(
            keyword,
            "cannot be enforced where arguments are not written as a JSON object: list the parameters in properties",
        ));
    }
    let properties = match fields.get("properties") {
        None => None,
        Some(Value::Object(properties)) => Some(properties),
        Some(other) => return Err(place.fault("properties", format!("is {other}, not an object of schemas"))),
    };
    let required: Vec<&str> = match fields.get("required") {
        None => Vec::new(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(other) => return Err(place.fault("required", format!("is {other}, not a list of names"))),
    };
    let lists = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
    if let Some(name) = required.iter().find(|name| !lists(name)) {
        return Err(place.fault("required", format!("names {name:?}, which properties does not list")));
    }
    let at = place.below("properties");
    let member = |(name, schema): (&'s String, &'s Value)| {
        let at = SchemaPlace { tool: place.tool, at: &at }.below(name);
        ToolParameter { name, schema, required: required.contains(&name.as_str()), at }
    };
    Ok(properties.into_iter().flatten().map(member).collect())
}

/// Members between separators, in the order of the schema; those that are not required may be left out.
pub(super) fn listed(shapes: &[(CallShape, bool)], separator: &CallShape) -> CallShape {
    let rest = |from: usize| {
        let one = |(shape, required): &(CallShape, bool)| {
            let with = CallShape::sequence(vec![separator.clone(), shape.clone()]);
            if *required { with } else { CallShape::Optional(Box::new(with)) }
        };
        shapes[from..].iter().map(one).collect::<Vec<_>>()
    };
    // The member that comes first: any of those up to the first required one.
    let end = shapes.iter().position(|(_, required)| *required);
    let firsts = end.map_or(shapes.len(), |end| end + 1);
    let first = |at: usize| {
        let mut all = vec![shapes[at].0.clone()];
        all.extend(rest(at + 1));
        CallShape::sequence(all)
    };
    if firsts == 0 {
        return CallShape::Sequence(Vec::new());
    }
    let any = CallShape::one_of((0..firsts).map(first).collect());
    if end.is_some() { any } else { CallShape::Optional(Box::new(any)) }
}
