//! Keywords that are not enforced are refused by name; so is what a keyword may not have as its value.

use menagerie_grammar::{GrammarError, GrammarSource};
use serde_json::{Map, Value, json};

fn told(schema: &Value) -> String {
    match GrammarSource::json_schema(schema) {
        Ok(_) => panic!("{schema} is taken"),
        Err(error) => error.to_string(),
    }
}

/// Every keyword of JSON Schema (2020-12 and older) that is not enforced, and some of OpenAPI, at three places.
#[test]
fn unsupported_keywords_are_refused_wherever_they_are() {
    let keywords = [
        ("not", json!({ "type": "null" })),
        ("if", json!({ "type": "null" })),
        ("then", json!({})),
        ("else", json!({})),
        ("contains", json!({ "const": 1 })),
        ("minContains", json!(1)),
        ("maxContains", json!(1)),
        ("uniqueItems", json!(true)),
        ("propertyNames", json!({ "pattern": "^a" })),
        ("dependentRequired", json!({ "a": ["b"] })),
        ("dependentSchemas", json!({ "a": {} })),
        ("dependencies", json!({ "a": ["b"] })),
        ("unevaluatedItems", json!(false)),
        ("unevaluatedProperties", json!(false)),
        ("additionalItems", json!(false)),
        ("contentEncoding", json!("base64")),
        ("contentMediaType", json!("application/json")),
        ("contentSchema", json!({})),
        ("$anchor", json!("a")),
        ("$dynamicAnchor", json!("a")),
        ("$dynamicRef", json!("#a")),
        ("$recursiveAnchor", json!(true)),
        ("$recursiveRef", json!("#")),
        ("$vocabulary", json!({})),
        ("id", json!("a")),
        ("nullable", json!(true)),
        ("discriminator", json!({})),
        ("x-guidance", json!({ "lenient": true })),
        ("maxlength", json!(3)),
    ];
    for (name, value) in keywords {
        let schema = json!({ "type": ["object", "array", "string"], (name): value });
        for (at, schema) in [
            ("the root", schema.clone()),
            ("/properties/a~1b", json!({ "type": "object", "properties": { "a/b": schema } })),
            ("/$defs/x", json!({ "$defs": { "x": schema }, "type": "string" })),
            (
                "/items/anyOf/1",
                json!({ "type": "array", "items": { "anyOf": [{ "type": "null" }, schema] } }),
            ),
        ] {
            let told = told(&schema);
            assert!(told.contains(&format!("`{name}` at {at} ")), "{name}: {told}");
        }
        // Members may have such names.
        GrammarSource::json_schema(
            &json!({ "type": "object", "properties": { (name): { "type": "null" } } }),
        )
        .unwrap();
    }
}

#[test]
fn values_that_cannot_be_enforced_are_refused() {
    for (schema, words) in [
        (json!({ "type": "text" }), "`type` at the root is \"text\""),
        (json!({ "type": [] }), "empty list"),
        (json!({ "type": "string", "format": "unknown" }), "`unknown` is not supported, only date"),
        (json!({ "type": "string", "format": "regex" }), "`regex` is not supported"),
        (json!({ "type": "string", "minLength": -1 }), "`minLength`"),
        (json!({ "type": "string", "maxLength": 1e9 }), "`maxLength`"),
        (json!({ "type": "string", "pattern": "(?=a)" }), "cannot be compiled"),
        (json!({ "type": "string", "pattern": "(a)\\1" }), "cannot be compiled"),
        (json!({ "type": "string", "pattern": "\\bword\\b" }), "cannot be compiled"),
        (json!({ "type": "string", "pattern": "[" }), "cannot be compiled"),
        (json!({ "type": "string", "pattern": "^a$", "minLength": 2 }), "cannot be compiled"),
        (json!({ "type": "string", "minLength": 3, "maxLength": 2 }), "cannot be compiled"),
        (json!({ "type": "integer", "minimum": 3, "maximum": 2 }), "cannot be compiled"),
        (json!({ "type": "integer", "minimum": 1e30 }), "2^53"),
        (json!({ "type": "integer", "maximum": 9223372036854775807u64 }), "2^53"),
        (json!({ "type": "number", "minimum": 1e-30 }), "digits after the point"),
        (json!({ "type": "number", "minimum": 3, "exclusiveMinimum": true }), "`exclusiveMinimum`"),
        (json!({ "type": "number", "multipleOf": 0 }), "above 0"),
        (json!({ "type": "number", "multipleOf": 12345678901u64 }), "too many digits"),
        (json!({ "type": "array", "items": [{ "type": "null" }] }), "prefixItems"),
        (json!({ "type": "array", "maxItems": 1000000 }), "at most 10000"),
        (json!({ "type": "array", "minItems": 3, "maxItems": 2 }), "cannot be compiled"),
        (json!({ "type": "object", "required": ["a", "a"] }), "different names"),
        (json!({ "type": "object", "required": ["a"], "additionalProperties": false }), "cannot be compiled"),
        (json!({ "type": "object", "minProperties": 2 }), "`minProperties`"),
        (
            json!({ "type": "object", "properties": { "a": true, "b": true }, "maxProperties": 1 }),
            "cannot be compiled",
        ),
        (json!({ "enum": [] }), "not empty"),
        (json!({ "enum": ["a\u{1}"] }), "control character"),
        (json!({ "const": 1e300 }), "2^53"),
        (json!({ "anyOf": [] }), "not empty"),
        (
            json!({ "oneOf": [{ "type": "string", "pattern": "^a" }, { "type": "string", "pattern": "b$" }] }),
            "oneOf",
        ),
        (json!({ "$ref": "https://example.org/schema.json" }), "out of the document"),
        (json!({ "$ref": "other.json#/$defs/a" }), "out of the document"),
        (json!({ "$ref": "#/$defs/missing" }), "no schema of the document"),
        (json!({ "$ref": "#/enum/0", "enum": [{ "not": {} }] }), "no schema of the document"),
        (json!({ "$ref": "#" }), "describes nothing"),
        (
            json!({ "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/a" }] } }, "$ref": "#/$defs/a" }),
            "describes nothing",
        ),
        (json!({ "$schema": "http://json-schema.org/draft-03/schema#" }), "only JSON Schema 2020-12"),
        (
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "items": { "id": "#a" } }),
            "`id` at /items is supported only at the root",
        ),
        (
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": true }),
            "a number since draft 6",
        ),
        (
            json!({
                "$schema": "http://json-schema.org/draft-04/schema#", "definitions": { "a": {} },
                "$ref": "#/definitions/a", "type": "string"
            }),
            "another meaning",
        ),
        (
            json!({ "$schema": "http://json-schema.org/draft-07/schema", "type": "array", "prefixItems": [true] }),
            "another meaning",
        ),
        (json!({ "type": "object", "properties": { "a": { "$schema": "x" } } }), "only at the root"),
        (json!(false), "allows no answer"),
        (json!("text"), "is not a schema"),
        (json!({ "properties": { "a": 3 } }), "`3` at /properties/a is not a schema"),
    ] {
        let told = told(&schema);
        assert!(told.contains(words), "{schema}: {told}");
        assert!(!told.contains("coerce_one_of") && !told.contains("panic"), "{told}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let names: Vec<String> = (0..9000).map(|at| format!("name-{at}")).collect();
    let large = GrammarSource::json_schema(&json!({ "enum": names })).unwrap_err();
    assert!(matches!(large, GrammarError::TooLarge { .. }), "{large}");
    let mut deep = json!({ "type": "null" });
    for _ in 0..5000 {
        deep = Value::Object(Map::from_iter([("items".to_owned(), deep)]));
    }
    let error = GrammarSource::json_schema(&deep).unwrap_err();
    assert!(matches!(error, GrammarError::TooDeep { .. }), "{error}");
    // Dropping such a value takes recursion too, as every value of serde_json.
    std::mem::forget(deep);
    for text in ["a".repeat(70_000), "(".repeat(100) + &")".repeat(100)] {
        assert!(GrammarSource::regex(&text).is_err());
        assert!(GrammarSource::lark(&format!("start: /{text}/")).is_err());
    }
}

#[test]
fn older_versions_are_taken_where_they_mean_the_same() {
    let own = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "additionalProperties": false });
    let expected = GrammarSource::json_schema(&own).unwrap();
    for (version, name) in [
        ("https://json-schema.org/draft/2019-09/schema", "$id"),
        ("http://json-schema.org/draft-07/schema#", "$id"),
        ("http://json-schema.org/draft-06/schema#", "$id"),
        ("http://json-schema.org/draft-04/schema#", "id"),
        ("http://json-schema.org/draft-04/schema", "id"),
    ] {
        // The name comes before the version that it belongs to.
        let mut schema = json!({ (name): "https://example.org/a" });
        schema.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        schema["$schema"] = json!(version);
        assert_eq!(GrammarSource::json_schema(&schema).unwrap(), expected, "{version}");
    }
}
