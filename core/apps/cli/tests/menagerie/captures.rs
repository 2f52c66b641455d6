//! `--capture` and `--profile`: what a run leaves behind beside its answer.

use super::{chat_model, fed, fixture, menagerie};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const RUN: [&str; 8] = ["--raw", "-n", "6", "--temp", "0", "--ignore-eos", "--json", "--exact"];

fn gguf(name: &str) -> String {
    fixture(&format!("base/{name}/model-f32.gguf")).display().to_string()
}

fn with<'a>(one: &[&'a str], other: &[&'a str]) -> Vec<&'a str> {
    [one, other].concat()
}

/// Shapes of the tensors of a safetensors file.
fn shapes(path: &Path) -> BTreeMap<String, Vec<usize>> {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    file.tensors().into_iter().map(|(name, view)| (name, view.shape().to_vec())).collect()
}

/// What one run captured is what another computes: a prompt and tokens fed one by one against one prompt.
#[test]
fn what_was_captured_is_a_reference_for_other_runs() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), gguf("llama"));
    let run = with(&["run", &model, "hello there, who are you?"], &RUN);
    menagerie(home, &with(&run, &["--capture", "layers=all,at=attn_out|ffn_out|l_out", "all.safetensors"]))
        .good();
    let found = shapes(&home.join("all.safetensors"));
    let tokens = found["tokens"][0];
    assert!(tokens > 10 && !found.contains_key("positions"), "{found:?}");
    assert_eq!(found.keys().filter(|name| name.contains('-')).count(), 9, "{found:?}");
    assert_eq!(found["l_out-2"], [tokens, 64]);
    let check = |file: &str| {
        let said = menagerie(home, &["check", &model, "--reference", file, "--json", "--exact"]);
        (said.code, serde_json::from_str::<Value>(&said.out).unwrap())
    };
    let (code, said) = check("all.safetensors");
    assert_eq!((code, said["compared"].as_array().unwrap().len()), (Some(0), 9), "{said}");
    // What was generated alone, of one layer.
    menagerie(home, &with(&run, &["--capture", "layers=1,phase=decode", "decode.safetensors"])).good();
    let found = shapes(&home.join("decode.safetensors"));
    // The last token is not fed.
    assert_eq!((&found["positions"][..], &found["l_out-1"][..]), (&[5][..], &[5, 64][..]));
    assert_eq!(found.len(), 3, "{found:?}");
    let (code, said) = check("decode.safetensors");
    assert_eq!((code, said["compared"][0]["rows"].as_u64()), (Some(0), Some(5)), "{said}");
    // The prompt in chunks, by `logits`.
    let logits = [
        "logits",
        &model,
        "--tokens",
        "1,2,3,4,5,6,7,8,9",
        "--out",
        "l.safetensors",
        "--exact",
        "--chunk",
        "4",
    ];
    let capture = ["--decode-from", "7", "--capture", "layers=0-1,phase=prefill", "p.safetensors"];
    menagerie(home, &with(&logits, &capture)).good();
    assert_eq!(shapes(&home.join("p.safetensors"))["l_out-0"], [7, 64]);
    assert_eq!(check("p.safetensors").0, Some(0));
    // Another model's are told apart.
    let vector = fixture("control/a.gguf").display().to_string();
    let steered = ["--control-vector", &vector, "--capture", "layers=all", "steered.safetensors"];
    menagerie(home, &with(&run, &steered)).good();
    let (code, said) = check("steered.safetensors");
    assert_eq!(code, Some(1), "{said}");
    let passed: Vec<bool> =
        said["compared"].as_array().unwrap().iter().map(|one| one["passed"].as_bool().unwrap()).collect();
    assert_eq!(
        passed,
        [true, false, false],
        "what a layer leaves is captured with what was added to it: {said}"
    );
}

#[test]
fn captures_that_cannot_be_are_refused_and_leave_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), gguf("llama"));
    let run = with(&["run", &model, "hello"], &RUN);
    let capture = |what: &str, file: &str| menagerie(home, &with(&run, &["--capture", what, file]));
    capture("layers=x", "c.safetensors").refused_with(&["--capture layers=x", "`x` is not a layer"]);
    capture("layers=1-3", "c.safetensors").fails_with(&["layer 3 is past the last one of this model, 2"]);
    let one = with(&run, &["-n", "1", "--capture", "phase=decode", "c.safetensors"]);
    menagerie(home, &one).fails_with(&["c.safetensors: nothing was captured"]);
    assert_eq!(std::fs::read_dir(home).unwrap().count(), 0);
    std::fs::write(home.join("mine.safetensors"), "mine").unwrap();
    capture("layers=all", "mine.safetensors").fails_with(&["mine.safetensors: exists", "--force"]);
    capture("layers=all", &model).fails_with(&["model-f32.gguf"]);
    menagerie(home, &with(&run, &["--profile=mine.safetensors"])).fails_with(&["mine.safetensors: exists"]);
}

/// Parts of layers lie within their layer, layers within their step; bytes are those of the weights.
#[test]
fn a_profile_is_a_table_and_a_trace() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), gguf("llama"));
    let run = with(&["run", &model, "hello there"], &RUN);
    let call = menagerie(home, &with(&run, &["--profile=trace.json"]));
    assert_eq!(call.code, Some(0), "{call:?}");
    for words in
        ["prompt: ", "generation: 5 tokens in 5 steps", "feed-forwards", "ms/token", "GB/s", "sampling"]
    {
        assert!(call.err.contains(words), "{words}: {}", call.err);
    }
    let trace: Value = serde_json::from_slice(&std::fs::read(home.join("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|one| one["name"] == name).collect::<Vec<_>>();
    let count = |name: &str| named(name).len();
    assert_eq!([count("step"), count("layer"), count("mixer"), count("head")], [6, 18, 18, 6]);
    assert_eq!([count("feed-forward"), count("norm"), count("sampling")], [18, 36, 6]);
    assert_eq!([count("embedding"), count("request")], [6, 2], "a beginning and an end");
    let span = |one: &Value| {
        (one["ts"].as_f64().unwrap(), one["ts"].as_f64().unwrap() + one["dur"].as_f64().unwrap())
    };
    let within = |inner: &Value, outer: &str| {
        let (start, end) = span(inner);
        named(outer).into_iter().map(span).filter(|(from, to)| *from <= start && end <= *to + 1e-3).count()
            == 1
    };
    assert!(named("layer").into_iter().all(|one| within(one, "step")));
    assert!(named("mixer").into_iter().all(|one| within(one, "layer")));
    // Four projections of [64, 64], two of them of half as many rows, in f32; three matrices of [128, 64].
    let bytes = |one: &Value| one["args"]["weight_bytes"].as_u64().unwrap();
    assert!(named("mixer").into_iter().all(|one| bytes(one) == 4 * 64 * (64 + 32 + 32 + 64)));
    assert!(named("feed-forward").into_iter().all(|one| bytes(one) == 4 * 3 * 128 * 64));
    assert!(named("head").into_iter().all(|one| bytes(one) == 4 * 384 * 64));
    let quiet = menagerie(home, &with(&run, &["--profile"]));
    assert!(quiet.err.contains("generation: 5 tokens") && quiet.code == Some(0));
    assert_eq!(std::fs::read_dir(home).unwrap().count(), 1);
}

/// A conversation leaves what it holds when it ends: turns that were answered again count once.
#[test]
fn a_conversation_is_captured_and_profiled() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = chat_model(home);
    let usual = ["chat", &model, "-n", "4", "--temp", "0", "--ignore-eos", "--exact"];
    let look = ["--capture", "layers=all,at=l_out", "c.safetensors", "--profile=trace.json"];
    let call = fed(home, &[&usual[..], &look].concat(), b"first\nsecond\n/regen\n");
    assert!(
        call.err.contains("generation: ") && call.err.contains("c.safetensors: 3 tensors"),
        "{}",
        call.err
    );
    call.good();
    let found = shapes(&home.join("c.safetensors"));
    assert!(found["tokens"][0] > 20 && !found.contains_key("positions"), "{found:?}");
    let check = ["check", &model, "--reference", "c.safetensors", "--json", "--exact"];
    let said: Value = serde_json::from_str(&menagerie(home, &check).good()).unwrap();
    assert_eq!(said["compared"].as_array().unwrap().len(), 3, "{said}");
    let trace: Value = serde_json::from_slice(&std::fs::read(home.join("trace.json")).unwrap()).unwrap();
    let requests = trace["traceEvents"].as_array().unwrap().iter().filter(|one| one["name"] == "request");
    assert_eq!(requests.count(), 2 * 3, "three answers, a beginning and an end of each");
    fed(home, &[&usual[..], &look].concat(), b"").fails_with(&["c.safetensors: exists", "--force"]);
}

#[test]
fn a_bench_is_profiled() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), gguf("llama"));
    let bench = ["bench", &model, "-p", "8", "-n", "3", "-r", "1", "--json"];
    let call = menagerie(home, &with(&bench, &["--profile=trace.json"]));
    // Two warm-ups of both, a prompt and three tokens.
    assert!(call.err.contains("generation: 7 tokens in 7 steps"), "{}", call.err);
    assert!(call.err.contains("prompt: ") && call.err.contains("GB/s"), "{}", call.err);
    serde_json::from_str::<Value>(&call.good()).unwrap();
    let trace = std::fs::read(home.join("trace.json")).unwrap();
    assert!(serde_json::from_slice::<Value>(&trace).unwrap()["traceEvents"].is_array());
    menagerie(home, &with(&bench, &["--profile=trace.json"])).fails_with(&["trace.json: exists"]);
}
