//! A38: what a command writes never replaces an input, nor anything else unasked.

use super::{fixture, menagerie};

#[test]
fn logits_never_replace_the_model_nor_a_file_unasked() {
    let home = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("base/llama/model-f32.gguf"), home.path().join("m.gguf")).unwrap();
    let model = std::fs::read(home.path().join("m.gguf")).unwrap();
    let logits = |out: &str, extra: &[&str]| {
        let arguments = [&["logits", "m.gguf", "--tokens", "1,2,3", "--out", out], extra].concat();
        menagerie(home.path(), &arguments)
    };
    for extra in [&[][..], &["--force"]] {
        logits("m.gguf", extra).fails_with(&["m.gguf", "which is being read"]);
    }
    assert_eq!(std::fs::read(home.path().join("m.gguf")).unwrap(), model);
    logits("o.safetensors", &[]).good();
    std::fs::write(home.path().join("o.safetensors"), "mine").unwrap();
    logits("o.safetensors", &[]).fails_with(&["exists", "--force"]);
    assert_eq!(std::fs::read(home.path().join("o.safetensors")).unwrap(), b"mine");
    logits("o.safetensors", &["--force"]).good();
    assert_ne!(std::fs::read(home.path().join("o.safetensors")).unwrap(), b"mine");
}

#[test]
fn synth_never_replaces_a_file_unasked() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("existing.gguf"), "mine").unwrap();
    let arguments = ["synth", "llama", "--shape", "block_count=1", "existing.gguf"];
    menagerie(home.path(), &arguments).fails_with(&["existing.gguf", "--force"]);
    assert_eq!(std::fs::read(home.path().join("existing.gguf")).unwrap(), b"mine");
}
