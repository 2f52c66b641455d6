//! GGUF files: the container, and what the loader reads from its metadata.

use super::file;
use crate::Target;
use gguf_file::{GgmlType, GgufFile, GgufWriter, OwnedArray, OwnedValue, Value};
use menagerie_loaders::{GgufLoader, RenderOptions, Special, TokenizerOptions};
use std::sync::Arc;

pub(super) const TARGET: Target = Target {
    name: "gguf",
    run,
    seeds,
    words: &[
        "GGUF",
        "general.architecture",
        "general.alignment",
        "general.file_type",
        "split.no",
        "split.count",
        "split.tensors.count",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.token_type",
        "tokenizer.chat_template",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.precompiled_charsmap",
        "gpt2",
        "llama",
        "bert",
        "t5",
        "rwkv",
    ],
};

fn run(input: &[u8]) -> bool {
    let Ok(file) = GgufFile::from_bytes("input", input.to_vec()) else { return false };
    let mut sum = 0_u64;
    for (key, value) in file.metadata().iter() {
        sum = sum.wrapping_add(key.len() as u64).wrapping_add(visit(value));
        drop(OwnedValue::from(value));
    }
    for tensor in file.tensors() {
        assert_eq!(file.tensor(tensor.name()), Some(tensor), "a tensor is not found by its name");
        if let Ok(data) = file.data(tensor) {
            assert_eq!(data.len() as u64, tensor.bytes());
            sum = sum.wrapping_add(data.iter().map(|byte| u64::from(*byte)).sum());
        }
    }
    std::hint::black_box(sum);
    load(GgufLoader::from_file(Arc::new(file)));
    true
}

fn visit(value: Value<'_>) -> u64 {
    let Some(array) = value.as_array() else { return 1 };
    array.values().map(visit).fold(0, u64::wrapping_add)
}

/// The metadata that is read when a model is opened.
fn load(loader: GgufLoader) {
    drop((loader.architecture().map(str::len), loader.canonical_keys().is_ok(), loader.quantization()));
    drop(loader.sampling_defaults());
    let Ok(tokenizer) = loader.tokenizer(&TokenizerOptions::default()) else { return };
    if let Ok(ids) = tokenizer.encode("a b  c1\n<s>é", Special::Parse) {
        drop(tokenizer.decode(&ids, true));
    }
    if let Ok(Some(template)) = loader.chat_template(&tokenizer) {
        let messages = [serde_json::json!({"role": "user", "content": "Hello <s>"})];
        drop(template.render(&messages, &RenderOptions::default()));
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let small = [
        "tok/unigram/vocab.gguf",
        "tok/cheapest/vocab.gguf",
        "tok/longest/vocab.gguf",
        "tok/wordpiece/vocab.gguf",
    ];
    let mut seeds: Vec<Vec<u8>> = small.iter().map(|name| file(&format!("tests/fixtures/{name}"))).collect();
    seeds.extend(every_type());
    seeds.extend(byte_pairs());
    seeds
}

/// Every value type and every tensor type.
fn every_type() -> Option<Vec<u8>> {
    let mut writer = GgufWriter::new();
    let nested = OwnedArray::Array(vec![OwnedArray::strings(["a", ""]), OwnedArray::U8(vec![1, 2])]);
    let values = [
        OwnedValue::U8(1),
        OwnedValue::I8(-1),
        OwnedValue::U16(2),
        OwnedValue::I16(-2),
        OwnedValue::U32(3),
        OwnedValue::I32(-3),
        OwnedValue::U64(4),
        OwnedValue::I64(-4),
        OwnedValue::F32(0.5),
        OwnedValue::F64(0.25),
        OwnedValue::Bool(true),
        OwnedValue::String("text".into()),
        OwnedValue::Array(nested),
    ];
    writer.metadata("general.architecture", "llama").ok()?;
    for (number, value) in values.into_iter().enumerate() {
        writer.metadata(&format!("llama.key.{number}"), value).ok()?;
    }
    for kind in GgmlType::known() {
        let dims = [kind.block_len()? as u64, 1];
        writer.tensor(kind.name(), &dims, kind, vec![3; kind.block_bytes()?]).ok()?;
    }
    writer.to_bytes().ok()
}

/// A byte-level vocabulary with merges and a chat template.
fn byte_pairs() -> Option<Vec<u8>> {
    let mut writer = GgufWriter::new();
    let tokens = ["<s>", "a", "b", "c", "ab", "abc", "Ġ"];
    let template = "{{ bos_token }}{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}";
    writer.metadata("general.architecture", "llama").ok()?;
    writer.metadata("tokenizer.ggml.model", "gpt2").ok()?;
    writer.metadata("tokenizer.ggml.pre", "gpt-2").ok()?;
    writer.metadata("tokenizer.ggml.tokens", OwnedArray::strings(tokens)).ok()?;
    writer.metadata("tokenizer.ggml.token_type", OwnedArray::I32(vec![3, 1, 1, 1, 1, 1, 1])).ok()?;
    writer.metadata("tokenizer.ggml.merges", OwnedArray::strings(["a b", "ab c"])).ok()?;
    writer.metadata("tokenizer.ggml.bos_token_id", 0_u32).ok()?;
    writer.metadata("tokenizer.ggml.eos_token_id", 0_u32).ok()?;
    writer.metadata("tokenizer.chat_template", template).ok()?;
    writer.to_bytes().ok()
}
