//! What stages in processes are given beside the model: hooks, X-LoRA, mixtures, weights that are quantized or read into memory;
//! and what they give back: activations and times.
#![cfg(unix)]

use super::{fixture, menagerie};
use serde_json::Value;
use std::path::{Path, PathBuf};

const TOKENS: &str = "3,14,15,9,26,5,35,8,97,93,2,38,46,26,43";

const PLACES: [&[&str]; 4] = [
    &[],
    &["--stages", "2"],
    &["--stage-processes", "2"],
    &["--stage-processes", "3", "--stage-layers", "0-0,1-1,2-2"],
];

/// What `logits` writes of a model with these options.
fn logits(home: &Path, model: &str, more: &[&str]) -> Vec<u8> {
    let mut arguments =
        vec!["logits", model, "--tokens", TOKENS, "--decode-from", "11", "--chunk", "4", "-t", "1"];
    arguments.extend(["--force", "--out", "l.safetensors"]);
    arguments.extend(more);
    menagerie(home, &arguments).good();
    std::fs::read(home.join("l.safetensors")).unwrap()
}

fn llama() -> String {
    fixture("base/llama/model-f32.gguf").display().to_string()
}

/// The same bytes in one piece, in stages on threads and in processes; and others than those without these options.
fn same_everywhere(home: &Path, model: &str, more: &[&str], bare: Option<&str>) {
    let one = logits(home, model, more);
    if let Some(bare) = bare {
        assert!(one != logits(home, bare, &[]), "{more:?} changes something");
    }
    for place in &PLACES[1..] {
        assert!(one == logits(home, model, &[more, place].concat()), "{model} {more:?} with {place:?}");
    }
}

#[test]
fn control_vectors_steer_processes() {
    let home = tempfile::tempdir().unwrap();
    let (a, b) = (fixture("control/a.gguf"), fixture("control/b.gguf"));
    let weighted = format!("{}=-1.5", b.display());
    let a = a.display().to_string();
    let both = ["--control-vector", a.as_str(), "--control-vector", weighted.as_str()];
    same_everywhere(home.path(), &llama(), &both, Some(&llama()));
    let last = ["--control-vector", a.as_str(), "--control-vector-layers", "2-2"];
    same_everywhere(home.path(), &llama(), &last, Some(&llama()));
}

#[test]
fn x_lora_mixes_in_processes() {
    let home = tempfile::tempdir().unwrap();
    let folder = fixture("lora/llama/xlora");
    let mut variants: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    variants.sort();
    for variant in &variants {
        let variant = variant.display().to_string();
        same_everywhere(home.path(), &llama(), &["--xlora", &variant], Some(&llama()));
    }
    // Together with what acts between layers.
    let (variant, vector) =
        (variants[0].display().to_string(), fixture("control/a.gguf").display().to_string());
    same_everywhere(home.path(), &llama(), &["--xlora", &variant, "--control-vector", &vector], None);
}

/// Weights that are made or read by each stage for its layers.
#[test]
fn weights_need_not_be_mapped() {
    let home = tempfile::tempdir().unwrap();
    let (llama, folder) = (llama(), fixture("base/llama/hf").display().to_string());
    same_everywhere(home.path(), &llama, &["--quant", "q8_0"], Some(&llama));
    same_everywhere(home.path(), &llama, &["--no-mmap"], None);
    same_everywhere(home.path(), &llama, &["--no-mmap", "--quant", "q4_k_m"], Some(&llama));
    same_everywhere(home.path(), &folder, &["--no-mmap"], None);
    same_everywhere(home.path(), &folder, &["--quant", "q4_0"], Some(&folder));
    let quantized = fixture("quant/Q4_K_M.gguf").display().to_string();
    let two = ["--no-mmap", "--stage-processes", "2"];
    assert!(logits(home.path(), &quantized, &[]) == logits(home.path(), &quantized, &two));
    // The type of caches follows the types that weights have in the stages.
    let said = |more: &[&str]| {
        let arguments = ["run", &llama, "hi", "--raw", "-n", "2", "--temp", "0", "--ignore-eos", "--json"];
        menagerie(home.path(), &[&arguments[..], more].concat()).good()
    };
    let strip = |text: String| {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value["seconds"].take();
        value["seed"].take();
        value
    };
    let (one, parts) = (said(&["--quant", "q8_0"]), said(&["--quant", "q8_0", "--stage-processes", "2"]));
    assert_eq!(strip(one), strip(parts));
}

/// A recipe of a base and two fine-tunes, one of them a folder, with a trained gate.
fn recipe(home: &Path, choose: &str) {
    for name in ["base.gguf", "tuned-b.gguf", "topics.json"] {
        std::fs::copy(fixture("mixture/llama").join(name), home.join(name)).unwrap();
    }
    let tuned = fixture("mixture/llama/tuned-a").canonicalize().unwrap();
    let text = format!(
        "schema = 1\n[recipe]\nbase = \"base.gguf\"\n[mixture]\nlayers = [0, 2]\ngate = \"gate.safetensors\"\nchoose = {choose:?}\n\
         [[mixture.experts]]\nfrom = {:?}\n[[mixture.experts]]\nfrom = \"tuned-b.gguf\"\n",
        tuned.display().to_string()
    );
    std::fs::write(home.join("mine.recipe.toml"), text).unwrap();
    let train = ["train-gate", "mine.recipe.toml", "topics.json", "--raw", "--epochs", "3", "--force"];
    menagerie(home, &train).good();
}

#[test]
fn mixtures_run_in_processes() {
    let home = tempfile::tempdir().unwrap();
    recipe(home.path(), "token");
    let model = "mine.recipe.toml";
    same_everywhere(home.path(), model, &[], Some("base.gguf"));
    same_everywhere(home.path(), model, &["--no-mmap"], None);
    same_everywhere(home.path(), model, &["--quant", "q8_0"], Some(model));
    // One that chooses for whole prompts, in one step.
    recipe(home.path(), "prompt");
    let whole = ["--chunk", "512"];
    let one = logits(home.path(), model, &whole);
    for place in &PLACES[1..] {
        assert!(one == logits(home.path(), model, &[&whole[..], place].concat()), "{place:?}");
    }
}

#[test]
fn captures_of_processes_are_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = llama();
    let run = ["run", &model, "hello there, who are you?", "--raw", "-n", "6", "--temp", "0", "--ignore-eos"];
    let capture = |what: &str, more: &[&str]| {
        let capture = ["--capture", what, "c.safetensors", "--force", "--chunk", "4"];
        menagerie(home, &[&run[..], &capture, more].concat()).good();
        let bytes = std::fs::read(home.join("c.safetensors")).unwrap();
        std::fs::remove_file(home.join("c.safetensors")).unwrap();
        bytes
    };
    for what in ["layers=all,at=attn_out|ffn_out|l_out", "layers=1-2,phase=decode", "layers=0,phase=prefill"]
    {
        let one = capture(what, &[]);
        for place in &PLACES[1..] {
            assert!(one == capture(what, place), "{what} with {place:?}");
        }
    }
    let logits = |more: &[&str]| {
        logits(home, &model, &[&["--capture", "layers=all", "c.safetensors"][..], more].concat());
        std::fs::read(home.join("c.safetensors")).unwrap()
    };
    assert!(logits(&[]) == logits(&["--stage-processes", "3"]));
    // Nothing is left of what the stages kept, nor of a file that could not be.
    std::fs::remove_file(home.join("c.safetensors")).unwrap();
    let nothing = ["-n", "1", "--capture", "phase=decode", "c.safetensors", "--stage-processes", "2"];
    menagerie(home, &[&run[..], &nothing].concat()).fails_with(&["c.safetensors: nothing was captured"]);
    let left: Vec<_> = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["l.safetensors"]);
}

/// A lane for each stage, on one clock: a stage begins the next chunk before the one after it has ended the last. Where others leave
/// these processes one core for a while nothing overlaps: it is tried several times.
#[test]
fn a_trace_of_processes_shows_that_chunks_overlap() {
    let home = tempfile::tempdir().unwrap();
    for place in [["--stages", "2"], ["--stage-processes", "2"]] {
        let mut tried = (0..10).map(|_| overlapping_chunks(home.path(), &place));
        assert!(tried.any(|overlapping| overlapping >= 3), "{place:?}: 3 chunks never overlap");
    }
}

/// How many chunks of a prompt overlap in the file that `run --profile` writes.
fn overlapping_chunks(home: &Path, place: &[&str]) -> usize {
    let (model, prompt) = (llama(), "hello there ".repeat(60));
    let run = ["run", &model, &prompt, "--raw", "-n", "3", "--temp", "0", "--ignore-eos", "--chunk", "20"];
    let profile = ["-t", "1", "--force", "--profile=trace.json"];
    let call = menagerie(home, &[&run[..], &profile, place].concat());
    assert_eq!(call.code, Some(0), "{call:?}");
    for words in ["\nstage ", "\nlayer  stage", "generation: 2 tokens in 2 steps"] {
        assert!(call.err.contains(words), "{words:?}: {}", call.err);
    }
    let bytes = std::fs::read(home.join("trace.json")).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str, process: u64| -> Vec<(f64, f64)> {
        let of = events.iter().filter(|one| one["name"] == name && one["pid"] == process);
        let span = |one: &Value| (one["ts"].as_f64().unwrap(), one["dur"].as_f64().unwrap_or(0.0));
        of.map(span).map(|(start, time)| (start, start + time)).collect()
    };
    let names = events.iter().filter(|one| one["name"] == "process_name");
    let names: Vec<&str> = names.map(|one| one["args"]["name"].as_str().unwrap()).collect();
    assert!(names.len() == 3 && names[1].starts_with("stage 0 (") && names[2].starts_with("stage 1 ("));
    let (first, second) = (named("step", 2), named("step", 3));
    assert!(first.len() > 10 && first.len() == second.len() && first.len() == named("step", 1).len());
    // What a stage is given is there before: clocks agree, but for what is lost in microseconds.
    assert!(first.iter().zip(&second).all(|(first, second)| first.1 <= second.0 + 10.0), "{place:?}");
    let within = |inner: &[(f64, f64)], outer: &[(f64, f64)]| {
        inner.iter().all(|one| outer.iter().any(|of| of.0 <= one.0 + 1e-3 && one.1 <= of.1 + 1e-3))
    };
    for process in [2, 3] {
        assert!(within(&named("layer", process), &named("step", process)));
        assert!(within(&named("mixer", process), &named("layer", process)));
    }
    assert_eq!(named("layer", 2).len() + named("layer", 3).len(), 3 * first.len());
    assert_eq!((named("embedding", 3).len(), named("head", 2).len()), (0, 0));
    assert_eq!((named("sampling", 1).len(), named("sampling", 2).len()), (3, 0));
    (0..first.len() - 3).filter(|&at| first[at + 1].0 < second[at].1).count()
}
