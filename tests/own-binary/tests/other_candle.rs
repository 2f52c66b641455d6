//! A plugin on another version of candle, in one process with one that is linked in. Its packages are no part of this
//! workspace's lock: the test runs where cargo has them already (`cargo fetch` in a crate that wants candle-core 0.10.2).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_conformance::runner;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

const MANIFEST: &str = r#"[package]
name = "acme-other-candle"
version = "0.1.0"
edition = "2024"
publish = false

[lib]
path = "SOURCE"
crate-type = ["cdylib"]

[dependencies]
candle-core = { version = "=0.10.2", default-features = false }
menagerie-plugin = { path = "SDK" }

[profile.dev]
debug = 0

[workspace]
"#;

const SPEC: &str = "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"llama\"\n\n[truth]\nreference = \"paper\"\n\
                    source = \"this test\"\ncovers = \"this test\"\n\n[norm]\nkind = \"acme/other-candle:rms\"\n\
                    eps = \"attention.layer_norm_rms_epsilon\"\n";

/// A crate with the plugin in `home`.
fn begun(home: &Path) -> PathBuf {
    let folder = home.join("other-candle");
    std::fs::create_dir_all(&folder).unwrap();
    let own = env!("CARGO_MANIFEST_DIR");
    let manifest = MANIFEST
        .replace("SOURCE", &format!("{own}/other_candle/plugin.rs"))
        .replace("SDK", &format!("{own}/../../core/plugin"));
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    folder
}

fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).args(["--offline", "--quiet"]).current_dir(folder);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env_remove("RUSTFLAGS");
    command.output().unwrap()
}

/// Whether cargo has all the packages.
fn has_packages() -> bool {
    let home = tempfile::tempdir().unwrap();
    cargo(&begun(home.path()), &["fetch"]).status.success()
}

fn menagerie(home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie-own-binary"));
    command.args(arguments).current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn a_plugin_on_another_candle_computes_what_the_built_in_norm_does() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let folder = begun(home);
    let output = cargo(&folder, &["build"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let name = format!("{prefix}acme_other_candle{suffix}");
    let file = home.join("plugins").join(&name);
    std::fs::create_dir_all(home.join("plugins")).unwrap();
    std::fs::copy(folder.join("target/debug").join(&name), &file).unwrap();
    menagerie(home, &["plugin", "check", file.to_str().unwrap()]);
    std::fs::write(home.join("llama.toml"), SPEC).unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/base/llama/model-f32.gguf");
    let run = |more: &[&str]| {
        let fixed =
            ["run", model, "--raw", "-n", "12", "--temp", "0", "--exact", "--json", "--logprobs", "1", "abc"];
        serde_json::from_str::<serde_json::Value>(&menagerie(home, &[&fixed[..], more].concat())).unwrap()
    };
    let linked_in = ["--sampler", "menagerie/samplers:top-n-sigma=n=100"];
    let with = run(&[&["--plugin-dir", "plugins", "--spec", "llama.toml"], &linked_in[..]].concat());
    let own = run(&[]);
    assert_eq!(own["text"], with["text"]);
    for (own, other) in own["tokens"].as_array().unwrap().iter().zip(with["tokens"].as_array().unwrap()) {
        let apart = (own["logprob"].as_f64().unwrap() - other["logprob"].as_f64().unwrap()).abs();
        assert!(apart < 1e-5, "{own} and {other}");
    }
}

fn main() -> ExitCode {
    let missing = (!has_packages()).then_some("the packages of another version of candle in cargo's cache");
    runner::run(
        &[(
            "a_plugin_on_another_candle_computes_what_the_built_in_norm_does",
            a_plugin_on_another_candle_computes_what_the_built_in_norm_does,
        )],
        missing,
    )
}
