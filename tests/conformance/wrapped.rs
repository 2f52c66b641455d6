//! Classes around a text model and towers for images or sound: their text part gives the reference's logits, under the names of
//! transformers 5 and of the hub, whatever the towers hold.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{Arithmetic, KvType};
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie::registry::Environment;
use menagerie::spec::wrapping_classes;
use menagerie_conformance::suite::{hf_folder, zoo};
use menagerie_conformance::{Reference, distance, fixtures, options, rows};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

const END: &str = "ForConditionalGeneration";

/// Classes without their end, and fixtures of a text model that they are published around, or may be.
const WRAPPED: &[(&str, &str)] = &[
    ("AudioFlamingo3", "base/qwen2"),
    ("AyaVision", "zoo/cohere2"),
    ("Cohere2Vision", "zoo/cohere2"),
    ("DeepseekVL", "base/llama"),
    ("DeepseekVLHybrid", "base/llama"),
    ("FastVlm", "base/qwen2"),
    ("FunAsrNano", "base/qwen3"),
    ("Gemma4", "zoo/gemma4-full"),
    ("GlmAsr", "base/llama"),
    ("GotOcr2", "base/qwen2"),
    ("GraniteSpeech", "zoo/granite"),
    ("GraniteSpeechPlus", "zoo/granite"),
    ("Idefics2", "zoo/llama-window"),
    ("Idefics3", "base/llama"),
    ("InternVL", "base/qwen2"),
    ("InternVL", "base/qwen3"),
    ("InternVL", "base/qwen3moe"),
    ("InternVL", "zoo/gpt-oss"),
    ("Janus", "base/llama"),
    ("Kimi_K25", "zoo/deepseek2-v3"),
    ("Lfm2Vl", "zoo/lfm2"),
    ("LightOnOcr", "base/qwen3"),
    ("Llava", "base/llama"),
    ("LlavaNext", "zoo/llama-window"),
    ("LlavaNextVideo", "base/llama"),
    ("LlavaOnevision", "base/qwen2"),
    ("MiniCPMOcr", "zoo/qwen35"),
    ("MiniCPMV4_6", "zoo/qwen35"),
    ("MiniCPMV4_7", "zoo/qwen35"),
    ("Mistral3", "base/mistral3"),
    ("Mistral3", "zoo/llama-window"),
    ("Mistral3", "zoo/mistral4"),
    ("MossTranscribeDiarize", "base/qwen3"),
    ("MusicFlamingo", "base/qwen2"),
    ("Ovis2", "base/qwen2"),
    ("PerceptionLM", "base/llama"),
    ("QianfanOCR", "base/qwen3"),
    ("Qwen2Audio", "base/qwen2"),
    ("Qwen3ASR", "base/qwen3"),
    ("Qwen3_5", "zoo/qwen35"),
    ("Qwen3_5Moe", "zoo/qwen35moe"),
    ("SmolVLM", "base/llama"),
    ("VibeVoiceAsr", "base/qwen2"),
    ("VideoLlama3", "base/qwen2"),
    ("VideoLlava", "base/llama"),
    ("VipLlava", "base/llama"),
    ("Voxtral", "base/llama"),
];

/// How a folder names its tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Names {
    /// As modules are called in transformers 5.
    Modules,
    /// As transformers 4 wrote them.
    Hub,
}

/// The folder of a fixture's text model by itself.
fn text_folder(fixture: &str) -> TempDir {
    let folder = fixtures().join(fixture);
    if hf_folder::has_hf(&folder) {
        return hf_folder::make(&folder, &zoo::model_file(&folder), &folder.join("hf/config.json"));
    }
    let copy = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(folder.join("hf").join(name), copy.path().join(name)).unwrap();
    }
    copy
}

/// What a tensor of the text model is called in a class around it.
fn renamed(name: &str, class: &str, names: Names) -> String {
    // These call their text model so.
    let inner =
        if ["Idefics2", "Idefics3", "SmolVLM"].contains(&class) { "text_model" } else { "language_model" };
    match (name.strip_prefix("model."), names) {
        (None, Names::Modules) => name.to_owned(),
        (Some(rest), Names::Modules) => format!("model.{inner}.{rest}"),
        _ if inner == "text_model" => renamed(name, class, Names::Modules),
        (_, Names::Hub) => format!("language_model.{name}"),
    }
}

/// The folder of a class around the text model of a fixture, with towers.
fn wrapped(class: &str, fixture: &str, names: Names) -> TempDir {
    let folder = text_folder(fixture);
    let bytes = std::fs::read(folder.path().join("model.safetensors")).unwrap();
    let tower = [0; 16];
    let of_tower = || TensorView::new(Dtype::F32, vec![2, 2], &tower).unwrap();
    let towers: &[&str] = match names {
        Names::Modules => {
            &["model.vision_tower.layers.0.fc.weight", "model.multi_modal_projector.linear_1.weight"]
        }
        Names::Hub => &["vision_tower.layers.0.fc.weight", "multi_modal_projector.linear_1.weight"],
    };
    let text = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<(String, TensorView)> =
        text.tensors().into_iter().map(|(name, view)| (renamed(&name, class, names), view)).collect();
    tensors.extend(towers.iter().map(|name| ((*name).to_owned(), of_tower())));
    serialize_to_file(tensors, None, &folder.path().join("model.safetensors")).unwrap();
    let mut config: Value = read(&folder.path().join("config.json"));
    let text = config.as_object_mut().unwrap();
    text.remove("architectures");
    let tied = text.get("tie_word_embeddings").cloned();
    let whole = json!({
        "architectures": [format!("{class}{END}")],
        "image_token_id": 7,
        "tie_word_embeddings": tied,
        "vision_config": { "hidden_size": 2, "model_type": "pixtral" },
        "text_config": config,
    });
    write(folder.path(), &whole);
    folder
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn write(folder: &Path, config: &Value) {
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

fn load() -> LoadOptions {
    options(Arithmetic::Exact).with_kv_type(KvType::F32)
}

#[test]
fn the_text_part_of_every_class_gives_the_references_logits() {
    let mut faults = Vec::new();
    for (class, fixture) in WRAPPED {
        let reference = Reference::open(&fixtures().join(fixture).join("reference.safetensors"));
        for names in [Names::Modules, Names::Hub] {
            let folder = wrapped(class, fixture, names);
            let what = format!("{class}{END} over {fixture}, {names:?}");
            let pipeline = match ModelBuilder::new(folder.path()).with_options(&load()).open_text() {
                Ok(pipeline) => pipeline,
                Err(error) => {
                    let error = error.to_string();
                    faults.push(format!("{what}: {}", error.lines().next().unwrap_or_default()));
                    continue;
                }
            };
            let how = LogitsOptions::default();
            let found = rows(&pipeline, &reference.ids("tokens_prompt"), &how);
            let off = distance(&found, &reference.values("logits_prompt"));
            if off.is_nan() || off > zoo::TOLERANCE {
                faults.push(format!("{what}: {off:e}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every class of transformers 5.23 of that name (its modeling_auto.py) runs or is refused with a reason, and every one that runs
/// is tried above.
#[test]
fn no_class_of_transformers_is_missing() {
    let environment = Environment::linked().unwrap();
    let all = std::fs::read_to_string(fixtures().join("conditional-generation.txt")).unwrap();
    let wrapping: BTreeSet<&str> = wrapping_classes().collect();
    let missing: Vec<&str> = all
        .lines()
        .filter(|class| !wrapping.contains(class) && environment.of_class(class).is_err())
        .collect();
    assert!(missing.is_empty() && all.lines().count() > 130, "{missing:?}");
    let tried: BTreeSet<String> = WRAPPED.iter().map(|(class, _)| format!("{class}{END}")).collect();
    let untried: Vec<&&str> =
        wrapping.iter().filter(|class| !tried.contains(**class) && refusal(class).is_none()).collect();
    assert!(untried.is_empty(), "{untried:?}");
}

/// Why a class is refused, if it is.
fn refusal(class: &str) -> Option<String> {
    let text = json!({ "architectures": [class], "text_config": { "model_type": "llama" } }).to_string();
    let config = menagerie::spec::HfConfig::parse("config.json", &text).unwrap();
    config.text_class().err().map(|error| error.to_string())
}

#[test]
fn what_is_wrong_with_a_class_is_said() {
    let folder = wrapped("Llava", "base/llama", Names::Hub);
    let whole = read(&folder.path().join("config.json"));
    let said = |change: &dyn Fn(&mut Value)| {
        let mut config = whole.clone();
        change(&mut config);
        write(folder.path(), &config);
        ModelBuilder::new(folder.path()).with_options(&load()).open_text().err().unwrap().to_string()
    };
    let class = |name: &str| {
        let name = name.to_owned();
        said(&move |config| config["architectures"] = json!([name]))
    };
    let none = said(&|config| drop(config.as_object_mut().unwrap().remove("text_config")));
    assert!(none.contains("config.json: text_config") && none.contains("missing"), "{none}");
    let no_table = said(&|config| config["text_config"] = json!([1]));
    assert!(no_table.contains("text_config.model_type"), "{no_table}");
    let untold = said(&|config| drop(config["text_config"].as_object_mut().unwrap().remove("model_type")));
    assert!(untold.contains("text_config.model_type") && untold.contains("missing"), "{untold}");
    let other = said(&|config| config["text_config"]["model_type"] = json!("lama"));
    assert!(other.contains("\"lama\": no architecture here") && other.contains("`llama`"), "{other}");
    let refused = class("PaliGemmaForConditionalGeneration");
    assert!(refused.contains("looks at the whole prompt in both directions"), "{refused}");
    let misspelt = class("LlavaNextForConditionalGenerations");
    assert!(misspelt.contains("LlavaNextForConditionalGeneration"), "{misspelt}");
    // A part that nobody knows is not left out unseen.
    let bytes = std::fs::read(folder.path().join("model.safetensors")).unwrap();
    let text = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = text.tensors();
    tensors
        .push(("memory_tower.weight".to_owned(), text.tensor("language_model.model.norm.weight").unwrap()));
    serialize_to_file(tensors, None, &folder.path().join("model.safetensors")).unwrap();
    let unknown = said(&|_| {});
    assert!(
        unknown.contains("memory_tower.weight") && unknown.contains("no component of the model uses it"),
        "{unknown}"
    );
}
