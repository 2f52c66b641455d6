//! Every fuzz target over its corpus and some thousand mutated inputs. `FUZZ_INPUTS` sets how many, `FUZZ_SEED` which.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_fuzz::{Mutator, TARGETS, Target, replay};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Inputs of each target, if the time allows.
const INPUTS: u64 = 4000;

/// Longest time for the inputs of one target, so that a busy machine replays fewer.
const LONGEST: Duration = Duration::from_secs(10);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn check(name: &str) {
    let target = Target::find(name).unwrap();
    for (number, seed) in (target.seeds)().iter().enumerate() {
        assert!((target.run)(seed), "{name}: seed {number} is refused");
    }
    let (inputs, seed) = (number("FUZZ_INPUTS", INPUTS), number("FUZZ_SEED", 1));
    let limit = if inputs > INPUTS { Duration::MAX } else { LONGEST };
    let began = Instant::now();
    let done = replay(target, seed, &mut |number| number < inputs && began.elapsed() < limit);
    let done = done.unwrap_or_else(|(input, reason)| {
        let path = std::env::temp_dir().join(format!("menagerie-fuzz-{name}"));
        std::fs::write(&path, input).unwrap();
        panic!(
            "{name}: {reason}; `cargo run -p menagerie-fuzz -- input {name} {}` repeats it",
            path.display()
        )
    });
    println!("{name}: {done:?}");
    // The mutations are worth something: some inputs are still valid, and some are not.
    let corpus = target.corpus().len() as u64;
    assert!(done.accepted > (target.seeds)().len() as u64, "{name}: {done:?} of a corpus of {corpus}");
    assert!(done.accepted < done.inputs, "{name}: {done:?}: every mutated input is valid");
}

#[test]
fn gguf() {
    check("gguf");
}

#[test]
fn safetensors() {
    check("safetensors");
}

#[test]
fn spec() {
    check("spec");
}

#[test]
fn template() {
    check("template");
}

#[test]
fn tokenizer() {
    check("tokenizer");
}

#[test]
fn block_file() {
    check("block-file");
}

#[test]
fn state_file() {
    check("state-file");
}

#[test]
fn stage_frame() {
    check("stage-frame");
}

#[test]
fn every_target_has_a_test_and_inputs_are_reproducible() {
    let source = include_str!("replay.rs");
    for target in &TARGETS {
        assert!(source.contains(&format!("check(\"{}\")", target.name)), "{} has no test", target.name);
        let (mut one, mut two) = (Mutator::new(target, 9), Mutator::new(target, 9));
        assert!((0..20).all(|_| one.input() == two.input()), "{}", target.name);
    }
    assert_eq!(TARGETS.len(), 8);
}

/// The runner reports what it looks for.
#[test]
fn a_panic_and_unbounded_memory_are_findings() {
    let seeds = || vec![vec![1, 2, 3]];
    let panics = Target { name: "panics", run: |input| input[..2] == [0, 0], seeds, words: &[] };
    let (input, reason) = replay(&panics, 1, &mut |_| true).unwrap_err();
    assert!(input.len() < 2 && reason == "it panicked", "{reason}");
    let hungry =
        Target { name: "hungry", run: |_| black_box(vec![0_u8; 200 << 20]).len() > 5, seeds, words: &[] };
    let (_, reason) = replay(&hungry, 1, &mut |_| false).unwrap_err();
    assert_eq!(reason, "it took 200 MiB of memory; at most 128 are allowed");
}
