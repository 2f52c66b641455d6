//! What the tests of plugins from elsewhere share: the binary with a plugin linked in, and a Llama whose norms are a plugin's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the binary; what it prints.
pub(crate) fn menagerie(home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie-own-binary"));
    command.args(arguments).current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs cargo without a network, with its results in `target` and none of what these tests were built with.
pub(crate) fn cargo(folder: &Path, target: &Path, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).args(["--offline", "--quiet"]).current_dir(folder);
    command.env("CARGO_TARGET_DIR", target).env_remove("RUSTFLAGS").env_remove("RUSTC_WRAPPER");
    command
}

/// The library of a crate that was built into `home/target`, put into `home/plugins`.
pub(crate) fn placed(home: &Path, output: &Output, name: &str) -> PathBuf {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let placed = home.join("plugins").join(&file);
    std::fs::create_dir_all(home.join("plugins")).unwrap();
    std::fs::copy(home.join("target/debug").join(&file), &placed).unwrap();
    placed
}

/// A Llama with norms of this kind, from the plugins of `home/plugins`, says what the built-in one says, beside a sampler that
/// is linked in.
pub(crate) fn norms_are_the_built_in_ones(home: &Path, kind: &str) {
    let spec = format!(
        "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"llama\"\n\n[provenance]\nreference = \"paper\"\n\
         source = \"this test\"\ncovers = \"this test\"\n\n[norm]\nkind = \"{kind}\"\n\
         eps = \"attention.layer_norm_rms_epsilon\"\n"
    );
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
}
