//! Rewrites old spellings of rope parameters into the table `rope_parameters` of transformers 5.
//!
//! Source: `RotaryEmbeddingConfigMixin` of transformers 5.23, modeling_rope_utils.py, and the classes that rename more.

use serde_json::{Map, Value};

const TABLE: &str = "rope_parameters";
const OLD_TABLE: &str = "rope_scaling";
const ORIGINAL: &str = "original_max_position_embeddings";

/// Kinds of layers with their own table in `rope_parameters`.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

/// Names outside of the table, and their names inside.
const BESIDE: [(&str, &str); 5] = [
    ("rope_theta", "rope_theta"),
    ("rotary_emb_base", "rope_theta"),
    ("partial_rotary_factor", "partial_rotary_factor"),
    ("rotary_pct", "partial_rotary_factor"),
    ("rope_pct", "partial_rotary_factor"),
];

/// Bases of windowed layers outside of the table.
const LOCAL: [&str; 2] = ["rope_local_base_freq", "local_rope_theta"];

/// Rewrites a config in place. Values inside the table take precedence over those outside, as in transformers.
pub(super) fn rewrite(config: &mut Map<String, Value>) {
    let mut rope = take_table(config, TABLE);
    for (name, value) in take_table(config, OLD_TABLE) {
        rope.entry(name).or_insert(value);
    }
    renamed(&mut rope);
    let nested = KINDS.iter().any(|kind| rope.get(*kind).is_some_and(Value::is_object));
    for (name, inside) in BESIDE {
        let Some(value) = take(config, name) else { continue };
        if !nested {
            rope.entry(inside).or_insert(value);
            continue;
        }
        for kind in KINDS {
            if let Some(Value::Object(table)) = rope.get_mut(kind) {
                table.entry(inside).or_insert(value.clone());
            }
        }
    }
    original(config, &mut rope);
    local(config, &mut rope, nested);
    if !rope.is_empty() {
        config.insert(TABLE.to_owned(), Value::Object(rope));
    }
}

fn take(config: &mut Map<String, Value>, name: &str) -> Option<Value> {
    config.shift_remove(name).filter(|value| !value.is_null())
}

/// A table that is taken out of the config; other values stay, and are reported as unread.
fn take_table(config: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    if config.get(name).is_some_and(Value::is_null) {
        config.shift_remove(name);
    }
    let Some(Value::Object(table)) = config.get(name) else { return Map::new() };
    let table = table.iter().filter(|(_, value)| !value.is_null());
    let table = table.map(|(name, value)| (name.clone(), value.clone())).collect();
    config.shift_remove(name);
    table
}

/// `type` becomes `rope_type`, in the table and in those of kinds of layers; also the renamed kinds.
fn renamed(table: &mut Map<String, Value>) {
    if let Some(kind) = table.shift_remove("type") {
        table.entry("rope_type").or_insert(kind);
    }
    if let Some(kind) = table.get_mut("rope_type") {
        match kind.as_str() {
            Some("su") => *kind = "longrope".into(),
            // Sections for time, height and width, which are equal for text.
            Some("mrope") => *kind = "default".into(),
            _ => {}
        }
    }
    for kind in KINDS {
        if let Some(Value::Object(inner)) = table.get_mut(kind) {
            renamed(inner);
        }
    }
}

/// The context before scaling: a value outside of the table takes precedence; without any, it is the context.
fn original(config: &mut Map<String, Value>, rope: &mut Map<String, Value>) {
    let scaled =
        matches!(rope.get("rope_type").and_then(Value::as_str), Some("llama3" | "yarn" | "longrope"));
    if !scaled {
        return;
    }
    if let Some(value) = take(config, ORIGINAL) {
        rope.insert(ORIGINAL.to_owned(), value);
    } else if let Some(context) = config.get("max_position_embeddings").filter(|value| !value.is_null()) {
        rope.entry(ORIGINAL).or_insert_with(|| context.clone());
    }
}

/// A base for windowed layers creates two tables: the scaling applies to the other layers.
fn local(config: &mut Map<String, Value>, rope: &mut Map<String, Value>, nested: bool) {
    let Some(base) = LOCAL.iter().find_map(|name| take(config, name)) else { return };
    if nested {
        if let Some(Value::Object(table)) = rope.get_mut("sliding_attention") {
            table.entry("rope_theta").or_insert(base);
        }
        return;
    }
    if let Some(whole) = take(config, "global_rope_theta") {
        rope.entry("rope_theta").or_insert(whole);
    }
    let whole = std::mem::take(rope);
    let windowed =
        Map::from_iter([("rope_type".to_owned(), Value::from("default")), ("rope_theta".to_owned(), base)]);
    rope.insert("full_attention".to_owned(), Value::Object(whole));
    rope.insert("sliding_attention".to_owned(), Value::Object(windowed));
}

#[cfg(test)]
mod tests {
    use super::rewrite;
    use serde_json::{Value, json};

    fn rewritten(mut config: Value) -> Value {
        rewrite(config.as_object_mut().unwrap());
        config
    }

    #[test]
    fn both_styles_of_the_hub_are_one() {
        let new = json!({"max_position_embeddings": 1024, "rope_parameters": {
            "rope_theta": 1e4, "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}});
        let old = json!({"max_position_embeddings": 1024, "rope_theta": 1e4, "rope_scaling": {
            "rope_type": "llama3", "type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}});
        assert_eq!(rewritten(old), rewritten(new.clone()));
        assert_eq!(rewritten(new.clone()), new, "what is new stays as it is");
        let plain = rewritten(json!({"rope_theta": 5e5, "rope_scaling": null, "partial_rotary_factor": 0.5}));
        assert_eq!(plain, json!({"rope_parameters": {"rope_theta": 5e5, "partial_rotary_factor": 0.5}}));
        let neox = rewritten(json!({"rotary_pct": 0.25, "rotary_emb_base": 10000}));
        assert_eq!(neox, json!({"rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.25}}));
        assert_eq!(rewritten(json!({"a": 1, "rope_scaling": null})), json!({"a": 1}));
    }

    #[test]
    fn the_original_context_moves_into_the_table() {
        let config = json!({"original_max_position_embeddings": 256, "max_position_embeddings": 1024,
            "rope_scaling": {"type": "su", "short_factor": [1.0]}});
        assert_eq!(
            rewritten(config)["rope_parameters"],
            json!({"rope_type": "longrope", "short_factor": [1.0],
            "original_max_position_embeddings": 256})
        );
        let yarn = json!({"max_position_embeddings": 512, "rope_scaling": {"type": "yarn", "factor": 4.0}});
        assert_eq!(rewritten(yarn)["rope_parameters"]["original_max_position_embeddings"], 512);
        let plain = json!({"original_max_position_embeddings": 256, "rope_theta": 1.0});
        assert_eq!(
            rewritten(plain)["original_max_position_embeddings"],
            256,
            "without a scaling nothing reads it"
        );
    }

    #[test]
    fn a_local_base_makes_two_tables() {
        let config = json!({"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}});
        let wanted = json!({"full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}});
        assert_eq!(rewritten(config)["rope_parameters"], wanted);
        let nested = json!({"rope_theta": 1e6, "rope_parameters": {"full_attention": {"rope_type": "default"},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}});
        let found = rewritten(nested);
        assert_eq!(found["rope_parameters"]["full_attention"]["rope_theta"], 1e6);
        assert_eq!(found["rope_parameters"]["sliding_attention"]["rope_theta"], 1e4);
    }
}
