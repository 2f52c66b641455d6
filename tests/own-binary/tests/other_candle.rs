//! A plugin on another version of candle, in one process with one that is linked in. Its packages are no part of this
//! workspace's lock: the test runs where cargo has them already (`cargo fetch` in a crate that wants candle-core 0.10.2).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod beside;

use beside::{cargo, menagerie, norms_are_the_built_in_ones, placed};
use menagerie_conformance::runner;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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

/// Whether cargo has all the packages.
fn has_packages() -> bool {
    let home = tempfile::tempdir().unwrap();
    cargo(&begun(home.path()), &home.path().join("target"), &["fetch"]).output().unwrap().status.success()
}

fn a_plugin_on_another_candle_computes_what_the_built_in_norm_does() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let built = cargo(&begun(home), &home.join("target"), &["build"]).output().unwrap();
    let file = placed(home, &built, "acme_other_candle");
    menagerie(home, &["plugin", "check", file.to_str().unwrap()]);
    norms_are_the_built_in_ones(home, "acme/other-candle:rms");
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
