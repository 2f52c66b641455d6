//! Files that `convert` makes of the base models' folders, against those of llama.cpp's converter.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::assembly::{AssembleOptions, open_model};
use menagerie::convert::{Conversion, ConvertError, OutputTypes};
use menagerie::engine::Arithmetic;
use menagerie::gguf::{GgufFile, OpenOptions, OwnedArray, OwnedValue};
use menagerie::kernels::Cpu;
use menagerie::loaders::{HfTexts, TokenizerTables};
use menagerie::measure::LogitsOptions;
use menagerie::model::Compute;
use menagerie::open::{Device, KeyOptions, ModelBuilder, ResolvedFile, SpecOptions};
use menagerie::quantize::Policy;
use menagerie_conformance::{distance, options, root, rows};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const BASE: [&str; 9] =
    ["llama", "mistral3", "mixtral", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "starcoder2"];

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/base").join(name)
}

/// Converts a folder, or says why not.
fn converted(folder: &Path, kind: &str, out: &Path) -> Result<Vec<String>, ConvertError> {
    let types = match kind.strip_prefix("mixture ") {
        Some(name) => OutputTypes::Policy(Policy::named(name).unwrap()),
        None => OutputTypes::Single(kind),
    };
    let environment = SpecOptions::default().environment().unwrap();
    let file = open_model(folder, environment.entries(), true).unwrap();
    let resolved = ResolvedFile::new(file, &environment, KeyOptions::default()).unwrap();
    let backend = Device::default().backend(environment.entries(), Some(1), Arithmetic::Exact).unwrap();
    let compute = Compute::new(backend, Arithmetic::Exact);
    let claims =
        resolved.assemble(&AssembleOptions::whole(&compute, environment.components())).unwrap().claims;
    let keys = resolved.file.keys(&resolved.spec).unwrap();
    let conversion = Conversion {
        folder: &resolved.file_name(),
        name: resolved.file.name(),
        spec: &resolved.spec,
        keys: &*keys,
        resolution: &resolved.resolution,
        tensors: &*resolved.tensors,
        claims: &claims,
        texts: Some(&HfTexts::open(folder).unwrap()),
        tables: &TokenizerTables::built_in().unwrap(),
        compute: &compute,
        importance: None,
    };
    let plan = conversion.plan(&types)?;
    plan.write(out, &Cpu::new(Some(1)).unwrap(), &mut |_| ControlFlow::Continue(()))?;
    Ok(plan.notes)
}

fn opened(path: &Path) -> GgufFile {
    GgufFile::open(path, &OpenOptions::default()).unwrap()
}

/// Keys that only one of two files has or that differ, with both values.
fn differing(
    ours: &GgufFile,
    theirs: &GgufFile,
) -> BTreeMap<String, (Option<OwnedValue>, Option<OwnedValue>)> {
    let values = |file: &GgufFile| -> BTreeMap<String, OwnedValue> {
        file.metadata().iter().map(|(key, value)| (key.to_owned(), OwnedValue::from(value))).collect()
    };
    let (ours, theirs) = (values(ours), values(theirs));
    let all = ours.keys().chain(theirs.keys()).cloned();
    let pair = |key: String| (key.clone(), (ours.get(&key).cloned(), theirs.get(&key).cloned()));
    all.map(pair).filter(|(_, (one, other))| one != other).collect()
}

/// Where two lists of the same length differ.
fn places(ours: &OwnedValue, theirs: &OwnedValue) -> Vec<usize> {
    let (OwnedValue::Array(ours), OwnedValue::Array(theirs)) = (ours, theirs) else { return Vec::new() };
    let differing = |differs: &dyn Fn(usize) -> bool| (0..ours.len()).filter(|at| differs(*at)).collect();
    match (ours, theirs) {
        (OwnedArray::String(ours), OwnedArray::String(theirs)) if ours.len() == theirs.len() => {
            differing(&|at| ours[at] != theirs[at])
        }
        (OwnedArray::I32(ours), OwnedArray::I32(theirs)) if ours.len() == theirs.len() => {
            differing(&|at| ours[at] != theirs[at])
        }
        _ => Vec::new(),
    }
}

/// Why a key may differ.
fn reason(
    name: &str,
    key: &str,
    ours: Option<&OwnedValue>,
    theirs: Option<&OwnedValue>,
) -> Option<&'static str> {
    Some(match (key, ours, theirs) {
        ("general.name" | "general.size_label", ..) => "a name",
        // The fixtures' vocabularies were given names by hand; theirs cut alike, and the merges make every token.
        ("tokenizer.ggml.pre", Some(_), Some(_)) => "another name of the same regexes",
        (
            "tokenizer.ggml.add_bos_token" | "tokenizer.ggml.add_eos_token",
            Some(OwnedValue::Bool(false)),
            None,
        ) => "what is not done, said",
        ("tokenizer.ggml.add_sep_token", None, Some(OwnedValue::Bool(false))) => "what is not done, said",
        // That class's own way of making a vocabulary; the tokens that differ stand for nothing in a text.
        ("tokenizer.ggml.scores" | "tokenizer.ggml.token_type", Some(_), Some(_)) if name == "phi3" => {
            "<unk>, <s> and </s> are control tokens there"
        }
        // That class of transformers adds `<|endoftext|>` where no file of the folder has it, in place of [PAD380].
        ("tokenizer.ggml.tokens" | "tokenizer.ggml.token_type", Some(ours), Some(theirs))
            if name == "qwen2" && places(ours, theirs) == [380] =>
        {
            "a token of the class"
        }
        // The folder's window, which llama.cpp's converter loses (fixtures' notes): the folder's logits want it.
        ("starcoder2.attention.sliding_window", Some(_), None) => "lost there",
        ("qwen3moe.expert_weights_norm", Some(OwnedValue::Bool(true)), None) => {
            "what is always so there, said"
        }
        (key, Some(_), None) if key.ends_with(".vocab_size") => "the rows of the embedding, said",
        (key, Some(_), None) if key.ends_with(".rope.freq_base") => "the default, said",
        (key, Some(_), None)
            if key.ends_with(".attention.key_length") || key.ends_with(".attention.value_length") =>
        {
            "what is derived, said"
        }
        (key, Some(_), None) if key.ends_with(".rope.dimension_count") => "what is derived, said",
        (key, None, Some(_)) if key.ends_with(".rope.dimension_count") => "what is derived, not said",
        _ => return None,
    })
}

#[test]
fn base_models_are_as_llama_cpps_converter_makes_them() {
    let scratch = TempDir::new().unwrap();
    let mut faults = Vec::new();
    for name in BASE {
        let out = scratch.path().join(format!("{name}.gguf"));
        converted(&fixture(name).join("hf"), "f32", &out).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (ours, theirs) = (opened(&out), opened(&fixture(name).join("model-f32.gguf")));
        for (key, (one, other)) in differing(&ours, &theirs) {
            if reason(name, &key, one.as_ref(), other.as_ref()).is_none() {
                faults.push(format!("{name}: {key}: {one:?} instead of {other:?}"));
            }
        }
        assert_eq!(ours.tensors().len(), theirs.tensors().len(), "{name}");
        for tensor in theirs.tensors() {
            let Some(own) = ours.tensor(tensor.name()) else {
                faults.push(format!("{name}: no tensor {}", tensor.name()));
                continue;
            };
            if (own.dims(), own.kind()) != (tensor.dims(), tensor.kind()) {
                faults.push(format!("{name}: {}: {:?} {}", tensor.name(), own.dims(), own.kind()));
            } else if ours.data(own).unwrap()[..] != theirs.data(tensor).unwrap()[..] {
                faults.push(format!("{name}: {}: other numbers", tensor.name()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn converted_models_give_the_logits_of_their_folders() {
    let scratch = TempDir::new().unwrap();
    let tokens: Vec<u32> = (0..60).map(|at| 5 + at * 37 % 370).collect();
    let logits = |path: &Path| {
        let pipeline = ModelBuilder::new(path).with_options(&options(Arithmetic::Exact)).open_text().unwrap();
        rows(&pipeline, &tokens, &LogitsOptions::default())
    };
    for name in BASE {
        let (folder, out) = (fixture(name).join("hf"), scratch.path().join(format!("{name}.gguf")));
        converted(&folder, "f32", &out).unwrap();
        let (there, here) = (logits(&folder), logits(&out));
        // Rows of a head in another order are summed in another order.
        let worst = distance(&there, &here.concat());
        assert!(worst < 1e-4, "{name}: {worst:e}");
    }
}

#[test]
fn smaller_types_are_written() {
    let scratch = TempDir::new().unwrap();
    for (kind, name) in [("f16", "F16"), ("bf16", "BF16"), ("q8_0", "Q8_0"), ("mixture q4_0", "Q4_0")] {
        let out = scratch.path().join(format!("{kind}.gguf"));
        converted(&fixture("qwen2").join("hf"), kind, &out).unwrap();
        let file = opened(&out);
        let types: BTreeMap<&str, String> =
            file.tensors().iter().map(|tensor| (tensor.name(), tensor.kind().to_string())).collect();
        assert_eq!(types["blk.0.ffn_up.weight"], name);
        assert_eq!(types["blk.0.attn_norm.weight"], "F32");
        assert_eq!(types["blk.0.attn_q.bias"], "F32");
    }
    let out = scratch.path().join("none.gguf");
    let error = converted(&fixture("qwen2").join("hf"), "q9", &out).unwrap_err();
    assert!(error.to_string().contains("\"q9\"") && !out.exists());
}

#[test]
fn what_a_file_cannot_say_is_refused() {
    let scratch = TempDir::new().unwrap();
    let folder = scratch.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(fixture("qwen3").join("hf")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let path = folder.join("tokenizer.json");
    let whole: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 3] = [
        (
            |file| file["normalizer"] = serde_json::json!({"type": "Lowercase"}),
            "`normalizer` is a `Lowercase`",
        ),
        (
            |file| file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[a-q]+|[^a-q]+".into(),
            "[a-q]+|[^a-q]+",
        ),
        (|file| file["pre_tokenizer"] = serde_json::json!({"type": "WhitespaceSplit"}), "`pre_tokenizer`"),
    ];
    for (change, expected) in cases {
        let mut file = whole.clone();
        change(&mut file);
        std::fs::write(&path, file.to_string()).unwrap();
        let out = scratch.path().join("out.gguf");
        let said = converted(&folder, "f32", &out).unwrap_err().to_string();
        assert!(said.contains(expected) && !out.exists(), "{said}");
    }
}
