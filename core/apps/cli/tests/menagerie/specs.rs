//! `--spec FILE`, and spec folders with what is no spec in them.

use super::{fixture, menagerie};
use std::path::Path;

const TALKER: &str =
    "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"talker\"\nsummary = \"named\"\n";

/// A model of an architecture that nothing knows, as `model.gguf`.
fn unheard(home: &Path) {
    let mut changed = super::Changed::of("base/llama/model-f32.gguf").set("general.architecture", "talker");
    for (key, _) in &mut changed.keys {
        if let Some(rest) = key.strip_prefix("llama.") {
            *key = format!("talker.{rest}");
        }
    }
    std::fs::rename(changed.write(home), home.join("model.gguf")).unwrap();
}

/// Section 2, 9: a spec is a file, and a file is what is named.
#[test]
fn one_file_is_enough() {
    let home = tempfile::tempdir().unwrap();
    unheard(home.path());
    std::fs::create_dir(home.path().join("drafts")).unwrap();
    std::fs::write(home.path().join("drafts/talker.toml"), TALKER).unwrap();
    let run = ["run", "model.gguf", "a", "--raw", "-n", "2", "--temp", "0"];
    menagerie(home.path(), &run).fails_with(&["`talker` is not known", "--spec"]);
    let call = menagerie(home.path(), &[&run[..], &["--spec", "drafts/talker.toml"]].concat());
    assert!(call.err.contains("drafts/talker.toml (--spec)"), "{}", call.err);
    call.good();
    for arguments in [
        &["show", "talker", "--spec", "drafts/talker.toml"][..],
        &["check", "model.gguf", "--spec", "drafts/talker.toml"],
        &["check", "drafts/talker.toml"],
        &["tokenize", "model.gguf", "a", "--spec", "drafts/talker.toml"],
    ] {
        menagerie(home.path(), arguments).good();
    }
    menagerie(home.path(), &["list", "--spec", "absent.toml"]).fails_with(&["absent.toml", "--spec"]);
    menagerie(home.path(), &["list", "--spec", "drafts"]).fails_with(&["drafts", "--spec-dir"]);
    // A file that was named is not left out for its faults.
    std::fs::write(home.path().join("drafts/talker.toml"), TALKER.replace("llama", "lama")).unwrap();
    let faulty = menagerie(home.path(), &["list", "--spec", "drafts/talker.toml"]);
    faulty.fails_with(&["drafts/talker.toml:2:", "`llama`", "^"]);
}

/// A22: a small override of a built-in spec needs no full copy.
#[test]
fn a_named_file_may_extend_what_it_replaces() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("llama.toml"), TALKER.replace("talker", "llama")).unwrap();
    let out = menagerie(home.path(), &["show", "llama", "--spec", "llama.toml"]).good();
    assert!(out.starts_with("llama: named"), "{out}");
    let model = fixture("base/llama/model-f32.gguf");
    let run = ["run", model.to_str().unwrap(), "a", "--raw", "-n", "1"];
    let call = menagerie(home.path(), &[&run[..], &["--spec", "llama.toml"]].concat());
    assert!(call.err.contains("llama.toml (--spec), which replaces the built-in one"), "{}", call.err);
    call.good();
    // In a folder it is passed over with a note, and nothing is switched off.
    let call = menagerie(home.path(), &[&run[..], &["--spec-dir", "."]].concat());
    assert!(call.err.contains("--allow-shadow"), "{}", call.err);
    call.good();
}

/// A spec sees what the other options bring: the base of a folder.
#[test]
fn a_spec_is_checked_among_the_folders_of_the_command() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("bases")).unwrap();
    std::fs::write(home.path().join("bases/talker.toml"), TALKER).unwrap();
    let own = TALKER.replace("\"llama\"", "\"talker\"").replace("id = \"talker\"", "id = \"second\"");
    std::fs::write(home.path().join("second.toml"), own).unwrap();
    menagerie(home.path(), &["check", "second.toml"]).fails_with(&["unknown spec `talker`"]);
    menagerie(home.path(), &["check", "second.toml", "--spec-dir", "bases"]).good();
    // Section 2, 10: what checking a spec alone cannot know.
    let out = menagerie(home.path(), &["check", "bases/talker.toml"]).good();
    assert!(out.contains("keys") && out.contains("menagerie check MODEL"), "{out}");
}

/// P5: the byte that is not text has a place, as text and as JSON.
#[test]
fn a_spec_that_is_no_text_is_pointed_at() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("talker.toml"), b"schema = 1\nextends = \"\xff\"\n").unwrap();
    menagerie(home.path(), &["check", "talker.toml"]).fails_with(&["--> talker.toml:2:12", "not UTF-8"]);
    let call = menagerie(home.path(), &["check", "talker.toml", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&call.out).unwrap();
    let fault = &report["faults"][0];
    assert_eq!((&fault["line"], &fault["column"]), (&2.into(), &12.into()), "{report}");
}

/// What lies in a folder and never ends costs that file only.
#[test]
#[cfg(unix)]
fn a_pipe_in_a_spec_folder_stops_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    let pipe = home.path().join("menagerie.d/pipe.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("`mkfifo` is needed for this test").success());
    let out = menagerie(home.path(), &["list"]).good();
    assert!(out.contains("qwen3moe") && out.contains("pipe.toml: not a regular file"), "{out}");
}
