//! What does not fit together is refused, with both sides named.

use super::bits::{base, prompt};
use super::stages::{Cluster, LONG, Start};
use menagerie::engine::{Arithmetic, Request};
use menagerie::open::StageShare;
use menagerie_conformance::{fixtures, options};
use std::time::{Duration, Instant};

#[test]
fn other_weights_and_options_are_named_on_both_sides() {
    let load = options(Arithmetic::Fast);
    let file = base("llama");
    // The same name and layers, and other weights.
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("model-f32.gguf");
    std::fs::copy(base("qwen2"), &other).unwrap();
    let cluster = Cluster::with_stages(&other, &load, 1);
    let said = cluster.open(&file, &load).err().unwrap().to_string();
    for word in
        ["weights: the stage has ", " bytes, ", "the head has ", "spec: the stage has qwen2 ", "layers 0-2"]
    {
        assert!(said.contains(word), "`{word}` is not in {said}");
    }
    let reports = cluster.reports.lock().unwrap().join("\n");
    assert!(reports.contains("is refused: ") && reports.contains("weights: the stage has "), "{reports}");

    let cluster = Cluster::with_stages(&file, &options(Arithmetic::Exact), 1);
    let said = cluster.open(&file, &load).err().unwrap().to_string();
    assert!(said.contains("arithmetic: the stage has exact, the head has fast"), "{said}");
    assert!(!said.contains("weights:"), "{said}");
}

#[test]
fn missing_layers_are_named() {
    let (load, file) = (options(Arithmetic::Fast), base("llama"));
    let cluster = Cluster::new();
    cluster.start(Start { file: &file, load: &load, share: StageShare::Layers(0..1), replica: "main" });
    let said = cluster.open_within(&file, &load, Duration::from_millis(300)).err().unwrap().to_string();
    assert!(said.contains("waiting for layers 1 to 2 of replica main"), "{said}");
    // A replica of its own does not complete it.
    cluster.start(Start { file: &file, load: &load, share: StageShare::Layers(1..3), replica: "b" });
    let said = cluster.open_within(&file, &load, Duration::from_millis(300)).err().unwrap().to_string();
    assert!(said.contains("waiting for layer 0 of replica b"), "{said}");
    cluster.start(Start { file: &file, load: &load, share: StageShare::Layers(1..3), replica: "main" });
    cluster.open(&file, &load).unwrap();
    // Another cluster sees none of them.
    let said =
        Cluster::new().open_within(&file, &load, Duration::from_millis(300)).err().unwrap().to_string();
    assert!(said.contains("waiting for layers 0 to 2") && said.contains("no node of this cluster"), "{said}");
}

#[test]
fn a_second_head_is_refused_until_the_first_has_ended() {
    let (load, file) = (options(Arithmetic::Fast), base("llama"));
    let cluster = Cluster::with_stages(&file, &load, 2);
    let first = cluster.open(&file, &load).unwrap();
    let asked = Instant::now();
    let said = cluster.open(&file, &load).err().unwrap().to_string();
    assert!(asked.elapsed() < LONG / 2, "{:?}", asked.elapsed());
    assert!(said.contains("serves another head") && said.contains("(process "), "{said}");
    let tokens = prompt(&fixtures().join("base/llama"));
    let answer = |pipeline: &menagerie::engine::TextPipeline| {
        pipeline.session().unwrap().generate(&tokens, &Request::greedy(8), |_| ()).unwrap().tokens
    };
    let tokens_of_first = answer(&first);
    drop(first);
    let second = cluster.open(&file, &load).unwrap();
    assert_eq!(tokens_of_first, answer(&second));
}
