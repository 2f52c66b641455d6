//! Adapters that come and go while others generate. Alone in its process, because it measures the memory of all of it.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::engine::{AdapterChoice, Arithmetic, Request};
use menagerie::open::ModelBuilder;
use menagerie_conformance::{Reference, fixtures, options};
use std::sync::atomic::{AtomicBool, Ordering};

/// Kilobytes of this process that are in memory.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A thousand adapters come and go while another thread generates: memory stays, and no token of the other changes.
#[test]
fn adapters_come_and_go_while_others_generate() {
    let model = fixtures().join("base").join("llama").join("model-f32.gguf");
    let folder = fixtures().join("lora").join("llama");
    let pipeline = ModelBuilder::new(&model).with_options(&options(Arithmetic::Fast)).open_text().unwrap();
    pipeline.load_adapter("a1", folder.join("adapters").join("a1")).unwrap();
    let reference = Reference::open(&folder.join("lora_reference.safetensors"));
    let prompt = reference.ids("tokens_prompt");
    let kept =
        Request::greedy(12).with_adapters(AdapterChoice::Set(pipeline.adapter_set(&[("a1", 1.0)]).unwrap()));
    let expected = &reference.ids("a1.tokens_greedy")[..12];
    let path = folder.join("adapters").join("a0");
    let stop = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let generating = scope.spawn(|| {
            let (mut rounds, mut session) = (0, pipeline.session().unwrap());
            while !stop.load(Ordering::Relaxed) || rounds == 0 {
                let outcome = session.generate(&prompt, &kept, |_| {}).unwrap();
                assert_eq!(outcome.tokens, expected, "round {rounds}");
                rounds += 1;
            }
            rounds
        });
        let mut before = None;
        for round in 0..1000 {
            pipeline.load_adapter("passing", &path).unwrap();
            let set = pipeline.adapter_set(&[("passing", 1.0)]).unwrap();
            assert!(pipeline.adapters().unload("passing"));
            drop(set);
            if round == 200 {
                before = resident();
            }
        }
        stop.store(true, Ordering::Relaxed);
        if let (Some(before), Some(after)) = (before, resident()) {
            println!("resident: {before} kB after 200 loads, {after} kB after 1000");
            assert!(after <= before + 4096, "{before} kB after 200 loads, {after} kB after 1000");
        }
        generating.join().unwrap()
    });
    println!("{rounds} generations meanwhile");
    assert!(!pipeline.adapters().names().contains(&"passing".to_owned()));
}
