//! `--lora` and `merge`, and adapters as `show`, `check` and `inspect` see them.

use super::{fixture, menagerie};
use gguf_file::{GgufFile, OpenOptions};
use serde_json::Value;
use std::path::Path;

const TOKENS: &str = "1,2,3,4,5,6,7,8,9,10";

fn gguf(name: &str) -> String {
    fixture(&format!("base/{name}/model-f32.gguf")).display().to_string()
}

fn folder(name: &str) -> String {
    fixture(&format!("base/{name}/hf")).display().to_string()
}

fn adapter(name: &str) -> String {
    fixture(&format!("lora/{name}")).display().to_string()
}

/// Logits of a few tokens.
fn logits(home: &Path, model: &str, extra: &[&str]) -> Vec<f32> {
    let base = ["logits", model, "--tokens", TOKENS, "--out", "l.safetensors", "--force", "--exact"];
    menagerie(home, &[&base[..], extra].concat()).good();
    let bytes = std::fs::read(home.join("l.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let logits = file.tensor("logits").unwrap();
    logits.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn with<'a>(arguments: &[&'a str], adapter: &'a str) -> Vec<&'a str> {
    [arguments, &["--lora", adapter]].concat()
}

fn apart(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn json(home: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&menagerie(home, arguments).good()).unwrap()
}

#[test]
fn adapters_act_with_their_weights_and_together() {
    let home = tempfile::tempdir().unwrap();
    let (model, a0, a1) = (gguf("llama"), adapter("llama/adapters/a0"), adapter("llama/adapters/a1"));
    let of = |extra: &[&str]| logits(home.path(), &model, extra);
    let bare = of(&[]);
    let (one, none) = (of(&["--lora", &a0]), of(&["--lora", &format!("{a0}=0")]));
    assert!(apart(&bare, &one) > 0.1);
    assert_eq!(apart(&bare, &none), 0.0, "of weight 0");
    let both = of(&["--lora", &format!("{a0}=0.7"), "--lora", &format!("{a1}=0.4")]);
    assert!(apart(&both, &one) > 0.1);
    // The order is nobody's business, and half twice is once.
    let swapped = of(&["--lora", &format!("{a1}=0.4"), "--lora", &format!("{a0}=0.7")]);
    assert!(apart(&both, &swapped) < 1e-4);
    std::fs::create_dir(home.path().join("again")).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::copy(Path::new(&a0).join(file), home.path().join("again").join(file)).unwrap();
    }
    let halves = of(&["--lora", &format!("{a0}=0.5"), "--lora", "again=0.5"]);
    assert!(apart(&halves, &one) < 1e-4);
    // A GGUF adapter, and the folder that the model was made of.
    let file = adapter("llama/gguf/a0.gguf");
    assert!(apart(&of(&["--lora", &file]), &one) < 1e-4);
    assert!(apart(&logits(home.path(), &folder("llama"), &["--lora", &a0]), &one) < 1e-3);
}

#[test]
fn adapters_are_there_wherever_text_is_made_or_measured() {
    let home = tempfile::tempdir().unwrap();
    let (model, a0) = (gguf("llama"), adapter("llama/adapters/a0"));
    let run = ["run", &model, "hello", "--raw", "-n", "4", "--temp", "0", "--json"];
    let (bare, adapted) = (json(home.path(), &run), json(home.path(), &with(&run, &a0)));
    assert_ne!(bare["text"], adapted["text"], "{bare} {adapted}");
    let text = fixture("perplexity/coriolanus.txt").display().to_string();
    let measure = ["perplexity", &model, "-f", &text, "--ctx-size", "64", "--chunks", "2", "--json"];
    let figure = |arguments: &[&str]| json(home.path(), arguments)["perplexity"].as_f64().unwrap();
    assert!((figure(&measure) / figure(&with(&measure, &a0)) - 1.0).abs() > 1e-3);
    let bench = json(home.path(), &with(&["bench", &model, "--json", "-p", "8", "-n", "2", "-r", "1"], &a0));
    assert!(bench.to_string().contains("a0"), "{bench}");
    assert!(menagerie(home.path(), &with(&["check", &model], &a0)).good().contains("match"));
}

/// What a merged model is quantized with is measured with the adapters in place.
#[test]
fn an_importance_matrix_is_measured_with_adapters() {
    let home = tempfile::tempdir().unwrap();
    let (model, a0) = (gguf("llama"), adapter("llama/adapters/a0"));
    let text = fixture("perplexity/coriolanus.txt").display().to_string();
    let measure = |model: &str, out: &str, extra: &[&str]| {
        let base = ["imatrix", model, "-f", &text, "--ctx-size", "64", "--chunks", "2", "-o", out, "--exact"];
        menagerie(home.path(), &[&base[..], extra].concat()).good();
        let file = GgufFile::open(home.path().join(out), &OpenOptions::default().with_mmap(false)).unwrap();
        let sums = |name: &str| -> Vec<f32> {
            let info = file.tensors().iter().find(|tensor| tensor.name() == name).unwrap();
            let bytes = file.data(info).unwrap();
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
        };
        (file.tensors().len(), sums("blk.0.attn_q.weight.in_sum2"), sums("blk.1.ffn_down.weight.in_sum2"))
    };
    let bare = measure(&model, "bare.gguf", &[]);
    let adapted = measure(&model, "adapted.gguf", &["--lora", &a0]);
    menagerie(home.path(), &["merge", &model, "merged.gguf", "--lora", &a0]).good();
    let merged = measure("merged.gguf", "merged-imatrix.gguf", &[]);
    assert_eq!(bare.0, adapted.0, "the same weights are measured");
    assert_eq!(bare.1, adapted.1, "nothing acts before the first queries");
    let far = |one: &[f32], other: &[f32]| {
        one.iter().zip(other).map(|(a, b)| (a / b - 1.0).abs()).fold(0.0, f32::max)
    };
    assert!(far(&bare.2, &adapted.2) > 0.01, "the adapter acts later");
    assert!(far(&adapted.2, &merged.2) < 1e-3, "as on the merged model");
}

#[test]
fn what_is_no_adapter_of_the_model_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let model = gguf("llama");
    let refused = |path: &str, words: &[&str]| {
        menagerie(home.path(), &["run", &model, "hi", "--raw", "--lora", path]).fails_with(words);
        menagerie(home.path(), &["merge", &model, "out.gguf", "--lora", path]).fails_with(words);
        assert!(!home.path().join("out.gguf").exists());
    };
    refused("absent", &["absent", "there is no such adapter"]);
    std::fs::create_dir(home.path().join("empty")).unwrap();
    refused("empty", &["empty", "adapter_config.json"]);
    refused(&model, &["model-f32.gguf", "a model, not an adapter"]);
    refused(&adapter("phi3/adapters/a0"), &["qkv_proj", "another model"]);
    let call = ["run", &model, "hi", "--raw", "--lora", "a=much"];
    menagerie(home.path(), &call).refused_with(&["`much`", "not a number"]);
    // Another rank than the configuration says.
    let wrong = home.path().join("wrong");
    std::fs::create_dir(&wrong).unwrap();
    let from = fixture("lora/llama/adapters/a0");
    std::fs::copy(from.join("adapter_model.safetensors"), wrong.join("adapter_model.safetensors")).unwrap();
    let config = std::fs::read_to_string(from.join("adapter_config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["r"] = 5.into();
    std::fs::write(wrong.join("adapter_config.json"), config.to_string()).unwrap();
    refused("wrong", &["rank mismatch", "k_proj", "says 5"]);
}

#[test]
fn adapters_are_shown_and_checked() {
    let home = tempfile::tempdir().unwrap();
    for (name, format) in [("llama/adapters/a0", "PEFT"), ("llama/gguf/a0.gguf", "GGUF")] {
        let path = adapter(name);
        for command in ["show", "check"] {
            let shown = menagerie(home.path(), &[command, &path]).good();
            assert!(shown.contains(&format!("{format} adapter")) && shown.contains("rank 4"), "{shown}");
            let listed = json(home.path(), &[command, &path, "--json"]);
            assert_eq!(listed["format"], format);
            assert!(listed["modules"].as_array().is_some_and(|modules| modules.len() >= 8), "{listed}");
        }
        menagerie(home.path(), &["inspect", &path]).good();
    }
    let xlora = adapter("llama/xlora/depth2_softmax");
    assert!(menagerie(home.path(), &["show", &xlora]).good().contains("X-LoRA"));
}

#[test]
fn a_file_is_merged_and_never_over_another_unasked() {
    let home = tempfile::tempdir().unwrap();
    let (model, a0) = (gguf("llama"), adapter("llama/adapters/a0"));
    let merge = |extra: &[&str]| menagerie(home.path(), &[&["merge", &model, "out.gguf"], extra].concat());
    merge(&[]).refused_with(&["no adapter", "--lora"]);
    let said = merge(&["--lora", &a0, "--json"]).good();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["out"], &said["adapters"][0]["weight"]), (&"out.gguf".into(), &1.0.into()));
    assert_eq!(said["tensors"], 12, "{said}");
    let merged = logits(home.path(), "out.gguf", &[]);
    assert!(apart(&merged, &logits(home.path(), &model, &["--lora", &a0])) < 1e-4);
    merge(&["--lora", &a0]).fails_with(&["out.gguf", "exists", "--force replaces"]);
    assert!(merge(&["--lora", &format!("{a0}=2"), "--force"]).good().contains("12 tensors changed"));
    assert!(apart(&merged, &logits(home.path(), "out.gguf", &[])) > 0.1);
    menagerie(home.path(), &["merge", &model, &model, "--lora", &a0, "--force"])
        .fails_with(&["is the input"]);
    let quant = ["--lora", &a0, "--force", "--quant", "q8_0"];
    merge(&quant).refused_with(&["--quant Q8_0", "quantize"]);
}

#[test]
fn a_folder_is_merged_into_a_folder_or_a_file() {
    let home = tempfile::tempdir().unwrap();
    let (model, a0) = (folder("llama"), adapter("llama/adapters/a0"));
    let merge = |out: &str, extra: &[&str]| {
        menagerie(home.path(), &[&["merge", &model, out, "--lora", &a0], extra].concat())
    };
    let beside = logits(home.path(), &model, &["--lora", &a0]);
    assert!(merge("out", &[]).good().contains("out: 12 tensors changed"));
    let mut files: Vec<String> = std::fs::read_dir(home.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut base: Vec<String> = std::fs::read_dir(&model)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    base.sort();
    assert_eq!(files, base);
    let merged = logits(home.path(), "out", &[]);
    // The folder may hold bf16.
    let rounded = apart(&merged, &beside);
    assert!(rounded < 0.1 && apart(&beside, &logits(home.path(), &model, &[])) > 1.0, "{rounded}");
    merge("out.gguf", &[]).good();
    assert!(apart(&logits(home.path(), "out.gguf", &[]), &merged) < 0.1);
    merge("out", &[]).fails_with(&["out", "exists", "--force replaces"]);
    merge("out", &["--force"]).good();
    assert_eq!(logits(home.path(), "out", &[]), merged);
    std::fs::create_dir(home.path().join("mine")).unwrap();
    std::fs::write(home.path().join("mine/letter.txt"), "dear").unwrap();
    merge("mine", &["--force"]).fails_with(&["no folder of a model"]);
    merge("mine/letter.txt", &["--force"]).fails_with(&["is a file"]);
    assert_eq!(std::fs::read(home.path().join("mine/letter.txt")).unwrap(), b"dear");
    assert!(
        std::fs::read_dir(home.path())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with(".out") })
    );
}
