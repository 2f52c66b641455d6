//! The base models from their Hugging Face folders: both styles of config.json, and equal to the GGUF where they are the
//! same model.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::Arithmetic;
use menagerie::measure::LogitsOptions;
use menagerie::open::ModelBuilder;
use menagerie_conformance::suite::base::Opened;
use menagerie_conformance::{Reference, distance, fixtures, options, rows};
use std::path::Path;

macro_rules! folders {
    ($($name:ident)*) => {
        mod as_transformers_writes_it {
            $(
                #[test]
                fn $name() {
                    super::as_written(stringify!($name));
                }
            )*
        }

        mod as_the_hub_holds_it {
            $(
                #[test]
                fn $name() {
                    super::as_on_the_hub(stringify!($name));
                }
            )*
        }

        #[test]
        fn every_base_model_is_listed() {
            menagerie_conformance::suite::base::expect_fixtures(&[$(stringify!($name)),*]);
        }
    };
}

folders! { llama mixtral phi2 phi3 qwen2 qwen3 qwen3moe starcoder2 mistral3 }

/// The folder as transformers 5 saved it, weights in BF16 or F16 where the model was.
fn as_written(name: &'static str) {
    let folder = fixtures().join("base").join(name).join("hf");
    Opened::at(name, &folder, &options(Arithmetic::Exact)).all();
}

/// The same weights under the config as older checkpoints have it.
fn as_on_the_hub(name: &'static str) {
    let from = fixtures().join("base").join(name);
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from.join("hf")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    std::fs::copy(from.join("config.hub-style.json"), folder.path().join("config.json")).unwrap();
    let reference = Reference::open(&from.join("reference.safetensors"));
    let found = logits_of(folder.path(), &reference.ids("tokens_prompt"));
    let off = distance(&found, &reference.values("logits_prompt"));
    assert!(off <= 1e-4, "{name}: {off:e}");
    let tokens = reference.ids("tokens_long");
    let all = logits_of(folder.path(), &tokens);
    let last: Vec<Vec<f32>> =
        reference.ids("positions_long").iter().map(|at| all[*at as usize].clone()).collect();
    let off = distance(&last, &reference.values("logits_long"));
    // Long factors, as in the suite of the GGUF files.
    assert!(off <= if name == "phi3" { 3e-4 } else { 1e-4 }, "{name}, long: {off:e}");
}

fn logits_of(path: &Path, tokens: &[u32]) -> Vec<Vec<f32>> {
    let pipeline = ModelBuilder::new(path)
        .with_options(&options(Arithmetic::Exact))
        .open_text()
        .unwrap_or_else(|error| panic!("{error}"));
    rows(&pipeline, tokens, &LogitsOptions::default())
}

/// The folder and the GGUF of a model whose weights are the same numbers give the same logits, up to the noise of sums in
/// another order: rows of queries and keys lie in another order in the GGUF, and factors of its rope are a tensor.
fn as_the_gguf(name: &str) {
    let base = fixtures().join("base").join(name);
    let tokens = Reference::open(&base.join("reference.safetensors")).ids("tokens_long");
    let [folder, file] = ["hf", "model-f32.gguf"].map(|at| logits_of(&base.join(at), &tokens));
    let file: Vec<f32> = file.into_iter().flatten().collect();
    let off = distance(&folder, &file);
    assert!(off <= if name == "phi3" { 3e-4 } else { 1e-4 }, "{name}: {off:e}");
}

#[test]
fn a_folder_gives_what_its_gguf_gives() {
    // Not starcoder2: the converter does not write its window.
    ["llama", "mixtral", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "mistral3"]
        .iter()
        .for_each(|name| as_the_gguf(name));
}

/// Weights packed as they are published, against transformers on what its own functions unpack.
#[test]
fn packed_weights_are_the_numbers_of_transformers() {
    let compressed = ["compressed-channels", "compressed-tensor", "compressed-blocks"];
    for name in ["fp8-blocks", "fp8-tensors", "mxfp4"].into_iter().chain(compressed) {
        let folder = fixtures().join("packed").join(name);
        let reference = Reference::open(&folder.join("reference.safetensors"));
        let off = distance(&logits_of(&folder, &reference.ids("tokens")), &reference.values("logits"));
        assert!(off <= 1e-4, "{name}: {off:e}");
    }
}

/// Factors that do not fit, or are no numbers, are told with the tensor.
#[test]
fn factors_that_do_not_fit_are_refused() {
    let changed = |name: &str, shape: Vec<usize>, value: f32| {
        let folder = copied("packed/compressed-channels");
        let path = folder.path().join("model.safetensors");
        let bytes = std::fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let other: Vec<u8> = (0..shape.iter().product()).flat_map(|_| value.to_le_bytes()).collect();
        let other = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape, &other).unwrap();
        let mut tensors = file.tensors();
        for (known, view) in &mut tensors {
            if known == name {
                *view = other.clone();
            }
        }
        safetensors::serialize_to_file(tensors, None, &path).unwrap();
        ModelBuilder::new(folder.path())
            .with_options(&options(Arithmetic::Exact))
            .open_text()
            .err()
            .map(|error| error.to_string())
    };
    let name = "model.layers.1.mlp.up_proj.weight_scale";
    assert_eq!(changed(name, vec![96, 1], 0.5), None);
    let short = changed(name, vec![95, 1], 0.5).unwrap();
    assert!(
        short.contains("up_proj.weight") && short.contains("fit neither the tensor, nor its 96 rows"),
        "{short}"
    );
    let blocks = changed(name, vec![6, 2], 0.5).unwrap();
    assert!(blocks.contains("fit neither"), "{blocks}");
    let nan = changed(name, vec![96, 1], f32::NAN).unwrap();
    assert!(nan.contains("contain NaN"), "{nan}");
}

/// A copy of a fixture's folder.
fn copied(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixtures().join(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// Any path into a folder means the folder.
#[test]
fn a_config_or_a_file_of_weights_means_its_folder() {
    let folder = fixtures().join("base/qwen3/hf");
    let whole = logits_of(&folder, &[1, 2, 3]);
    for name in ["config.json", "model.safetensors"] {
        assert_eq!(logits_of(&folder.join(name), &[1, 2, 3]), whole, "{name}");
    }
}

/// Headers of any length: the bytes of a tensor may begin anywhere.
#[test]
fn tensors_may_lie_at_odd_bytes() {
    let folder = copied("base/llama/hf");
    let wanted = logits_of(folder.path(), &[1, 2, 3]);
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    for more in 1..4 {
        let mut moved = (length + more).to_le_bytes().to_vec();
        moved.extend(&bytes[8..8 + length as usize]);
        moved.extend(vec![b' '; more as usize]);
        moved.extend(&bytes[8 + length as usize..]);
        std::fs::write(&path, moved).unwrap();
        assert_eq!(logits_of(folder.path(), &[1, 2, 3]), wanted, "{more} bytes further");
    }
}

/// Two shards and an index are the one file they were cut from.
#[test]
fn shards_are_one_model() {
    let folder = copied("base/mixtral/hf");
    let wanted = logits_of(folder.path(), &[1, 2, 3]);
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut names = file.names();
    names.sort();
    let mut map = serde_json::Map::new();
    for (number, names) in names.chunks(names.len() / 2 + 1).enumerate() {
        let shard = format!("model-{number}.safetensors");
        let tensors: Vec<_> = names.iter().map(|name| (*name, file.tensor(name).unwrap())).collect();
        std::fs::write(folder.path().join(&shard), safetensors::serialize(tensors, None).unwrap()).unwrap();
        map.extend(names.iter().map(|name| ((*name).to_owned(), shard.clone().into())));
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": map });
    std::fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(logits_of(folder.path(), &[1, 2, 3]), wanted);
    std::fs::remove_file(folder.path().join("model-1.safetensors")).unwrap();
    let said = ModelBuilder::new(folder.path())
        .with_options(&options(Arithmetic::Exact))
        .open_text()
        .err()
        .unwrap()
        .to_string();
    assert!(said.contains("1 of the 2 files it names are not in the folder"), "{said}");
}
