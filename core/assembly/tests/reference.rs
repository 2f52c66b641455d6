//! Spec, GGUF file and components together against logits of another implementation.
#![allow(missing_docs, clippy::unwrap_used)]

use gguf_file::{GgufFile, OpenOptions, Value};
use menagerie_assembly::{AssembleOptions, GgufSource, assemble};
use menagerie_spec::{ArchSpec, KeyValue, ResolveInput, SourceFormat, SpecLookup, SpecSource};
use menagerie_testkit::{Reference, Session, assert_close};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The built-in specs, from their folder.
struct Specs;

impl SpecLookup for Specs {
    fn find(&self, id: &str) -> Option<SpecSource> {
        let text = std::fs::read_to_string(root().join(format!("specs/{id}.toml"))).ok()?;
        Some(SpecSource { name: format!("specs/{id}.toml"), text })
    }
}

fn key_value(value: &Value) -> Option<KeyValue> {
    Some(match value {
        Value::U8(v) => KeyValue::Integer((*v).into()),
        Value::I8(v) => KeyValue::Integer((*v).into()),
        Value::U16(v) => KeyValue::Integer((*v).into()),
        Value::I16(v) => KeyValue::Integer((*v).into()),
        Value::U32(v) => KeyValue::Integer((*v).into()),
        Value::I32(v) => KeyValue::Integer((*v).into()),
        Value::U64(v) => KeyValue::Integer(i64::try_from(*v).ok()?),
        Value::I64(v) => KeyValue::Integer(*v),
        Value::F32(v) => KeyValue::Number((*v).into()),
        Value::F64(v) => KeyValue::Number(*v),
        Value::Bool(v) => KeyValue::Bool(*v),
        Value::String(v) => KeyValue::Text((*v).to_owned()),
        Value::Array(_) => return None,
    })
}

fn check(name: &str, tolerance: f32) {
    let folder = root().join("tests/fixtures/base").join(name);
    let file = GgufFile::open(&folder.join("model-f32.gguf"), &OpenOptions::default()).unwrap();
    let Some(Value::String(architecture)) = file.metadata().get("general.architecture") else {
        panic!("{name}: no architecture")
    };
    let architecture = architecture.to_owned();
    let spec = ArchSpec::parse(&Specs.find(&architecture).unwrap(), &Specs).unwrap_or_else(|e| panic!("{e}"));
    let prefix = format!("{architecture}.");
    let own = file
        .metadata()
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?.to_owned(), key_value(&value)?)));
    let keys: BTreeMap<String, KeyValue> = own.collect();
    let source = GgufSource::new(Arc::new(file), &spec);
    let input = ResolveInput::new(SourceFormat::Gguf, name, architecture, &keys, &source);
    let config = spec.resolve(&input).unwrap_or_else(|error| panic!("{error}"));
    let assembly =
        assemble(&config, &source, &AssembleOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let model = assembly.into_language_model().unwrap();
    let reference = Reference::open(folder.join("reference.safetensors"));
    let mut session = Session::exact(&*model, 2, 512, 512).unwrap();

    let sequence = session.states.create().unwrap();
    let found = session.feed(sequence, &reference.ids("tokens_prompt")).unwrap();
    assert_close(
        &format!("{name}: prompt"),
        &found.concat(),
        &reference.rows("logits_prompt").values,
        tolerance,
    );
    let greedy = reference.ids("tokens_greedy");
    let mut rows = vec![found.last().unwrap().clone()];
    for token in &greedy[..greedy.len() - 1] {
        rows.extend(session.feed(sequence, &[*token]).unwrap());
    }
    assert_close(
        &format!("{name}: greedy"),
        &rows.concat(),
        &reference.rows("logits_greedy").values,
        tolerance,
    );

    let sequence = session.states.create().unwrap();
    let long = reference.ids("tokens_long");
    let mut rows = Vec::new();
    for chunk in long.chunks(77) {
        rows.extend(session.feed_part(sequence, chunk, long.len()).unwrap());
    }
    let expected = expected_long(&reference, name);
    let picked: Vec<f32> = reference
        .ids("positions_long")
        .iter()
        .flat_map(|position| rows[*position as usize].clone())
        .collect();
    assert_close(&format!("{name}: long"), &picked, &expected, tolerance);
}

/// The converter does not write StarCoder2's window: the file's truth past it is the model without one.
fn expected_long(reference: &Reference, name: &str) -> Vec<f32> {
    let without_window = name == "starcoder2" && reference.has("logits_long_nosw");
    reference.rows(if without_window { "logits_long_nosw" } else { "logits_long" }).values
}

#[test]
fn llama() {
    check("llama", 1e-4);
}

#[test]
fn mixtral_is_a_llama_with_experts() {
    check("mixtral", 1e-4);
}

#[test]
fn phi2() {
    check("phi2", 1e-4);
}

#[test]
fn phi3() {
    check("phi3", 3e-4);
}

#[test]
fn qwen2() {
    check("qwen2", 1e-4);
}

#[test]
fn qwen3() {
    check("qwen3", 1e-4);
}

#[test]
fn qwen3moe() {
    check("qwen3moe", 1e-4);
}

#[test]
fn starcoder2() {
    check("starcoder2", 1e-4);
}

#[test]
fn mistral3() {
    check("mistral3", 1e-4);
}
