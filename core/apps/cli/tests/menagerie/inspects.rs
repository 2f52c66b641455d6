//! `inspect`: any file of a model, known or not.

use super::{Changed, chat_model, fixture, menagerie};
use serde_json::{Value, json};
use std::path::Path;

fn inspected(home: &Path, arguments: &[&str]) -> Value {
    let call = menagerie(home, &[&["inspect"], arguments, &["--json"]].concat()).good();
    serde_json::from_str(&call).unwrap()
}

#[test]
fn a_known_gguf_is_shown_with_keys_and_tensors() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let out = menagerie(home.path(), &["inspect", &model]).good();
    for part in [
        "GGUF version 3",
        "llama (supported)",
        "BOS ",
        "(--template)",
        "llama.block_count",
        "u32",
        "blk.0.attn_q.weight",
        "[64, 64]",
        "(384 values)",
    ] {
        assert!(out.contains(part), "`{part}` is not in:\n{out}");
    }
    assert_eq!(
        menagerie(home.path(), &["inspect", &model, "--template"]).good(),
        format!("{}\n", super::TEMPLATE)
    );
    let json = inspected(home.path(), &[&model]);
    let tokens = json["keys"].as_array().unwrap().iter().find(|key| key["name"] == "tokenizer.ggml.tokens");
    assert_eq!(tokens.unwrap()["value"].as_array().unwrap().len(), 384);
    assert_eq!(json["architecture"], "llama");
}

/// Nothing has to be known of the architecture, and the next step is said.
#[test]
fn an_unknown_architecture_is_no_fault() {
    let home = tempfile::tempdir().unwrap();
    let model =
        Changed::of("base/llama/model-f32.gguf").set("general.architecture", "unheard").write(home.path());
    let out = menagerie(home.path(), &["inspect", &model]).good();
    assert!(out.contains("unheard (not supported; `menagerie spec new"), "{out}");
}

#[test]
fn keys_and_tensors_are_filtered() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let json = inspected(home.path(), &[model, "--keys", "*.attention.*", "--tensors", "blk.1.ffn_*"]);
    let names = |what: &str| -> Vec<String> {
        json[what].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names("keys").contains(&"llama.attention.head_count".to_owned()));
    assert!(names("keys").iter().all(|name| name.contains(".attention.")));
    let mut tensors = names("tensors");
    tensors.sort();
    let wanted =
        ["blk.1.ffn_down.weight", "blk.1.ffn_gate.weight", "blk.1.ffn_norm.weight", "blk.1.ffn_up.weight"];
    assert_eq!(tensors, wanted);
    let inspect = |more: &[&str]| menagerie(home.path(), &[&["inspect", model][..], more].concat());
    inspect(&["--tensors", "nothing*"]).fails_with(&["no tensor matches `nothing*`"]);
    inspect(&["--tensors", "blk.1.atn_q.weight"]).fails_with(&["the nearest is `blk.1.attn_q.weight`"]);
    let some = inspect(&["--tensors", "blk.1.ffn_*", "--keys", "llama.block_cuont"]);
    assert!(
        some.err.contains("no key matches `llama.block_cuont`; the nearest is `llama.block_count`"),
        "{}",
        some.err
    );
    assert!(some.good().contains("blk.1.ffn_up.weight"));
}

#[test]
fn safetensors_are_read_by_their_header() {
    let home = tempfile::tempdir().unwrap();
    let file = fixture("base/llama/reference.safetensors");
    let json = inspected(home.path(), &[file.to_str().unwrap()]);
    assert_eq!(json["format"], "safetensors");
    let tensors = json["tensors"].as_array().unwrap();
    let logits = tensors.iter().find(|tensor| tensor["name"] == "logits_prompt").unwrap();
    assert_eq!((&logits["type"], &logits["dims"][0]), (&json!("F32"), &json!(48)));
    // Cut off, it is refused: the header speaks of more.
    let bytes = std::fs::read(file).unwrap();
    let cut = home.path().join("cut.safetensors");
    std::fs::write(&cut, &bytes[..bytes.len() - 10]).unwrap();
    menagerie(home.path(), &["inspect", "cut.safetensors"]).fails_with(&["download the file again"]);
    std::fs::write(&cut, b"abc").unwrap();
    menagerie(home.path(), &["inspect", "cut.safetensors"]).fails_with(&["cut off"]);
    std::fs::write(&cut, [0xff; 64]).unwrap();
    menagerie(home.path(), &["inspect", "cut.safetensors"])
        .fails_with(&["the file is not in safetensors format"]);
}

#[test]
fn a_folder_of_hugging_face_is_one_model() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    let config =
        json!({ "architectures": ["Qwen3ForCausalLM"], "rope_scaling": { "factor": 4.0 }, "layers": [1, 2] });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let tokenizer = json!({ "tokenizer_class": "Qwen2Tokenizer", "eos_token": "<end>", "chat_template": "{{ messages }}" });
    std::fs::write(folder.join("tokenizer_config.json"), tokenizer.to_string()).unwrap();
    std::fs::write(folder.join("README.md"), "---\nlicense: apache-2.0\n---\n# A model\n").unwrap();
    std::fs::copy(fixture("base/llama/reference.safetensors"), folder.join("model.safetensors")).unwrap();
    let out = menagerie(home.path(), &["inspect", "model"]).good();
    for part in [
        "Qwen3ForCausalLM (supported)",
        "apache-2.0",
        "EOS <end>",
        "rope_scaling.factor",
        "logits_prompt",
        "14 characters",
    ] {
        assert!(out.contains(part), "`{part}` is not in:\n{out}");
    }
    menagerie(home.path(), &["inspect", "."]).fails_with(&["config.json", "help: "]);
    std::fs::write(folder.join("config.json"), "{").unwrap();
    menagerie(home.path(), &["inspect", "model"]).fails_with(&["config.json", "not JSON"]);
}

#[test]
fn what_is_no_model_is_refused() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("notes.txt"), "hello").unwrap();
    menagerie(home.path(), &["inspect", "notes.txt"]).fails_with(&["is neither a GGUF file nor", "help: "]);
    std::fs::write(home.path().join("empty.gguf"), "").unwrap();
    menagerie(home.path(), &["inspect", "empty.gguf"]).fails_with(&["the file is empty"]);
}

/// Other files of weights beside an adapter are not its own.
#[test]
fn of_an_adapter_its_own_tensors_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let source = fixture("lora/llama/xlora/depth2_topk2");
    assert!(source.join("reference.safetensors").is_file());
    let own = inspected(home.path(), &[source.join("adapter_model.safetensors").to_str().unwrap()]);
    let folder = inspected(home.path(), &[source.to_str().unwrap()]);
    assert_eq!(folder["format"], "PEFT adapter folder");
    assert_eq!(folder["tensors"], own["tensors"]);
}
