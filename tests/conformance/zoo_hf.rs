//! Every fixture that has an HF class, from its HF directory: within the zoo's tolerance of HF's own logits, in everything that the
//! GGUF is held to, and of the GGUF's logits.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::Arithmetic;
use menagerie_conformance::options;
use menagerie_conformance::suite::zoo::{ENCODERS, Entry, Opened, TOLERANCE, entries, model_file};
use menagerie_conformance::suite::{encoders, hf_folder};
use std::path::Path;

/// Fixtures without an HF directory, by reason.
const WITHOUT: &[(&str, &str)] = &[
    (
        "transformers 5.23 has no class of them: their code is on the hub, and the numbers are llama.cpp's",
        "arctic baichuan-13b bailingmoe bailingmoe2 bailingmoe2-groups cogvlm deci deci-linear deepseek2-ocr dream \
         exaone grok grok-2 jais jina-bert-v2 jina-bert-v2-code llada llada-moe maple minicpm4 \
         nanbeige-skip nomic-bert-moe openelm plamo plamo2 plamo3 qwen refact rnd1 smallthinker \
         smallthinker-full spark2_5 step35 talkie",
    ),
    (
        "sentence-transformers' linears behind the mean are read from folders of their own, which is not written",
        "gemma-embedding-dense",
    ),
    (
        "scales beside matrices are of GGUF files; of HF's the matrices are multiplied with them",
        "bitnet-scaled",
    ),
    (
        "the numbers are EuroBERT's in NeoBERT's layout; its own code, on the hub, may order rows otherwise",
        "neo-bert",
    ),
    (
        "the converter keeps two rows of the head; an HF directory has it whole and names them nowhere",
        "qwen3-rank",
    ),
];

fn with_hf() -> Vec<Entry> {
    entries().into_iter().filter(|entry| hf_folder::has_hf(&entry.folder())).collect()
}

#[test]
fn every_fixture_has_an_hf_directory_or_a_reason() {
    let mut without: Vec<String> = entries()
        .into_iter()
        .filter(|entry| !hf_folder::has_hf(&entry.folder()))
        .map(|entry| entry.name)
        .collect();
    let mut excused: Vec<&str> = WITHOUT.iter().flat_map(|(_, names)| names.split_whitespace()).collect();
    without.sort();
    excused.sort_unstable();
    assert_eq!(without, excused);
}

/// What is compared and differs too much, line by line.
fn far(name: &str, distances: impl IntoIterator<Item = (String, f32)>) -> Vec<String> {
    let far = distances.into_iter().filter(|(_, found)| found.is_nan() || *found > TOLERANCE);
    far.map(|(what, found)| format!("{name}, {what}: differs by {found:e}")).collect()
}

fn decoder(entry: &Entry, path: &Path) -> Result<Vec<String>, String> {
    let same = |text: &str| text.to_owned();
    let opened = Opened::at(entry, path, &same, options(Arithmetic::Fast))?;
    let gguf = Opened::new(entry, &same, options(Arithmetic::Fast))?;
    let mut distances: Vec<(String, f32)> =
        opened.distances().into_iter().map(|(what, found)| (what.to_owned(), found)).collect();
    distances.push(("prompt, against the GGUF".to_owned(), opened.from(&gguf)));
    Ok(far(&entry.name, distances))
}

fn encoder(entry: &Entry, path: &Path) -> Result<Vec<String>, String> {
    let opened = encoders::Opened::at(entry, path, &str::to_owned, options(Arithmetic::Fast))?;
    let distances = opened.distances();
    assert!(distances.len() >= 8, "{} compares too little", entry.name);
    Ok(far(&entry.name, distances))
}

/// What is asked of a directory: faults, or why it is refused.
type Check = dyn Fn(&Entry, &Path) -> Result<Vec<String>, String>;

/// Runs `check` over the HF directory of every fixture, with the config that `config` names.
fn every_directory(config: &dyn Fn(&Path) -> Option<std::path::PathBuf>, check: &Check) {
    let mut faults = Vec::new();
    for entry in &with_hf() {
        let folder = entry.folder();
        let Some(config) = config(&folder) else { continue };
        let made = hf_folder::make(&folder, &model_file(&folder), &config);
        // A directory that is not understood must be refused, by what the fixture says of it.
        let refused = std::fs::read_to_string(folder.join("hf/refused.txt")).ok();
        match (check(entry, made.path()), refused) {
            (Err(error), Some(reason)) if error.contains(reason.trim()) => {}
            (Ok(_), Some(_)) => faults.push(format!("{}: is not refused", entry.name)),
            (Err(error), _) => faults.push(format!("{}: {error}", entry.name)),
            (Ok(found), None) => faults.extend(found),
        }
    }
    assert!(faults.is_empty(), "at most {TOLERANCE:e} is allowed:\n{}", faults.join("\n"));
}

fn any(entry: &Entry, path: &Path) -> Result<Vec<String>, String> {
    if ENCODERS.contains(&entry.name.as_str()) { encoder(entry, path) } else { decoder(entry, path) }
}

#[test]
fn every_fixture_agrees_from_its_hf_directory() {
    every_directory(&|folder| Some(folder.join("hf/config.json")), &any);
}

/// The same config as the hub has it (`rope_theta`, `rope_scaling`, `torch_dtype`): the prompt is enough to see it read otherwise.
#[test]
fn the_config_of_the_hub_says_the_same() {
    every_directory(&|folder| hf_folder::hub_config(folder), &|entry, path| {
        if ENCODERS.contains(&entry.name.as_str()) {
            return encoder(entry, path);
        }
        let opened = Opened::at(entry, path, &str::to_owned, options(Arithmetic::Fast))?;
        Ok(far(&entry.name, [("prompt, config of the hub".to_owned(), opened.prompt(512, None))]))
    });
}

/// `RobertaModel` and `XLMRobertaModel` are the encoder of a reranker without its head: the same hidden rows.
#[test]
fn encoders_of_roberta_without_a_head_agree() {
    let entry = with_hf().into_iter().find(|entry| entry.name == "xlm-roberta-rank").unwrap();
    let folder = entry.folder();
    let made = hf_folder::make(&folder, &model_file(&folder), &folder.join("hf/config.json"));
    let weights = made.path().join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors();
    let encoder = |prefix: &str| {
        let own = tensors.iter().filter_map(|(name, view)| Some((name.strip_prefix("roberta.")?, view)));
        own.map(|(name, view)| (format!("{prefix}{name}"), view.clone())).collect::<Vec<_>>()
    };
    let config = std::fs::read_to_string(made.path().join("config.json")).unwrap();
    for (class, prefix) in [
        ("RobertaModel", ""),
        ("XLMRobertaModel", ""),
        ("RobertaForMaskedLM", "roberta."),
        ("XLMRobertaForMaskedLM", "roberta."),
    ] {
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        config["architectures"] = serde_json::json!([class]);
        std::fs::write(made.path().join("config.json"), config.to_string()).unwrap();
        std::fs::write(&weights, safetensors::serialize(encoder(prefix), None).unwrap()).unwrap();
        let found = encoder_alone(&entry, made.path()).unwrap_or_else(|error| panic!("{class}: {error}"));
        assert!(found.is_empty(), "{class}: {}", found.join("\n"));
    }
}

/// What an encoder without a head has: hidden rows and what is pooled of them.
fn encoder_alone(entry: &Entry, path: &Path) -> Result<Vec<String>, String> {
    let opened = encoders::Opened::at(entry, path, &str::to_owned, options(Arithmetic::Fast))?;
    let distances = opened.distances();
    assert!(distances.len() >= 16 && !distances.iter().any(|(what, _)| what.starts_with("scores")));
    Ok(far(&entry.name, distances))
}
