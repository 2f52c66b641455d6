//! U32: paths that are not UTF-8, wherever one can be named.

use super::{fixture, menagerie};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A name as Latin-1 has it: no UTF-8.
fn raw(name: &[u8]) -> OsString {
    OsString::from_vec([b"caf\xe9", name].concat())
}

/// `menagerie` with arguments in bytes; its exit code, and both of its outputs, which must be text.
fn call(home: &Path, arguments: &[&OsStr]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear();
    command.env("HOME", home).env("HF_HUB_OFFLINE", "1").env("PATH", "");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn words(line: &[&str]) -> Vec<OsString> {
    line.iter()
        .map(|word| if let Some(name) = word.strip_prefix('@') { raw(name.as_bytes()) } else { word.into() })
        .collect()
}

fn home() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join(raw(b".gguf"));
    std::fs::copy(fixture("base/llama/model-f32.gguf"), &model).unwrap();
    (home, model)
}

/// `@X` stands for a name that is no UTF-8 and ends in X.
#[test]
fn every_path_can_be_named() {
    let (home, _) = home();
    std::fs::write(home.path().join(raw(b".txt")), "a text with some words in it, and some more of them")
        .unwrap();
    std::fs::write(home.path().join(raw(b".json")), r#"[{"role": "user", "content": "hi"}]"#).unwrap();
    std::fs::write(home.path().join(raw(b".jinja")), "{{ messages[0].content }}").unwrap();
    std::fs::write(
        home.path().join("s.toml"),
        "schema = 1\nextends = \"llama\"\n[architecture]\nid = \"s\"\n",
    )
    .unwrap();
    std::fs::create_dir(home.path().join(raw(b"dir"))).unwrap();
    for line in [
        &["run", "@.gguf", "abc", "--raw", "-n", "2"][..],
        &["run", "@.gguf", "abc", "--raw", "-n", "2", "--json"],
        &["run", "@.gguf", "-f", "@.txt", "--raw", "-n", "2", "--state", "@.state"],
        &["run", "@.gguf", "abc", "--raw", "-n", "2", "--capture", "layers=all", "@.safetensors"],
        &["run", "@.gguf", "abc", "--raw", "-n", "2", "--stages", "2"],
        &["render", "@.gguf", "@.json", "--chat-template", "@.jinja"],
        &["render", "--chat-template", "@.jinja", "@.json"],
        &["show", "@.gguf", "--json"],
        &["inspect", "@.gguf", "--json"],
        &["check", "@.gguf", "--json"],
        &["tokenize", "@.gguf", "-f", "@.txt", "--json"],
        &["logits", "@.gguf", "--tokens", "5,6", "--out", "@.logits"],
        &["bench", "@.gguf", "-p", "2", "-n", "1", "-r", "1", "--json"],
        &["compare", "@.gguf", "@.gguf", "-f", "@.txt", "-p", "0", "-n", "0", "--ctx-size", "8", "--json"],
        &["quantize", "@.gguf", "@.q8", "Q8_0", "--json"],
        &["list", "--spec-dir", "@dir", "--json"],
        &["doctor", "--spec-dir", "@dir", "--json"],
        &["spec", "new", "@.gguf"],
    ] {
        let arguments = words(line);
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let (code, out, err) = call(home.path(), &arguments);
        assert_eq!(code, Some(0), "{line:?}: {out}{err}");
        if line.contains(&"--json") {
            serde_json::from_str::<serde_json::Value>(&out).unwrap();
        }
    }
}

/// The bytes that are no text are shown, so that one path is told from another.
#[test]
fn paths_are_shown_escaped() {
    let (home, _) = home();
    for (line, code, shown) in [
        (
            &["run", "@.gguf", "abc", "--raw", "-n", "1", "--temp", "0", "--json"][..],
            0,
            r#""model": "caf\\xE9.gguf""#,
        ),
        (&["inspect", "@.gguf"], 0, r"caf\xE9.gguf"),
        (&["show", "@.gguf"], 0, r"caf\xE9.gguf"),
        (&["check", "@.gguf"], 0, r"caf\xE9.gguf: keys and tensors match llama"),
        (&["quantize", "@.gguf", "@.q8", "Q8_0"], 0, r"caf\xE9.q8"),
        (&["run", "@none.gguf", "abc"], 1, r"caf\xE9none.gguf"),
        (&["spec", "explain", "@none.toml"], 1, r"caf\xE9none.toml"),
        (&["spec", "explain", "@none"], 1, r"caf\xE9none"),
    ] {
        let arguments = words(line);
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let (found, out, err) = call(home.path(), &arguments);
        assert_eq!(found, Some(code), "{line:?}: {out}{err}");
        assert!(out.contains(shown) || err.contains(shown), "{line:?}: {out}{err}");
        assert!(!out.contains('\u{fffd}') && !err.contains('\u{fffd}'), "{line:?}: {out}{err}");
    }
    assert!(menagerie(home.path(), &["list", "--names"]).good().contains("llama"));
    assert!(OsStr::from_bytes(b"caf\xe9").to_str().is_none());
}
