//! The keywords of JSON Schema, and what each has as its value.

/// What a keyword has as its value, and so how it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    /// A note for readers, which no answer depends on.
    Annotation,
    /// A schema.
    Schema,
    /// A list of schemas, not empty.
    SchemaList,
    /// Schemas by name.
    SchemaMap,
    /// Schemas by regular expression.
    PatternMap,
    /// A list of schemas of which each applies to the same value.
    InPlace,
    /// The name of a type, or a list of them.
    Type,
    /// A list of values.
    Values,
    /// A value.
    Value,
    /// The number of items or members.
    Count,
    /// The number of characters.
    Length,
    /// A number that limits numbers.
    Bound,
    /// A number above 0.
    Factor,
    /// A list of names.
    Names,
    /// A regular expression.
    Pattern,
    /// The name of a format.
    Format,
    /// A reference.
    Reference,
    /// The version of the language; only at the root.
    Dialect,
    /// The name of the document; only at the root.
    Identity,
    /// Whether items differ; only false.
    Unique,
    /// Not supported; what to do instead.
    Unsupported(&'static str),
}

const REMOVE: &str = "it would not be enforced: remove it";

/// The keyword of this name; `None` if it is not known.
pub(crate) fn keyword(name: &str) -> Option<Keyword> {
    Some(match name {
        "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly"
        | "$comment" => Keyword::Annotation,
        "items" | "additionalProperties" => Keyword::Schema,
        "prefixItems" => Keyword::SchemaList,
        "properties" | "$defs" | "definitions" => Keyword::SchemaMap,
        "patternProperties" => Keyword::PatternMap,
        "allOf" | "anyOf" | "oneOf" => Keyword::InPlace,
        "type" => Keyword::Type,
        "enum" => Keyword::Values,
        "const" => Keyword::Value,
        "minItems" | "maxItems" | "minProperties" | "maxProperties" => Keyword::Count,
        "minLength" | "maxLength" => Keyword::Length,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => Keyword::Bound,
        "multipleOf" => Keyword::Factor,
        "required" => Keyword::Names,
        "pattern" => Keyword::Pattern,
        "format" => Keyword::Format,
        "$ref" => Keyword::Reference,
        "$schema" => Keyword::Dialect,
        "$id" => Keyword::Identity,
        "uniqueItems" => Keyword::Unique,
        _ => Keyword::Unsupported(advice(name)?),
    })
}

/// What to do about a known keyword that is not supported.
fn advice(name: &str) -> Option<&'static str> {
    Some(match name {
        "if" | "then" | "else" => "describe the cases with anyOf",
        "not" => "describe what is allowed, with enum, const or a pattern",
        "dependentRequired" | "dependentSchemas" | "dependencies" => {
            "describe the cases with anyOf, each with its own required members"
        }
        "contains" | "minContains" | "maxContains" => "describe the items with items or prefixItems",
        "propertyNames" => "use patternProperties with additionalProperties: false",
        "unevaluatedProperties" => "use additionalProperties in each alternative",
        "unevaluatedItems" => "use items: false after prefixItems",
        "additionalItems" => "use prefixItems for the first items and items for the others",
        "nullable" => "add \"null\" to the list of types",
        "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef" | "$recursiveAnchor" => {
            "refer to a schema by its place, like #/$defs/name"
        }
        "id" | "$vocabulary" | "contentEncoding" | "contentMediaType" | "contentSchema" | "discriminator" => {
            REMOVE
        }
        _ => return None,
    })
}
