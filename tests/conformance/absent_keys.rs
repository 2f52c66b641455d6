//! Keys that converters leave out: a GGUF without one is the model that llama.cpp takes it for, and is refused where llama.cpp
//! refuses it.
//!
//! Source: `load_hparams` and `load_arch_hparams` of llama.cpp as vendored in llama-cpp-python 0.3.36: keys that are read with
//! `required = false`, and what their fields hold where nothing is read.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::assembly::open_model;
use menagerie::gguf::{GgufFile, GgufWriter, OpenOptions, OwnedValue};
use menagerie::open::{KeyOptions, ResolvedFile, SpecOptions};
use menagerie_conformance::fixtures;
use menagerie_conformance::suite::zoo::model_file;
use serde_json::Value;
use std::path::Path;

/// The resolved model of a file, and how it pools.
fn resolved(path: &Path) -> Result<Value, String> {
    let environment = SpecOptions::default().environment().map_err(|error| error.to_string())?;
    let file = open_model(path, environment.entries(), true).map_err(|error| error.to_string())?;
    let resolved = ResolvedFile::new(file, &environment, KeyOptions::default());
    let resolved = resolved.map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(resolved.config()).unwrap())
}

/// What llama.cpp has in a key's place.
enum Place {
    Number(f32),
    Count(u32),
    /// The value of another key of the file.
    Of(&'static str),
    /// `1 / sqrt(head size)`: a scale of 0 means it.
    OfHead,
}

/// A fixture of the zoo, a key without the architecture's prefix, and what llama.cpp has in its place.
const ABSENT: [(&str, &str, Place); 10] = [
    // Files of Bamba have none; granite-hybrid.cpp: no scale of logits.
    ("granitehybrid", "logit_scale", Place::Number(1.0)),
    ("granite", "attention.scale", Place::OfHead),
    ("granite_swa", "attention.scale", Place::OfHead),
    ("falcon-h1", "rope.freq_base", Place::Number(10000.0)),
    ("gpt-oss", "rope.freq_base", Place::Number(10000.0)),
    ("modern-bert", "rope.freq_base", Place::Number(10000.0)),
    ("modern-bert", "rope.freq_base_swa", Place::Number(10000.0)),
    ("gemma4", "rope.dimension_count_swa", Place::Of("rope.dimension_count")),
    ("step35", "rope.freq_base_swa", Place::Number(10000.0)),
    ("afmoe", "attention.sliding_window", Place::Count(0)),
];

/// A copy of a file without a key, or with another value of it.
fn with_key(from: &Path, to: &Path, key: &str, value: Option<OwnedValue>) {
    let file = GgufFile::open(from, &OpenOptions::default()).unwrap();
    let mut writer = GgufWriter::new();
    for (name, own) in file.metadata().iter().filter(|(name, _)| *name != key) {
        writer.metadata(name, own).unwrap();
    }
    if let Some(value) = value {
        writer.metadata(key, value).unwrap();
    }
    for tensor in file.tensors() {
        let data = file.data(tensor).unwrap().to_vec();
        writer.tensor(tensor.name(), tensor.dims(), tensor.kind(), data).unwrap();
    }
    writer.write(to).unwrap();
}

/// The zoo's fixture of a name, and the prefix of its keys.
fn fixture(name: &str) -> (std::path::PathBuf, GgufFile, String) {
    let path = model_file(&fixtures().join("zoo").join(name));
    let file = GgufFile::open(&path, &OpenOptions::default()).unwrap();
    let arch = file.metadata().get("general.architecture").unwrap().as_str().unwrap().to_owned();
    (path, file, arch)
}

/// A number of a fixture's file.
fn number(file: &GgufFile, key: &str) -> Option<f64> {
    file.metadata().get(key)?.as_f64()
}

#[test]
fn absent_keys_are_what_llama_cpp_takes_them_for() {
    let home = tempfile::tempdir().unwrap();
    let mut changed = 0;
    for (name, short, place) in ABSENT {
        let (from, file, arch) = fixture(name);
        let of = |short: &str| number(&file, &format!("{arch}.{short}"));
        let value = match place {
            Place::Number(number) => OwnedValue::F32(number),
            Place::Count(count) => OwnedValue::U32(count),
            Place::Of(other) => OwnedValue::U32(of(other).unwrap() as u32),
            Place::OfHead => {
                let head = of("attention.key_length");
                let head = head
                    .unwrap_or_else(|| of("embedding_length").unwrap() / of("attention.head_count").unwrap());
                OwnedValue::F32((1.0 / head.sqrt()) as f32)
            }
        };
        let key = format!("{arch}.{short}");
        let (without, with) = (home.path().join("without.gguf"), home.path().join("with.gguf"));
        with_key(&from, &without, &key, None);
        with_key(&from, &with, &key, Some(value));
        let without = resolved(&without).unwrap_or_else(|error| panic!("{name} without {short}: {error}"));
        let with = resolved(&with).unwrap_or_else(|error| panic!("{name}, {short}: {error}"));
        assert_eq!(without, with, "{name}, {short}");
        changed += usize::from(resolved(&from).unwrap() != with);
    }
    assert!(changed >= 6, "{changed} of the fixtures have another value than llama.cpp's default");
}

/// llama.cpp requires these, or stops without them: no value is made up.
#[test]
fn keys_that_llama_cpp_requires_are_required() {
    let home = tempfile::tempdir().unwrap();
    for (name, short) in [
        ("granite", "logit_scale"),
        ("cohere2", "logit_scale"),
        ("cohere2moe", "logit_scale"),
        ("gemma-embedding", "attention.sliding_window"),
        ("dots1", "expert_gating_func"),
        ("gpt-oss", "attention.sliding_window"),
    ] {
        let (from, _, arch) = fixture(name);
        let without = home.path().join("without.gguf");
        with_key(&from, &without, &format!("{arch}.{short}"), None);
        let error = resolved(&without).expect_err(name);
        assert!(error.contains(short), "{name} without {short}: {error}");
    }
}

/// A reranker's file may say how its classifier pools: llama.cpp takes the mean where it says so, and the first row otherwise.
/// Other encoders have no classifier, and the key changes nothing.
#[test]
fn the_pooling_of_a_classifier_is_read_where_there_is_one() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("model.gguf");
    let pooled = |name: &str, pooling: Option<u32>| {
        let (from, _, arch) = fixture(name);
        with_key(&from, &path, &format!("{arch}.classifier.pooling_type"), pooling.map(OwnedValue::U32));
        let config = resolved(&path).unwrap_or_else(|error| panic!("{name} {pooling:?}: {error}"));
        config["output"]["pooling"].clone()
    };
    for fixture in ["bert-rank", "xlm-roberta-rank"] {
        let [none, mean, first] = [None, Some(1), Some(2)].map(|pooling| pooled(fixture, pooling));
        assert_eq!((&none, mean == none), (&first, false), "{fixture}: {mean}");
    }
    for fixture in [
        "bert",
        "nomic-bert",
        "nomic-bert-moe",
        "jina-bert-v2",
        "jina-bert-v3",
        "neo-bert",
        "eurobert",
        "t5encoder",
        "gemma-embedding",
        "llama-embed",
        "modern-bert",
    ] {
        assert_eq!(pooled(fixture, Some(1)), pooled(fixture, None), "{fixture}");
    }
}
