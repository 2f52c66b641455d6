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
        logits("m.gguf", extra).fails_with(&["m.gguf", "is the input"]);
    }
    assert_eq!(std::fs::read(home.path().join("m.gguf")).unwrap(), model);
    logits("absent/o.safetensors", &[]).fails_with(&["the folder absent does not exist"]);
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

/// A device is written to, never replaced by a file; what goes to standard output is nothing else but that.
#[test]
#[cfg(target_os = "linux")]
fn devices_are_written_to() {
    use std::os::unix::fs::FileTypeExt;
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let logits = |out: &str, extra: &[&str]| {
        let arguments = [&["logits", model, "--tokens", "1,2,3", "--out", out], extra].concat();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(arguments).current_dir(home.path()).env_clear().env("HOME", home.path());
        command.output().unwrap()
    };
    assert!(logits("file", &[]).status.success());
    let piped = logits("/dev/stdout", &[]);
    assert!(piped.status.success(), "{piped:?}");
    assert_eq!(piped.stdout, std::fs::read(home.path().join("file")).unwrap());
    // Not /dev/null: where this fails, it would be taken from the machine.
    let pipe = home.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("`mkfifo` is needed").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).unwrap()
    });
    assert!(logits("pipe", &["--force"]).status.success());
    assert_eq!(reader.join().unwrap(), piped.stdout);
    let full = logits("/dev/full", &[]);
    assert!(String::from_utf8_lossy(&full.stderr).contains("/dev/full"), "{full:?}");
    assert_eq!(full.status.code(), Some(1));
    let synth = ["synth", "llama", "--shape", "llama-3.2-1b", "pipe", "--force"];
    menagerie(home.path(), &synth).fails_with(&["pipe", "is not a regular file"]);
    assert!(std::fs::metadata(pipe).unwrap().file_type().is_fifo());
}

/// A conversation whose answers cannot be written is no success.
#[test]
#[cfg(target_os = "linux")]
fn answers_that_cannot_be_written_fail() {
    let home = tempfile::tempdir().unwrap();
    let model = super::chat_model(home.path());
    std::fs::write(home.path().join("in"), "hello\nagain\n").unwrap();
    for arguments in [&["chat", &model, "-n", "2"][..], &["run", &model, "-n", "2"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(arguments).current_dir(home.path()).env_clear().env("HOME", home.path());
        command.stdin(std::fs::File::open(home.path().join("in")).unwrap());
        command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {err}");
        assert_eq!(err.matches("standard output: ").count(), 1, "{err}");
    }
}

/// Nothing fails, and nothing panics, because nobody can be told something on standard error.
#[test]
#[cfg(target_os = "linux")]
fn remarks_that_cannot_be_written_stop_nothing() {
    let home = tempfile::tempdir().unwrap();
    let model = super::chat_model(home.path());
    std::fs::write(home.path().join("bad.toml"), "schema = 1\n").unwrap();
    for (arguments, code) in [
        (&["run", &model, "hi", "-n", "2", "-v", "--template-var", "unknown=1"][..], 0),
        (&["run", "absent.gguf", "hi"], 1),
        (&["check", "bad.toml"], 1),
        (&["frobnicate"], 2),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(arguments).current_dir(home.path()).env_clear().env("HOME", home.path());
        command.env("RUST_LOG", "info").stdin(std::process::Stdio::null());
        command.stderr(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    }
}
