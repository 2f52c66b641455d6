//! Listings: readable and as JSON.

use super::{fixture, menagerie};

#[test]
fn list_has_the_built_in_architectures() {
    let home = tempfile::tempdir().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&menagerie(home.path(), &["list", "--json"]).good()).unwrap();
    let ids: Vec<&str> = json.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["llama", "mistral3", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "starcoder2"]);
    assert!(
        json.as_array().unwrap().iter().all(|one| one["origin"].as_str().unwrap().starts_with("built-in"))
    );
    insta::assert_snapshot!("list", menagerie(home.path(), &["list"]).good());
}

#[test]
fn show_says_what_came_from_where() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/phi3/model-f32.gguf");
    let out = menagerie(home.path(), &["show", model.to_str().unwrap()]).good();
    for word in
        ["from the spec, not from the file", "attention.sliding_window", "llama.cpp ignores", "memory"]
    {
        assert!(out.contains(word), "`{word}` is not in:\n{out}");
    }
    let json = menagerie(home.path(), &["show", model.to_str().unwrap(), "--json"]).good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["config"]["layers"].as_array().unwrap().len(), 3);
    assert!(menagerie(home.path(), &["show", "qwen3"]).good().contains("qk_norm"));
}

#[test]
fn doctor_and_completions() {
    let home = tempfile::tempdir().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&menagerie(home.path(), &["doctor", "--json"]).good()).unwrap();
    assert!(json["kernels_available"].as_array().unwrap().iter().any(|name| name == "portable"), "{json}");
    assert!(menagerie(home.path(), &["doctor"]).good().contains("threads"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(menagerie(home.path(), &["completions", shell]).good().contains("menagerie"));
    }
    assert!(menagerie(home.path(), &["--version"]).good().contains("kernels here"));
    assert!(menagerie(home.path(), &["models"]).good().contains("pull smollm2"));
}
