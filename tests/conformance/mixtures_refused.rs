//! Mixtures that cannot be: each is refused with its file, and what is wrong there.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::Arithmetic;
use menagerie::gguf::{GgufFile, GgufWriter, OpenOptions};
use menagerie::open::{
    AdapterOption, ExpertOption, GateFile, GateOption, LayerGate, LoadOptions, MixtureOption, ModelBuilder,
};
use menagerie::spec::{AdapterKind, MixtureChoice};
use menagerie_conformance::{fixtures, options, with_keys};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    fixtures().join(name).canonicalize().unwrap()
}

fn base() -> PathBuf {
    fixture("mixture/llama/base.gguf")
}

/// A recipe with these lines in `[mixture]`.
fn recipe(home: &Path, base: &Path, mixture: &str) -> PathBuf {
    let path = home.join("mine.recipe.toml");
    let base = base.display().to_string();
    let text = format!("schema = 1\n[recipe]\nbase = {base:?}\n[mixture]\n{mixture}\n");
    std::fs::write(&path, text).unwrap();
    path
}

fn refused(path: &Path, options: &LoadOptions, words: &[&str]) {
    let error = match ModelBuilder::new(path).with_options(options).open_text() {
        Ok(_) => panic!("{words:?}: it was opened"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

/// A mixture of a model with others that always takes the first.
fn mixed(experts: Vec<ExpertOption>, layers: Option<Vec<usize>>) -> LoadOptions {
    let mixture =
        MixtureOption { layers, experts, gate: GateOption::Always(0), choose: MixtureChoice::Prompt };
    options(Arithmetic::Fast).with_mixture(mixture)
}

fn of_model(path: PathBuf) -> LoadOptions {
    mixed(vec![ExpertOption::Model(path)], None)
}

/// Gates of layers 0 and 2, good but for what is changed.
fn gate(home: &Path, change: &dyn Fn(&mut GateFile)) -> PathBuf {
    let one = LayerGate { weight: vec![0.5; 2 * 32], bias: vec![0.0; 2] };
    let mut file = GateFile { layers: BTreeMap::from([(0, one.clone()), (2, one)]) };
    change(&mut file);
    let path = home.join("gate.safetensors");
    std::fs::write(&path, file.to_bytes()).unwrap();
    path
}

#[test]
fn gates_that_do_not_fit_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let lines = format!(
        "layers = [0, 2]\ngate = \"gate.safetensors\"\nexperts = [{{ from = {:?} }}]",
        fixture("mixture/llama/tuned-b.gguf").display().to_string()
    );
    let path = recipe(home.path(), &base(), &lines);
    let plain = options(Arithmetic::Fast);
    refused(&path, &plain, &["gate.safetensors", "there is no gate", "train-gate RECIPE DATA"]);
    gate(home.path(), &|_| ());
    ModelBuilder::new(&path).with_options(&plain).open_text().unwrap_or_else(|error| panic!("{error}"));
    let fails = |change: &dyn Fn(&mut GateFile), words: &[&str]| {
        gate(home.path(), change);
        refused(&path, &plain, &[&["gate.safetensors"], words].concat());
    };
    fails(
        &|file| drop(file.layers.insert(2, LayerGate { weight: vec![0.5; 2 * 16], bias: vec![0.0; 2] })),
        &["layer 2 is [2, 16]", "want [2, 32]"],
    );
    fails(
        &|file| drop(file.layers.insert(0, LayerGate { weight: vec![0.5; 3 * 32], bias: vec![0.0; 3] })),
        &["layer 0 is [3, 32]", "2 experts"],
    );
    fails(&|file| drop(file.layers.remove(&2)), &["no gate for layer 2", "layers 0, 2"]);
    fails(
        &|file| drop(file.layers.insert(1, file.layers[&0].clone())),
        &["a gate for layer 1", "layers 0, 2"],
    );
    fails(&|file| file.layers.get_mut(&2).unwrap().weight[5] = f32::NAN, &["moe_gate.2.weight", "NaN"]);
    fails(&|file| file.layers.get_mut(&0).unwrap().bias[1] = f32::INFINITY, &["moe_gate.0.bias", "inf"]);
    std::fs::copy(fixture("mixture/llama/base/model.safetensors"), home.path().join("gate.safetensors"))
        .unwrap();
    refused(&path, &plain, &["is no part of a gate", "moe_gate.LAYER.weight"]);
    std::fs::write(home.path().join("gate.safetensors"), [7; 40]).unwrap();
    refused(&path, &plain, &["gate.safetensors"]);
}

#[test]
fn parts_of_other_models_are_refused() {
    let home = tempfile::tempdir().unwrap();
    refused(
        &base(),
        &of_model(fixture("base/qwen2/model-f32.gguf")),
        &["model-f32.gguf", "architecture is qwen2", "llama"],
    );
    refused(&base(), &of_model(fixture("base/llama/model-f32.gguf")), &["width is 64", "is 32"]);
    refused(&base(), &of_model(home.path().join("none.gguf")), &["none.gguf"]);
    refused(&base(), &of_model(fixture("mixture/llama/adapter-x")), &["adapter-x"]);
    // A vocabulary of one token more, the same feed-forwards.
    let other = fixture("mixture/llama/tuned-b.gguf");
    let larger = home.path().join("larger.gguf");
    larger_vocabulary(&other, &larger);
    refused(&base(), &of_model(larger), &["larger.gguf", "vocabulary is 265", "is 264"]);
    let lacking = home.path().join("lacking.gguf");
    with_keys(&other, &lacking, &["blk.1.ffn_down.weight"], &[]);
    refused(&base(), &of_model(lacking), &["lacking.gguf", "layer 1", "blk.1.ffn_down.weight", "missing"]);
}

/// A copy whose embedding and head have a row more.
fn larger_vocabulary(from: &Path, to: &Path) {
    let file = GgufFile::open(from, &OpenOptions::default()).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in file.metadata().iter() {
        writer.metadata(key, value).unwrap();
    }
    for tensor in file.tensors() {
        let (mut dims, mut data) = (tensor.dims().to_vec(), file.data(tensor).unwrap().to_vec());
        if dims.get(1) == Some(&264) {
            dims[1] += 1;
            data.extend(vec![0; data.len() / 264]);
        }
        writer.tensor(tensor.name(), &dims, tensor.kind(), data).unwrap();
    }
    writer.write(to).unwrap();
}

#[test]
fn layers_that_cannot_be_mixtures_are_refused() {
    let moe = fixture("base/mixtral/model-f32.gguf");
    refused(&moe, &of_model(moe.clone()), &["mixtral", "layers 0-2", "mixture of experts already"]);
    let other = fixture("mixture/llama/tuned-b.gguf");
    let past = mixed(vec![ExpertOption::Model(other)], Some(vec![1, 3]));
    refused(&base(), &past, &["base.gguf", "no layer 3", "0 to 2"]);
}

#[test]
fn recipes_that_contain_themselves_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let plain = options(Arithmetic::Fast);
    gate(home.path(), &|_| ());
    let itself = "gate = \"gate.safetensors\"\nexperts = [{ from = \"mine.recipe.toml\" }]";
    let path = recipe(home.path(), &base(), itself);
    let gates = |file: &mut GateFile| drop(file.layers.insert(1, file.layers[&0].clone()));
    gate(home.path(), &gates);
    refused(&path, &plain, &["mine.recipe.toml", "it is a recipe"]);
    let over = home.path().join("over.recipe.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(&base().display().to_string(), "mine.recipe.toml");
    std::fs::write(&over, text).unwrap();
    refused(&over, &plain, &["over over mine", "a mixture over a mixture"]);
    recipe(home.path(), &base(), "gate = \"gate.safetensors\"\nexperts = [{ from = \"./none.gguf\" }]");
    refused(&path, &plain, &["mixture.experts: there is no", "none.gguf"]);
}

#[test]
fn adapters_that_do_more_than_an_expert_are_refused() {
    let adapter = |name: &str, modules: Option<&[&str]>| {
        let modules = modules.map(|names| names.iter().map(ToString::to_string).collect());
        mixed(
            vec![ExpertOption::Adapter { path: fixture("mixture/llama").join(name), modules }],
            Some(vec![1]),
        )
    };
    // It has attention too, and feed-forwards of other layers.
    refused(
        &base(),
        &adapter("adapter-y", None),
        &["adapter-y", "layers.0.mlp.gate_proj", "modules = [\"gate_proj\"]"],
    );
    refused(
        &base(),
        &adapter("adapter-x", None),
        &["adapter-x", "layers.0.mlp", "[\"down_proj\", \"gate_proj\", \"up_proj\"]"],
    );
    refused(
        &base(),
        &adapter("adapter-y", Some(&["gate_prjo"])),
        &["no module \"gate_prjo\"", "the nearest is `gate_proj`"],
    );
    refused(&base(), &adapter("adapter-y", Some(&["q_proj"])), &["adapter-y", "none of its modules q_proj"]);
    assert!(
        ModelBuilder::new(base())
            .with_options(&adapter("adapter-y", Some(&["gate_proj"])))
            .open_text()
            .is_ok()
    );
}

#[test]
fn an_x_lora_and_a_mixture_do_not_go_together() {
    let path = fixture("lora/llama/xlora/depth1_softmax");
    let xlora = AdapterOption { kind: AdapterKind::XLora, path, weight: 1.0 };
    let given = of_model(fixture("base/llama/model-f32.gguf"));
    let both = given.with_adapters(vec![xlora]);
    refused(&fixture("base/llama/model-f32.gguf"), &both, &["X-LoRA", "[mixture]"]);
}
