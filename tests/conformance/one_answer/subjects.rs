//! What is computed in every way: models, models with adapters, and mixtures.

use menagerie::open::AdapterOption;
use menagerie::spec::AdapterKind;
use menagerie_conformance::fixtures;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Of the zoo: recurrences of four kinds, windows, latent attention, keys of another layer, sinks with experts, slopes
/// instead of rope, short convolutions.
pub(crate) const ZOO: [&str; 10] = [
    "mamba2",
    "qwen3next",
    "kimi-linear",
    "falcon-h1",
    "gemma3",
    "deepseek2-v3",
    "gemma4-kv",
    "gpt-oss",
    "bloom",
    "lfm2",
];

/// Adapters by base: sets of LoRA, DoRA, experts' as modules and as parameters, a delta net's.
const ADAPTED: [(&str, &[(&str, f32)]); 6] = [
    ("base/llama", &[("adapters/a0", 0.7), ("adapters/a1", 0.4)]),
    ("base/phi3", &[("dora", 1.0)]),
    ("base/mixtral", &[("modules", 1.0)]),
    ("base/mixtral", &[("parameters", 1.0)]),
    ("zoo/gpt-oss", &[("experts", 1.0)]),
    ("zoo/qwen3next", &[("delta", 1.0)]),
];

/// X-LoRA: the classifier's weights of every adapter, of some, without a softmax, and the same in all layers.
const MIXED: [(&str, &str); 5] = [
    ("llama", "depth2_softmax"),
    ("llama", "depth2_topk2_softmaxtopk"),
    ("llama", "depth1_nosoftmax"),
    ("llama", "depth3_flat_temp"),
    ("phi3", "depth2_passvalue"),
];

/// Mixtures of feed-forwards: of tuned models, and of adapters.
const MIXTURES: [(&str, &str); 3] = [("llama", "dense"), ("llama", "adapters"), ("phi2", "both")];

/// What a token's logits depend on besides the tokens before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depends {
    /// Nothing.
    Nothing,
    /// On where the prompt ends: it chooses its experts as one.
    Prompt,
}

/// Something that is computed in every way.
pub(crate) struct Subject {
    /// As the table of hashes names it.
    pub name: String,
    /// The model's file, or a recipe.
    pub path: PathBuf,
    /// What it is opened with.
    pub adapters: Vec<AdapterOption>,
    /// What a token's logits depend on.
    pub depends: Depends,
    /// Where its recipe is.
    _home: Option<TempDir>,
}

impl Subject {
    fn new(name: String, path: PathBuf) -> Self {
        Self { name, path, adapters: Vec::new(), depends: Depends::Nothing, _home: None }
    }
}

/// The file of a model with a base's name.
fn model(base: &str) -> PathBuf {
    let file = if base.starts_with("zoo/") { "model-f16.gguf" } else { "model-f32.gguf" };
    fixtures().join(base).join(file)
}

fn models(folder: &str) -> Vec<Subject> {
    let entries = std::fs::read_dir(fixtures().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut models: Vec<Subject> = entries
        .filter_map(|path| {
            let stem = path.file_stem()?.to_str()?;
            let name = format!("{folder}/{stem}");
            match folder {
                "zoo" if !ZOO.contains(&stem) => None,
                _ if path.is_dir() => Some(Subject::new(name.clone(), model(&name))),
                _ => (path.extension()? == "gguf").then(|| Subject::new(name, path)),
            }
        })
        .collect();
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models
}

fn adapted() -> Vec<Subject> {
    let plain = ADAPTED.iter().map(|(base, members)| {
        let folder = fixtures().join("lora").join(base.rsplit('/').next().unwrap());
        let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
        let given = |(name, weight): &(&str, f32)| AdapterOption {
            kind: AdapterKind::Lora,
            path: folder.join(name),
            weight: *weight,
        };
        let adapters = members.iter().map(given).collect();
        let name = format!("adapted/{base} + {}", names.join(" + "));
        Subject { adapters, ..Subject::new(name, model(base)) }
    });
    let mixed = MIXED.iter().map(|(base, variant)| {
        let path = fixtures().join("lora").join(base).join("xlora").join(variant);
        let adapters = vec![AdapterOption { kind: AdapterKind::XLora, path, weight: 1.0 }];
        let name = format!("adapted/base/{base} + xlora/{variant}");
        Subject { adapters, ..Subject::new(name, model(&format!("base/{base}"))) }
    });
    plain.chain(mixed).collect()
}

/// The lines of a recipe that say what the experts of a mixture are.
fn experts(folder: &Path, case: &str) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let dense = |name: &str| format!("{{ from = {:?} }}", at(name));
    let adapter = |name: &str| format!("{{ adapter = {:?} }}", at(name));
    match case {
        "dense" => format!("layers = [0, 2]\nexperts = [{}, {}]", dense("tuned-a"), dense("tuned-b.gguf")),
        "adapters" => {
            let part = format!("{{ adapter = {:?}, modules = [\"gate_proj\"] }}", at("adapter-y"));
            format!("experts = [{}, {part}]", adapter("adapter-x.gguf"))
        }
        _ => format!("experts = [{}, {}]", dense("tuned-b.gguf"), adapter("adapter-x")),
    }
}

fn mixtures() -> Vec<Subject> {
    let of = |(base, case): &(&str, &str), choose: &str| {
        let (home, folder) = (tempfile::tempdir().unwrap(), fixtures().join("mixture").join(base));
        let folder = folder.canonicalize().unwrap();
        let path = home.path().join("mixture.recipe.toml");
        let text = format!(
            "schema = 1\n[recipe]\nbase = {:?}\n[mixture]\ngate = {:?}\nchoose = \"{choose}\"\n{}\n",
            folder.join("base.gguf").display().to_string(),
            folder.join(format!("{case}.safetensors")).display().to_string(),
            experts(&folder, case)
        );
        std::fs::write(&path, text).unwrap();
        let depends = if choose == "prompt" { Depends::Prompt } else { Depends::Nothing };
        let name = format!("mixture/{base} {case}, each {choose}");
        Subject { depends, _home: Some(home), ..Subject::new(name, path) }
    };
    let each = |case| ["token", "prompt"].map(|choose| of(case, choose));
    MIXTURES.iter().flat_map(each).collect()
}

/// What the table has under a name.
pub(crate) fn subjects(of: &str) -> Vec<Subject> {
    match of {
        "adapted" => adapted(),
        "mixture" => mixtures(),
        folder => models(folder),
    }
}
