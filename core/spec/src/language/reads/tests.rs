//! Every key that llama.cpp's converter can write for a built-in id is read or listed with a reason.

use crate::kind::Kinds;
use crate::{ArchSpec, SpecSource};
use std::collections::BTreeMap;
use toml_span::Value;

/// The project's own specs.
fn built_in() -> Vec<ArchSpec> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../specs");
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("models.toml") {
            let id = path.file_stem().unwrap().to_str().unwrap().to_string();
            let text = std::fs::read_to_string(&path).unwrap();
            texts.insert(id.clone(), SpecSource { name: format!("{id}.toml"), text });
        }
    }
    let parse = |source| ArchSpec::parse(source, &texts, &Kinds::built_in()).unwrap();
    texts.values().map(parse).collect()
}

fn strings(value: Option<&Value<'_>>) -> Vec<String> {
    let values = value.and_then(Value::as_array).into_iter().flatten();
    values.map(|value| value.as_str().unwrap().to_string()).collect()
}

#[test]
fn every_key_the_converter_writes_is_read_or_listed() {
    let text = include_str!("../../../tests/converter_keys.toml");
    let document = toml_span::parse(text).unwrap();
    let base = strings(document.pointer("/base"));
    assert!(base.len() > 20);
    let mut problems = Vec::new();
    for spec in built_in() {
        let id = spec.id();
        let table = document
            .pointer(&format!("/{id}"))
            .unwrap_or_else(|| panic!("{id} is not in converter_keys.toml"));
        let mut keys = strings(table.pointer("/keys"));
        keys.extend(strings(table.pointer("/older")));
        if table.pointer("/base").unwrap().as_bool().unwrap() {
            keys.extend(base.iter().cloned());
        }
        for key in keys {
            match (spec.reads.has(&key), spec.ignored_key(&key)) {
                (true, Some(reason)) => problems.push(format!("{id}: {key} is read, and ignored ({reason})")),
                (false, None) => problems.push(format!("{id}: {key} is neither read nor listed")),
                _ => {}
            }
        }
        for key in strings(table.pointer("/refused")) {
            if spec.reads.has(&key) || spec.ignored_key(&key).is_some() {
                problems.push(format!("{id}: {key} should be refused"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn keys_of_other_architectures_are_not_taken() {
    let text = include_str!("../../../tests/converter_keys.toml");
    let document = toml_span::parse(text).unwrap();
    for spec in built_in() {
        let table = document.pointer(&format!("/{}", spec.id())).unwrap();
        let own = ["/keys", "/older"].map(|name| strings(table.pointer(name))).concat();
        for key in [
            "attention.clamp_kqv",
            "logit_scale",
            "attn_logit_softcapping",
            "residual_scale",
            "ssm.state_size",
            "attention.max_alibi_bias",
            "nextn_predict_layers",
            "swiglu_clamp_exp",
            "attention.sliding_window_pattern",
        ] {
            // No converter writes it, but the spec itself or one that it extends states it, as a key with a default.
            let stated = spec.reads.has(key) && spec.merged().contains(key);
            if !stated && !own.iter().any(|own| own == key) {
                assert!(!spec.reads.has(key) && spec.ignored_key(key).is_none(), "{}: {key}", spec.id());
            }
        }
    }
}
