//! The schema and the decoder accept the same specs.

use super::json_schema;
use crate::kind::Kinds;
use crate::language::spec::ArchSpec;
use crate::text::source::{NoLookup, SpecSource};
use crate::text::tree::{Item, TomlNode, read};
use serde_json::{Value, json};

/// The part of JSON Schema that the generated schema uses.
fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        let definition = root["$defs"].get(name).unwrap_or_else(|| panic!("no definition {name}"));
        return valid(root, definition, value);
    }
    if let Some(is_valid) = schema.as_bool() {
        return is_valid;
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    let kinds = match &schema["type"] {
        Value::Null => true,
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        other => panic!("{other}"),
    };
    let listed = schema["enum"].as_array().is_none_or(|values| values.contains(value));
    let constant = schema.get("const").is_none_or(|constant| constant == value);
    let one = schema["oneOf"]
        .as_array()
        .is_none_or(|ways| ways.iter().filter(|way| valid(root, way, value)).count() == 1);
    let any = schema["anyOf"].as_array().is_none_or(|ways| ways.iter().any(|way| valid(root, way, value)));
    let items = schema.get("items").is_none_or(|items| {
        value.as_array().is_none_or(|values| values.iter().all(|value| valid(root, items, value)))
    });
    // The only pattern.
    let matches = schema.get("pattern").is_none_or(|pattern| {
        assert_eq!(pattern, ":");
        value.as_str().is_none_or(|text| text.contains(':'))
    });
    kinds && listed && constant && one && any && items && matches && valid_object(root, schema, value)
}

fn valid_object(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(object) = value.as_object() else { return true };
    let required = schema["required"]
        .as_array()
        .is_none_or(|keys| keys.iter().all(|key| object.contains_key(key.as_str().unwrap())));
    required
        && object.iter().all(|(key, value)| {
            match (schema["properties"].get(key), schema.get("additionalProperties")) {
                (Some(property), _) => valid(root, property, value),
                (None, Some(rest)) => valid(root, rest, value),
                (None, None) => true,
            }
        })
}

fn as_json(node: &TomlNode) -> Value {
    match &node.item {
        Item::Text(text) => json!(text),
        Item::Integer(value) => json!(value),
        Item::Real(value) => json!(value),
        Item::Bool(value) => json!(value),
        Item::List(nodes) => nodes.iter().map(as_json).collect(),
        Item::Table(table) => Value::Object(
            table.entries.iter().map(|entry| (entry.key.clone(), as_json(&entry.node))).collect(),
        ),
    }
}

fn source(text: &str) -> SpecSource {
    SpecSource { name: "test.toml".into(), text: text.into() }
}

/// The verdicts of the schema and the decoder about a spec.
fn verdicts(text: &str) -> (bool, bool) {
    let schema = json_schema(&Kinds::built_in());
    let source = source(text);
    let document = as_json(&read(&source).unwrap());
    (valid(&schema, &schema, &document), ArchSpec::parse(&source, &NoLookup, &Kinds::built_in()).is_ok())
}

const GOOD: &str = r#"
schema = 1
[architecture]
id = "good"
[norm]
kind = "rms"
eps = 1e-5
[block]
mixer = { pre = ["attn_norm", "attn_norm_2"] }
feed_forward = { pre = { role = "ffn_norm", eps = "e | default(1)" }, reads = { by = "p | default(true)", true = "stream", false = "block-input" } }
[mixer]
kind = "attention"
bias = { qkv = "required" }
window = { kind = "sliding", size = 3, when = "layer > 2" }
[mixer.rope]
kind = "rotary"
pairs = { gguf = "adjacent", hf = "halves" }
base = "rope.freq_base | default(10000)"
scaling = { accept = ["yarn"], yarn = { round = "exact" } }
[feed_forward.dense]
when = "layer == 0"
kind = "gated"
activation = "silu"
[feed_forward.mixture]
when = "layer > 0"
kind = "moe"
router = { score = "softmax", weights = "sum-to-one" }
experts = { kind = "gated", activation = "silu" }
[output]
norm = "output_norm"
head = "own"
"#;

#[test]
fn both_take_good_specs() {
    assert_eq!(verdicts(GOOD), (true, true));
    let schema = json_schema(&Kinds::built_in());
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.join("../../specs")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = files.map(|entry| entry.unwrap().path());
    let mut specs = 0;
    let is_spec = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("models.toml")
    };
    for path in paths.filter(is_spec) {
        specs += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let document = as_json(&read(&source(&text)).unwrap());
        assert!(valid(&schema, &schema, &document), "{}", path.display());
    }
    assert!(specs >= 27, "{specs}");
}

#[test]
fn both_refuse_bad_specs() {
    for (from, to) in [
        ("schema = 1", "schema = 2"),
        ("schema = 1", ""),
        ("id = \"good\"", "name = \"good\""),
        ("kind = \"rms\"", "kind = \"rsm\""),
        ("kind = \"rms\"", "kind = 3"),
        ("eps = 1e-5", "epsilon = 1e-5"),
        ("eps = 1e-5", "eps = true"),
        ("kind = \"attention\"", "kind = \"attenton\""),
        ("bias = { qkv = \"required\" }", "bias = { qvk = \"required\" }"),
        ("bias = { qkv = \"required\" }", "bias = \"sometimes\""),
        ("window = {", "windows = {"),
        ("size = 3", "size = [3]"),
        ("hf = \"halves\"", "hf = \"half\""),
        ("hf = \"halves\" }", "fh = \"halves\" }"),
        ("\"yarn\"]", "\"jarn\"]"),
        ("round = \"exact\"", "round = \"up\""),
        ("activation = \"silu\"", "activation = \"swish\""),
        ("score = \"softmax\"", "score = \"softmax\", temperature = 2"),
        ("weights = \"sum-to-one\"", "weights = \"normalized\""),
        ("true = \"stream\"", "true = \"steam\""),
        ("head = \"own\"", "head = \"untied\""),
        ("[output]", "[outputs]"),
        ("[norm]", "[adapter]\norder = \"attn_q\"\n[norm]"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        assert_eq!(verdicts(&text), (false, false), "{from} -> {to}");
    }
}
