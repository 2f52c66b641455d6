//! F16 prompts are computed in f32 unless `half-prompts=bf16` is set, which not every processor supports.

use super::{Call, call, fixture, menagerie};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const IDS: &str = "1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61";

fn f16() -> String {
    fixture("quant/F16.gguf").to_str().unwrap().to_owned()
}

fn logits(home: &Path, out: &str, extra: &[&str]) -> Call {
    let model = f16();
    let arguments = [&["logits", &model, "--tokens", IDS, "--out", out], extra].concat();
    menagerie(home, &arguments)
}

/// The kernels chosen here, and whether they have products of bfloat16: AVX-512 BF16.
fn has_products(home: &Path) -> bool {
    let report: Value = serde_json::from_str(&menagerie(home, &["doctor", "--json"]).good()).unwrap();
    let features = report["cpu_features"].to_string();
    report["kernels_chosen"] == "avx512" && features.contains("avx512bf16")
}

#[test]
fn the_coarser_way_is_refused_where_it_does_not_exist() {
    let home = tempfile::tempdir().unwrap();
    let model = f16();
    let coarse = ["--device", "cpu:half-prompts=bf16"];
    for command in [
        &["run", &model, "hi", "--raw"][..],
        &["bench", &model],
        &["logits", &model, "--tokens", "1,2", "--out", "o"],
        &["chat", &model],
    ] {
        let with = |more: &[&'static str]| [command, &coarse, more].concat();
        let candle = [command, &["--device", "candle:half-prompts=bf16"]].concat();
        let candle = menagerie(home.path(), &candle);
        // Builds without the feature `candle` do not have the device.
        let reasons = ["no option `half-prompts`", "there is no device of this name"];
        assert!(reasons.iter().any(|reason| candle.err.contains(reason)), "{}", candle.err);
        candle.refused_with(&["device candle:half-prompts=bf16"]);
        menagerie(home.path(), &with(&["--exact"])).refused_with(&["--exact", "half-prompts=bf16"]);
        let mut other = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        other.args(with(&[])).current_dir(home.path()).env_clear();
        other.env("HOME", home.path()).env("MENAGERIE_ISA", "portable");
        call(other).refused_with(&["portable", "AVX-512 BF16", "help: leave half-prompts at f32"]);
    }
    for (device, words) in [
        ("cpi", &["there is no device of this name", "the nearest is `cpu`", "there are: "][..]),
        ("cpu:half-prompt=bf16", &["no option `half-prompt`", "it has half-prompts"]),
        ("cpu:half-prompts=f16", &["half-prompts=f16", "f32 or bf16"]),
        ("cpu:half-prompts", &["`half-prompts` is neither a number nor an option KEY=VALUE"]),
    ] {
        menagerie(home.path(), &["run", &model, "hi", "--raw", "--device", device]).refused_with(words);
        menagerie(home.path(), &["check", &model, "--device", device]).refused_with(words);
    }
    assert!(!home.path().join("o").exists());
}

#[test]
fn the_coarser_way_changes_logits_a_little_and_is_never_taken_unasked() {
    let home = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        let bytes = std::fs::read(home.path().join(name)).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let values = file.tensor("logits").unwrap().data().to_vec();
        values.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect::<Vec<f32>>()
    };
    let far = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    logits(home.path(), "usual", &[]).good();
    logits(home.path(), "asked", &["--device", "cpu:half-prompts=F32"]).good();
    logits(home.path(), "exact", &["--exact", "--kv-type", "f16"]).good();
    let usual = read("usual");
    assert_eq!(usual, read("asked"));
    // Rounding of f32 sums only: the default is the exact way.
    assert!(far(&usual, &read("exact")) < 1e-4, "{}", far(&usual, &read("exact")));
    let coarse = logits(home.path(), "coarse", &["--device", "cpu:half-prompts=bf16"]);
    if !has_products(home.path()) {
        return coarse.refused_with(&["AVX-512 BF16"]);
    }
    coarse.good();
    let difference = far(&usual, &read("coarse"));
    assert!((1e-4..0.5).contains(&difference), "{difference}");
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let call =
        menagerie(home.path(), &["run", model, "a", "--raw", "-n", "1", "--device", "cpu:half-prompts=bf16"]);
    assert!(call.err.contains("half-prompts=bf16 has no effect"), "{}", call.err);
}

/// Like is compared with like.
#[test]
fn bench_says_how_it_computed() {
    let home = tempfile::tempdir().unwrap();
    let model = f16();
    let bench = |extra: &[&str]| {
        let small = ["bench", &model, "-p", "4", "-n", "2", "-r", "1", "-t", "1"];
        menagerie(home.path(), &[&small[..], extra].concat())
    };
    let json = |extra: &[&str]| {
        serde_json::from_str::<Value>(&bench(&[extra, &["--json"]].concat()).good()).unwrap()
    };
    let report = json(&[]);
    assert_eq!((&report["arithmetic"], &report["device_options"]), (&"fast".into(), &serde_json::json!({})));
    assert_eq!((&report["device"], &report["threads"]), (&"cpu".into(), &1.into()));
    assert_eq!(json(&["--exact"])["arithmetic"], "exact");
    assert!(bench(&[]).good().contains("fast arithmetic"));
    assert!(!bench(&[]).good().contains("half-prompts"));
    assert!(bench(&["--format", "csv"]).good().contains("fast arithmetic"));
    if has_products(home.path()) {
        let coarse = ["--device", "cpu:half-prompts=bf16"];
        assert_eq!(json(&coarse)["device_options"]["half-prompts"], "bf16");
        let csv = bench(&[&["--format", "csv"], &coarse[..]].concat()).good();
        assert!(csv.contains("\"fast arithmetic, half-prompts=bf16\""), "{csv}");
    }
}

#[test]
fn the_help_says_what_it_costs() {
    let home = tempfile::tempdir().unwrap();
    for command in ["run", "chat", "logits", "bench"] {
        let help = menagerie(home.path(), &[command, "--help"]).good();
        for words in ["cpu:half-prompts=bf16", "5e-4 instead of 4e-6", "0.155", "[default: cpu]"] {
            let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(words), "`{words}` is not in:\n{help}");
        }
    }
}
