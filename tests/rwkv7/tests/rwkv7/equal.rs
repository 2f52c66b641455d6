//! Whichever way the arithmetic is reached, the bits are the same and the time is nearly so; and it is said whose it is.

use crate::way::{MODELS, Way, reference};
use menagerie::engine::Arithmetic;
use menagerie::measure::{BenchOptions, LogitsOptions, bench, logits};
use menagerie_conformance::options;

#[test]
fn every_way_gives_the_same_bits() {
    for (name, arithmetic) in
        MODELS.iter().flat_map(|name| [Arithmetic::Fast, Arithmetic::Exact].map(|how| (name, how)))
    {
        let tokens = &reference(name).ids("tokens_long")[..120];
        let bits = |way: Way, threads| -> Vec<u32> {
            let pipeline = way.open(name, &options(arithmetic).with_threads(threads));
            let cut = LogitsOptions::default().with_chunk(50).with_decode_from(100);
            logits(&pipeline, tokens, &cut).unwrap().values.iter().map(|value| value.to_bits()).collect()
        };
        let usual = bits(Way::BuiltIn, 1);
        for (way, threads) in [(Way::Linked, 1), (Way::Library, 1), (Way::Library, 2)] {
            assert!(bits(way, threads) == usual, "{name}, {arithmetic:?}: {way:?} on {threads} threads");
        }
    }
}

/// The example `ways` measures. Builds for tests are not optimized and machines are busy, so the bound is wide: this sees what is
/// done again at every call and belongs to assembly.
#[test]
fn the_border_costs_little() {
    let pipelines = Way::ALL.map(|way| way.open("rwkv7", &options(Arithmetic::Fast)));
    let mut best = [f64::INFINITY; 3];
    for round in 0..30 {
        for turn in 0..3 {
            let at = (round + turn) % 3;
            let options = BenchOptions::default()
                .with_prompt(0)
                .with_generate(4)
                .with_repetitions(1)
                .with_warm_up(false);
            let rate = bench(&pipelines[at], &options, &mut |_| {}).unwrap().generate.unwrap();
            best[at] = best[at].min(1e6 / rate.max);
        }
    }
    let [built_in, linked, library] = best;
    println!("a token: built in {built_in:.1} us, linked in {linked:.1} us, loaded {library:.1} us");
    assert!(library < 3.0 * linked && library < 10.0 * built_in, "{best:?}");
}

#[test]
fn it_is_said_whose_the_architecture_is() {
    let pipeline = Way::Linked.open("rwkv7", &options(Arithmetic::Fast));
    let origin = pipeline.resolved().origin.to_string();
    assert!(origin.contains("menagerie/rwkv7"), "{origin}");
    let told = Way::Library.open("rwkv7", &options(Arithmetic::Fast));
    let (resolved, shadowed) = (told.resolved(), "menagerie/rwkv7");
    assert!(resolved.shadows.as_ref().unwrap().to_string().contains(shadowed), "{:?}", resolved.shadows);
}
