//! A plugin that another version of the compiler built, in one process with one that is linked in: both run. Needs another
//! Rust compiler on this machine: `MENAGERIE_OTHER_RUSTC`, Debian's, or another toolchain of rustup.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod beside;

use beside::{cargo, menagerie, norms_are_the_built_in_ones, placed};
use menagerie_conformance::runner;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a compiler says of itself, if it runs.
fn version(rustc: &Path) -> Option<String> {
    let output = Command::new(rustc).arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Another compiler than the one that these tests are built with.
fn other() -> Option<PathBuf> {
    let own = version(Path::new(&std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())))?;
    let named = std::env::var_os("MENAGERIE_OTHER_RUSTC").map(PathBuf::from);
    let toolchains = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".rustup"));
    let folders = toolchains.or(home).and_then(|folder| std::fs::read_dir(folder.join("toolchains")).ok());
    let of_rustup = folders.into_iter().flatten().flatten().map(|entry| entry.path().join("bin/rustc"));
    let mut all: Vec<PathBuf> = of_rustup.collect();
    all.sort();
    let all = named.into_iter().chain([PathBuf::from("/usr/bin/rustc")]).chain(all);
    all.into_iter()
        .find(|rustc| version(rustc).is_some_and(|version| version != own && is_new_enough(&version)))
}

/// The SDK asks for 1.85.
fn is_new_enough(version: &str) -> bool {
    let minor = version.split(['.', ' ']).nth(2).and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 85)
}

/// The library of a crate that `plugin new` writes, built by another compiler.
fn built(home: &Path, kind: &str, rustc: &Path) -> PathBuf {
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/plugin");
    menagerie(home, &["plugin", "new", &format!("acme/other-{kind}"), "--kind", kind, "--sdk-path", sdk]);
    let mut command = cargo(&home.join(format!("other-{kind}")), &home.join("target"), &["build"]);
    // What cargo has set for these tests is of the other compiler.
    command.env("RUSTC", rustc).env_remove("RUSTUP_TOOLCHAIN");
    placed(home, &command.output().unwrap(), &format!("acme_other_{kind}"))
}

fn plugins_of_another_compiler_run_beside_one_that_is_linked_in() {
    let rustc = other().expect("looked for before");
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for kind in ["norm", "mixer"] {
        let file = built(home, kind, &rustc);
        let said: serde_json::Value =
            serde_json::from_str(&menagerie(home, &["plugin", "inspect", file.to_str().unwrap(), "--json"]))
                .unwrap();
        let toolchain = said["toolchain"].as_str().unwrap();
        assert!(toolchain.starts_with(&version(&rustc).unwrap()), "{toolchain}");
        menagerie(home, &["plugin", "check", file.to_str().unwrap()]);
    }
    norms_are_the_built_in_ones(home, "acme/other-norm:other-norm");
    let listed = menagerie(home, &["--plugin-dir", "plugins", "plugin", "list"]);
    for id in ["acme/other-norm", "acme/other-mixer", "menagerie/samplers"] {
        assert!(listed.contains(id), "{listed}");
    }
}

fn main() -> ExitCode {
    let missing = other().is_none().then_some("another version of the Rust compiler (MENAGERIE_OTHER_RUSTC)");
    runner::run(
        &[(
            "plugins_of_another_compiler_run_beside_one_that_is_linked_in",
            plugins_of_another_compiler_run_beside_one_that_is_linked_in,
        )],
        missing,
    )
}
