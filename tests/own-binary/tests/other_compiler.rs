//! A plugin that another version of the compiler built, in one process with one that is linked in: both run. Needs another
//! Rust compiler on this machine: `MENAGERIE_OTHER_RUSTC`, Debian's, or another toolchain of rustup.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

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

fn menagerie(home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie-own-binary"));
    command.args(arguments).current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The library of a crate that `plugin new` writes, built by another compiler.
fn built(home: &Path, kind: &str, rustc: &Path) -> PathBuf {
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/plugin");
    menagerie(home, &["plugin", "new", &format!("acme/other-{kind}"), "--kind", kind, "--sdk-path", sdk]);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--offline", "--quiet"]).current_dir(home.join(format!("other-{kind}")));
    command.env("RUSTC", rustc).env("CARGO_TARGET_DIR", home.join("target"));
    // What cargo has set for these tests is of the other compiler.
    command.env_remove("RUSTFLAGS").env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC_WRAPPER");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = format!("{prefix}acme_other_{kind}{suffix}");
    let placed = home.join("plugins").join(&file);
    std::fs::create_dir_all(home.join("plugins")).unwrap();
    std::fs::copy(home.join("target/debug").join(&file), &placed).unwrap();
    placed
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
    let spec = "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"llama\"\n\n[truth]\nreference = \"paper\"\n\
                source = \"this test\"\ncovers = \"this test\"\n\n[norm]\nkind = \"acme/other-norm:other-norm\"\n\
                eps = \"attention.layer_norm_rms_epsilon\"\n";
    std::fs::write(home.join("llama.toml"), spec).unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/base/llama/model-f32.gguf");
    let run = |more: &[&str]| {
        let fixed =
            ["run", model, "--raw", "-n", "12", "--temp", "0", "--exact", "--json", "--logprobs", "1", "abc"];
        serde_json::from_str::<serde_json::Value>(&menagerie(home, &[&fixed[..], more].concat())).unwrap()
    };
    let linked_in = ["--sampler", "menagerie/samplers:top-n-sigma=n=100"];
    let all = run(&[&["--plugin-dir", "plugins", "--spec", "llama.toml"], &linked_in[..]].concat());
    let own = run(&[]);
    assert_eq!(own["text"], all["text"]);
    for (own, other) in own["tokens"].as_array().unwrap().iter().zip(all["tokens"].as_array().unwrap()) {
        let apart = (own["logprob"].as_f64().unwrap() - other["logprob"].as_f64().unwrap()).abs();
        assert!(apart < 1e-5, "{own} and {other}");
    }
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
