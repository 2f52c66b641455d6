//! How fast RWKV-7 is by kinds that are linked in, by the plugin linked in, and by the plugin loaded, in turn in one process:
//!
//! `cargo run --release -p menagerie-rwkv7-built-in --example ways -- [MODEL.gguf [PROMPT [DECODE [ROUNDS [THREADS]]]]]`
//!
//! Without a model it is the tests' small one, whose products take so little that the border shows.
#![allow(clippy::unwrap_used)]

use menagerie::engine::{Arithmetic, TextPipeline};
use menagerie::measure::{BenchOptions, bench};
use menagerie_conformance::options;
use std::path::PathBuf;

// Tests use more of it.
#[allow(dead_code)]
#[path = "../tests/rwkv7/way.rs"]
mod way;
use way::Way;

/// Microseconds of the rounds, the best first.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn best(&self) -> f64 {
        self.0[0]
    }

    fn middle(&self) -> f64 {
        self.0[self.0.len() / 2]
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().map_or_else(|| way::model("rwkv7"), PathBuf::from);
    let mut number = |default: usize| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (prompt, decode, rounds, threads) = (number(128), number(200), number(40), number(1));
    let load = options(Arithmetic::Fast).with_threads(threads);
    let pipelines = Way::ALL.map(|way| way.open_at(&model, "rwkv7", &load));
    let mut found: [[Times; 2]; 3] = Default::default();
    for round in 0..=rounds {
        for turn in 0..3 {
            let at = (round + turn) % 3;
            let [prefill, step] = measure(&pipelines[at], prompt, decode);
            // The first round warms up.
            if round > 0 {
                found[at][0].0.push(prefill);
                found[at][1].0.push(step);
            }
        }
    }
    found.iter_mut().flatten().for_each(|times| times.0.sort_by(f64::total_cmp));
    let calls = 2.0 * pipelines[0].config().layers.len() as f64;
    println!("best (median) of {rounds} rounds, {threads} threads; plugin calls of a step: {calls}");
    for (way, [prefill, step]) in Way::ALL.iter().zip(&found) {
        let border = (step.best() - found[0][1].best()) / calls;
        println!(
            "{way:?}: prompt of {prompt} {:.0} us ({:.0}), token {:.2} us ({:.2}), {border:+.3} us a call",
            prefill.best(),
            prefill.middle(),
            step.best(),
            step.middle()
        );
    }
}

/// Microseconds of a prompt, and of a token that is generated.
fn measure(pipeline: &TextPipeline, prompt: usize, decode: usize) -> [f64; 2] {
    let options = BenchOptions::default()
        .with_prompt(prompt)
        .with_generate(decode)
        .with_repetitions(1)
        .with_warm_up(false);
    let result = bench(pipeline, &options, &mut |_| {}).unwrap();
    let [prefill, step] = [result.prompt, result.generate].map(|rate| 1e6 / rate.unwrap().median);
    [prefill * prompt as f64, step]
}
