//! What the scripts of `completions` are offered.

use super::chat_model;
use std::path::Path;
use std::process::Command;

/// What a shell may put in place of the last of these words, as fish is told: `VALUE<TAB>MEANING` lines.
fn offered(home: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(["--", "menagerie"]).args(words).current_dir(home).env_clear();
    command.env("HOME", home).env("COMPLETE", "fish");
    let lines = super::call(command).good();
    lines.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

/// P25: names of architectures, models, shapes and quantizations.
#[test]
fn completions_know_names() {
    let home = tempfile::tempdir().unwrap();
    chat_model(home.path());
    let has = |words: &[&str], wanted: &str| {
        let offered = offered(home.path(), words);
        assert!(offered.iter().any(|one| one == wanted), "{words:?}: {offered:?}");
    };
    has(&["show", "qwen3m"], "qwen3moe");
    has(&["run", "chan"], "changed.gguf");
    has(&["run", "m.gguf", "--draft", "chan"], "changed.gguf");
    has(&["serve", "m.gguf", "--draft", "look"], "lookup");
    has(&["spec", "new", "chan"], "changed.gguf");
    has(&["spec", "explain", "qwen3m"], "qwen3moe");
    has(&["synth", "llama", "--quant", "Q4_K"], "Q4_K_M");
    has(&["synth", "llama", "--shape", "llama-3"], "llama-3.2-1b");
    has(&["ru"], "run");
}

/// U21: the case that is typed is the case that is offered.
#[test]
fn types_are_offered_in_either_case() {
    let home = tempfile::tempdir().unwrap();
    for (words, wanted) in [
        (&["run", "m.gguf", "--quant", "q4_k"][..], "q4_k_m"),
        (&["run", "m.gguf", "--quant", "Q4_K"], "Q4_K_M"),
        (&["synth", "llama", "--quant", "q4_k"], "q4_k_m"),
        (&["quantize", "m.gguf", "o.gguf", "iq4"], "iq4_xs"),
    ] {
        let offered = offered(home.path(), words);
        assert!(offered.iter().any(|one| one == wanted), "{words:?}: {offered:?}");
        let typed = words.last().unwrap();
        assert!(offered.iter().all(|one| one.starts_with(typed)), "{words:?}: {offered:?}");
    }
}

/// U21: a chat template is a file or a name.
#[test]
fn chat_templates_are_names_and_files() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("chat.jinja"), "").unwrap();
    let offered = offered(home.path(), &["run", "m.gguf", "--chat-template", "chat"]);
    for wanted in ["chatml", "chat.jinja"] {
        assert!(offered.iter().any(|one| one == wanted), "{wanted}: {offered:?}");
    }
}

/// U21: commands about models on this machine offer these, and what downloads left where it can be removed.
#[test]
#[cfg(feature = "hub")]
fn installed_models_are_offered_where_they_are_wanted() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join(".cache/huggingface/hub");
    let snapshot = cache.join("models--org--repo/snapshots/s");
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::write(snapshot.join("m.gguf"), "").unwrap();
    std::fs::create_dir_all(cache.join("models--org--half/blobs")).unwrap();
    std::fs::write(cache.join("models--org--half/blobs/x.part"), "").unwrap();
    for (verb, wanted) in [
        ("path", &["hf:org/repo@s/m.gguf"][..]),
        ("verify", &["hf:org/repo@s/m.gguf"]),
        ("remove", &["hf:org/repo@s/m.gguf", "org/half"]),
    ] {
        let mut offered = offered(home.path(), &["models", verb, ""]);
        offered.retain(|one| !one.starts_with('-'));
        assert_eq!(offered, wanted, "{verb}");
    }
}
