//! Adapters that are broken, or for another model: an error that names file and module, never a panic.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::adapters::AdapterFile;
use menagerie::engine::{Arithmetic, TextPipeline};
use menagerie::open::{LoadedModel, ModelBuilder};
use menagerie_conformance::{fixtures, options};
use menagerie_random::SplitMix64;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tensors of an adapter by name: shape and bytes.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

fn adapter(name: &str) -> PathBuf {
    fixtures().join("lora").join(name)
}

fn model(base: &str) -> LoadedModel<TextPipeline> {
    let path = fixtures().join("base").join(base).join("model-f32.gguf");
    ModelBuilder::new(&path)
        .with_options(&options(Arithmetic::Fast))
        .open_text()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A copy of an adapter with other tensors or another configuration.
fn changed(from: &str, change: &dyn Fn(&mut Tensors, &mut Value)) -> tempfile::TempDir {
    let read = |name: &str| std::fs::read(adapter(from).join(name)).unwrap();
    let (bytes, config) = (read("adapter_model.safetensors"), read("adapter_config.json"));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let of = |(name, view): (String, TensorView<'_>)| (name, (view.shape().to_vec(), view.data().to_vec()));
    let mut tensors: Tensors = file.tensors().into_iter().map(of).collect();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    change(&mut tensors, &mut config);
    let folder = tempfile::tempdir().unwrap();
    let views = tensors.iter().map(|(name, (shape, data))| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
    });
    let written = safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap();
    std::fs::write(folder.path().join("adapter_model.safetensors"), written).unwrap();
    std::fs::write(folder.path().join("adapter_config.json"), config.to_string()).unwrap();
    folder
}

/// Why an adapter cannot be loaded into a model.
fn refusal(pipeline: &LoadedModel<TextPipeline>, path: &Path) -> String {
    let error = pipeline.load_adapter("broken", path).expect_err("the adapter was loaded");
    assert!(pipeline.adapters().names().is_empty());
    error.to_string()
}

fn expect(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
}

const Q: &str = "base_model.model.model.layers.1.self_attn.q_proj";

#[test]
fn what_does_not_fit_is_named() {
    let llama = model("llama");
    let said = |change: &dyn Fn(&mut Tensors, &mut Value)| {
        let folder = changed("llama/adapters/a0", change);
        refusal(&llama, folder.path())
    };
    let renamed = |to: &'static str| {
        move |tensors: &mut Tensors, _: &mut Value| {
            for side in ["lora_A.weight", "lora_B.weight"] {
                let tensor = tensors.remove(&format!("{Q}.{side}")).unwrap();
                tensors.insert(format!("base_model.model.{to}.{side}"), tensor);
            }
        }
    };
    let unknown = said(&renamed("model.layers.1.self_attn.w_proj"));
    expect(&unknown, &["model.layers.1.self_attn.w_proj", "no such module", "the nearest is"]);
    let past = said(&renamed("model.layers.9.self_attn.q_proj"));
    expect(&past, &["model.layers.9.self_attn.q_proj", "block 9"]);
    let norm = said(&renamed("model.layers.1.input_layernorm"));
    expect(&norm, &["model.layers.1.input_layernorm", "not a linear"]);
    let rank = said(&|_, config| config["r"] = json!(5));
    expect(&rank, &["adapter_model.safetensors", "rank mismatch", "rank 4", "says 5", "adapter_config.json"]);
    let narrow = said(&|tensors, _| {
        let (shape, data) = tensors.get_mut(&format!("{Q}.lora_A.weight")).unwrap();
        shape[1] = 32;
        data.truncate(4 * 4 * 32);
    });
    expect(&narrow, &["model.layers.1.self_attn.q_proj", "32 inputs", "64"]);
    let short = said(&|tensors, _| {
        let (shape, data) = tensors.get_mut(&format!("{Q}.lora_B.weight")).unwrap();
        shape[0] = 48;
        data.truncate(4 * 4 * 48);
    });
    expect(&short, &["model.layers.1.self_attn.q_proj", "48 outputs", "64"]);
    let half = said(&|tensors, _| drop(tensors.remove(&format!("{Q}.lora_B.weight"))));
    expect(&half, &["model.layers.1.self_attn.q_proj", "one of its two matrices"]);
    let odd = said(&|tensors, _| {
        let tensor = tensors.remove(&format!("{Q}.lora_B.weight")).unwrap();
        tensors.insert(format!("{Q}.lora_C.weight"), tensor);
    });
    expect(&odd, &["lora_C", "unknown tensor"]);
    // Experts on a model without; biases where the model has none.
    expect(&refusal(&llama, &adapter("mixtral/parameters")), &["mlp.experts"]);
    expect(&refusal(&llama, &adapter("qwen2/bias")), &["bias", "the model has none"]);
}

#[test]
fn keys_that_change_the_result_are_refused_by_name() {
    let llama = model("llama");
    for (key, value) in [
        ("peft_type", json!("LOHA")),
        ("lora_bias", json!(true)),
        ("trainable_token_indices", json!([1, 2])),
        ("alora_invocation_tokens", json!([5])),
        ("layer_replication", json!([[0, 2], [1, 3]])),
        ("init_lora_weights", json!("pissa_niter_16")),
        ("init_lora_weights", json!("olora")),
        ("init_lora_weights", json!("someday")),
        ("use_qalora", json!(true)),
        ("arrow_config", json!({ "top_k": 3 })),
        ("bias", json!("some")),
        ("r", json!(0)),
        ("r", json!("four")),
        ("rank_pattern", json!({ "(": 4 })),
        ("invented_later", json!(0.5)),
    ] {
        let folder = changed("llama/adapters/a0", &|_, config| config[key] = value.clone());
        let said = refusal(&llama, folder.path());
        expect(&said, &["adapter_config.json", &format!("key \"{key}\"")]);
    }
    // What says nothing is no reason to refuse.
    let folder = changed("llama/adapters/a0", &|_, config| {
        config["invented_later"] = json!(null);
        config["init_lora_weights"] = json!("gaussian");
    });
    assert!(llama.load_adapter("fine", folder.path()).is_ok());
}

#[test]
fn files_that_are_no_adapters_are_refused() {
    let llama = model("llama");
    let base = fixtures().join("base/llama/model-f32.gguf");
    expect(&refusal(&llama, &base), &["model-f32.gguf", "a model, not an adapter"]);
    expect(&refusal(&llama, Path::new("no/such/adapter")), &["no/such/adapter"]);
    let phi3 = adapter("phi3/gguf/a1.gguf");
    expect(&refusal(&llama, &phi3), &["a1.gguf", "architecture \"phi3\""]);
    let empty = tempfile::tempdir().unwrap();
    expect(&refusal(&llama, empty.path()), &["adapter_config.json"]);
    std::fs::copy(adapter("llama/adapters/a0/adapter_config.json"), empty.path().join("adapter_config.json"))
        .unwrap();
    expect(&refusal(&llama, empty.path()), &["adapter_model.safetensors"]);
    std::fs::write(empty.path().join("adapter_model.bin"), "pickle").unwrap();
    expect(&refusal(&llama, empty.path()), &["pickle"]);
    let bytes = std::fs::read(adapter("llama/adapters/a0/adapter_model.safetensors")).unwrap();
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(empty.path().join("adapter_model.safetensors"), &bytes[..length]).unwrap();
        expect(&refusal(&llama, empty.path()), &["adapter_model.safetensors"]);
    }
}

/// Bytes of headers changed at random: read or refused, never a panic.
#[test]
fn mutated_adapters_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = SplitMix64::new(7);
    let mut random = |below: usize| numbers.below(below);
    let mut refused = 0;
    for from in [
        "llama/gguf/a0.gguf",
        "llama/adapters/a0/adapter_model.safetensors",
        "llama/adapters/a0/adapter_config.json",
    ] {
        let bytes = std::fs::read(adapter(from)).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            std::fs::copy(adapter("llama/adapters/a0").join(file), folder.path().join(file)).unwrap();
        }
        let path = folder.path().join(Path::new(from).file_name().unwrap());
        for _ in 0..700 {
            let mut broken = bytes.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len().min(4096));
                broken[at] = random(256) as u8;
            }
            std::fs::write(&path, &broken).unwrap();
            refused += usize::from(AdapterFile::open(&path).is_err());
        }
    }
    assert!(refused > 500, "only {refused} of 2100 were refused");
}

#[test]
fn adapters_that_cannot_act_together_are_named() {
    let llama = model("llama");
    llama.load_adapter("whole", adapter("llama/whole")).unwrap();
    llama.load_adapter("embed", adapter("llama/embed")).unwrap();
    let said = llama.adapter_set(&[("whole", 1.0), ("embed", 1.0)]).unwrap_err().to_string();
    expect(&said, &["\"whole\"", "\"embed\"", "cannot be combined"]);
    let said = llama.adapter_set(&[("missing", 1.0)]).unwrap_err().to_string();
    expect(&said, &["\"missing\"", "embed, whole"]);
    let qwen2 = model("qwen2");
    qwen2.load_adapter("bias", adapter("qwen2/bias")).unwrap();
    qwen2.load_adapter("dora", adapter("qwen2/dora")).unwrap();
    let said = qwen2.adapter_set(&[("dora", 1.0), ("bias", 1.0)]).unwrap_err().to_string();
    expect(&said, &["biases", "\"dora\""]);
}
