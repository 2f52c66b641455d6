//! `--control-vector`, and `control-vector make` and `show`.

use super::{fixture, menagerie};
use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn gguf(name: &str) -> String {
    fixture(&format!("base/{name}/model-f32.gguf")).display().to_string()
}

fn control(name: &str) -> String {
    fixture(&format!("control/{name}")).display().to_string()
}

/// Numbers of a tensor of a safetensors file.
fn tensor(file: &Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(file).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn tokens(name: &str) -> String {
    let bytes = std::fs::read(fixture("control/reference.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let ids = file.tensor(name).unwrap();
    let id = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap()).to_string();
    ids.data().chunks_exact(8).map(id).collect::<Vec<_>>().join(",")
}

fn apart(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn logits(home: &Path, extra: &[&str]) -> Vec<f32> {
    let (model, tokens) = (gguf("llama"), tokens("tokens_a"));
    let base = ["logits", &model, "--tokens", &tokens, "--out", "l.safetensors", "--force", "--exact"];
    menagerie(home, &[&base[..], extra].concat()).good();
    tensor(&home.join("l.safetensors"), "logits")
}

/// What llama.cpp's library computes with the same vectors: scales, two at once, a range of layers; a prompt and tokens fed
/// one by one.
#[test]
fn logits_are_those_of_llama_cpp() {
    let home = tempfile::tempdir().unwrap();
    let (a, b) = (control("a.gguf"), control("b.gguf"));
    let cases: [(&str, &[&str]); 3] = [
        ("logits_a", &["--control-vector", &a]),
        ("logits_ab", &["--control-vector", &format!("{a}=0.5"), "--control-vector", &format!("{b}=-1.5")]),
        ("logits_first", &["--control-vector", &a, "--control-vector-layers", "1-1"]),
    ];
    let bare = logits(home.path(), &[]);
    for (name, arguments) in cases {
        let expected = tensor(&fixture("control/reference.safetensors"), name);
        for steps in [&[][..], &["--decode-from", "24"], &["--chunk", "7"]] {
            let found = logits(home.path(), &[arguments, steps].concat());
            let difference = apart(&found, &expected);
            assert!(difference < 1e-4, "{name} {steps:?}: {difference}");
            assert!(apart(&found, &bare) > 1.0);
        }
    }
    // Once there and once back is nothing but noise.
    let back = logits(home.path(), &["--control-vector", &a, "--control-vector", &format!("{a}=-1")]);
    assert!(apart(&back, &bare) < 1e-4);
}

#[test]
fn answers_and_conversations_are_steered() {
    let home = tempfile::tempdir().unwrap();
    let (model, a) = (gguf("llama"), control("a.gguf"));
    let run = ["run", &model, "hello", "--raw", "-n", "8", "--temp", "0", "--ignore-eos", "--json"];
    let text = |extra: &[&str]| {
        let said: Value =
            serde_json::from_str(&menagerie(home.path(), &[&run[..], extra].concat()).good()).unwrap();
        said["text"].as_str().unwrap().to_owned()
    };
    assert_ne!(text(&[]), text(&["--control-vector", &a]));
    let chat = super::chat_model(home.path());
    let talk = |extra: &[&str]| {
        let arguments = ["chat", chat.as_str(), "-n", "8", "--temp", "0", "--ignore-eos", "--no-history"];
        super::fed(home.path(), &[&arguments[..], extra].concat(), b"hello\n").good()
    };
    assert_ne!(talk(&[]), talk(&["--control-vector", &a]));
    let bench = ["bench", &model, "--json", "-p", "4", "-n", "2", "-r", "1", "--control-vector", &a];
    menagerie(home.path(), &bench).good();
}

fn made(home: &Path, method: &str, extra: &[&str]) -> PathBuf {
    let (model, positive, negative) = (gguf("llama"), control("positive.txt"), control("negative.txt"));
    let base = ["control-vector", "make", &model, "--positive", &positive, "--negative", &negative];
    let rest = ["--method", method, "-o", "made.gguf", "--force", "--exact", "--kv-type", "f32"];
    let said = menagerie(home, &[&base[..], &rest, extra].concat()).good();
    assert_eq!(said, "made.gguf: 2 directions of width 64 from 3 pairs of prompts\n");
    home.join("made.gguf")
}

/// The mean and the first singular vector of the differences of transformers' hidden states.
#[test]
fn directions_are_those_of_the_formulas() {
    let home = tempfile::tempdir().unwrap();
    for method in ["mean", "pca"] {
        for extra in [&[][..], &["--chunk", "5"]] {
            let path = made(home.path(), method, extra);
            let file = GgufFile::open(&path, &OpenOptions::default().with_mmap(false)).unwrap();
            let text =
                |key: &str| file.metadata().get(key).and_then(|value| value.as_str()).map(str::to_owned);
            assert_eq!(text("general.architecture").as_deref(), Some("controlvector"));
            assert_eq!(text("controlvector.model_hint").as_deref(), Some("llama"));
            for layer in [1, 2] {
                let found = file.data(file.tensor(&format!("direction.{layer}")).unwrap()).unwrap();
                let found: Vec<f32> =
                    found.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
                let expected = tensor(&fixture("control/made.safetensors"), &format!("{method}.{layer}"));
                let difference = apart(&found, &expected);
                assert!(difference < 2e-5, "{method} {layer} {extra:?}: {difference}");
            }
        }
    }
    // What was made acts.
    let bare = logits(home.path(), &[]);
    assert!(apart(&bare, &logits(home.path(), &["--control-vector", "made.gguf=4"])) > 0.1);
    let shown = menagerie(home.path(), &["control-vector", "show", "made.gguf"]).good();
    assert!(
        shown.starts_with("made.gguf: 2 directions of width 64, made for llama\nlayer   1  length 1.0000\n"),
        "{shown}"
    );
    let listed = menagerie(home.path(), &["control-vector", "show", "made.gguf", "--json"]).good();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["width"], &listed["directions"][1]["layer"]), (&Value::from(64), &Value::from(2)));
}

#[test]
fn prompts_that_are_no_pairs_make_no_file() {
    let home = tempfile::tempdir().unwrap();
    let (model, positive) = (gguf("llama"), control("positive.txt"));
    for (name, text) in [("two.txt", "a\nb\n"), ("none.txt", "\n"), ("chat.txt", "a\nb\nc\n")] {
        std::fs::write(home.path().join(name), text).unwrap();
    }
    let make = |negative: &str, extra: &[&str]| {
        let base = [
            "control-vector",
            "make",
            &model,
            "--positive",
            &positive,
            "--negative",
            negative,
            "-o",
            "v.gguf",
        ];
        menagerie(home.path(), &[&base[..], extra].concat())
    };
    make("two.txt", &[]).refused_with(&["has 3 prompts, but two.txt has 2", "line by line"]);
    make("none.txt", &[]).fails_with(&["none.txt: the file has no prompts"]);
    make("chat.txt", &["--chat"]).fails_with(&["chat template"]);
    make(&positive, &[]).fails_with(&["do not differ from the negative ones"]);
    assert!(!home.path().join("v.gguf").exists());
    std::fs::write(home.path().join("v.gguf"), "mine").unwrap();
    make("chat.txt", &[]).fails_with(&["v.gguf: exists", "--force"]);
}

/// A vector of one direction, by hand.
fn vector(home: &Path, name: &str, hint: &str, layer: usize, width: usize) -> String {
    let mut writer = GgufWriter::new();
    writer.metadata("general.architecture", "controlvector").unwrap();
    writer.metadata("controlvector.model_hint", hint).unwrap();
    let data = (0..width).flat_map(|_| 0.5f32.to_le_bytes()).collect();
    writer.tensor(&format!("direction.{layer}"), &[width as u64], GgmlType::F32, data).unwrap();
    writer.write(home.join(name)).unwrap();
    name.to_owned()
}

#[test]
fn vectors_of_other_models_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), gguf("llama"));
    let run = |extra: &[&str]| {
        menagerie(home, &[&["run", &model, "a", "--raw", "-n", "1", "--control-vector"][..], extra].concat())
    };
    let wide = vector(home, "wide.gguf", "llama", 1, 65);
    run(&[&wide]).fails_with(&["wide.gguf: its directions have 65 numbers", "has 64"]);
    let deep = vector(home, "deep.gguf", "llama", 3, 64);
    run(&[&deep]).fails_with(&["deep.gguf: it has a direction for layer 3", "last layer of this model is 2"]);
    let other = vector(home, "other.gguf", "qwen2", 1, 64);
    run(&[&other]).fails_with(&["made for `qwen2`", "this model is `llama`", "--control-vector-hint qwen2"]);
    run(&[&other, "--control-vector-hint", "qwen2"]).good();
    // The name of a class of the hub that the spec answers to.
    let mistral = vector(home, "mistral.gguf", "mistral", 1, 64);
    run(&[&mistral]).good();
    run(&[&mistral, "--control-vector-layers", "2-2"]).fails_with(&["for layers 1 to 1 and none"]);
    run(&[&model]).fails_with(&["its architecture is `llama`", "`direction.N`"]);
    let zero = vector(home, "zero.gguf", "llama", 0, 64);
    run(&[&zero])
        .fails_with(&["zero.gguf: its tensor \"direction.0\" is not the direction of a layer from 1 on"]);
    run(&["absent.gguf"]).fails_with(&["absent.gguf"]);
    menagerie(home, &["run", &model, "a", "--control-vector-layers", "1-2"])
        .refused_with(&["--control-vector <"]);
}
