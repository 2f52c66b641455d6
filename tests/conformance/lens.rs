//! The logit lens: against transformers, and its last layer against the model, bit for bit.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::{
    Arithmetic, KvType, LensOptions, LensRow, LogitLens, Outcome, Prompt, Request, SchedulerOptions,
    TextPipeline,
};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder, StageOptions};
use menagerie_conformance::{Reference, fixtures, options};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

fn path(name: &str) -> PathBuf {
    let file = if name.starts_with("base/") { "model-f32.gguf" } else { "model-f16.gguf" };
    fixtures().join(name).join(file)
}

fn open_with(name: &str, options: &LoadOptions) -> LoadedModel<TextPipeline> {
    let path = path(name);
    let opened = ModelBuilder::new(&path).with_options(options).open_text();
    opened.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn open(name: &str) -> LoadedModel<TextPipeline> {
    open_with(name, &options(Arithmetic::Fast).with_kv_type(Some(KvType::F32)))
}

fn tokens_of(name: &str) -> Vec<u32> {
    Reference::open(&fixtures().join(name).join("reference.safetensors")).ids("tokens_prompt")[..24].to_vec()
}

/// An answer of this many tokens under a lens, in a session.
fn read(
    pipeline: &TextPipeline,
    tokens: &[u32],
    options: LensOptions,
    answer: usize,
) -> (Vec<LensRow>, Outcome) {
    let lens = Arc::new(LogitLens::new(pipeline.engine(), options).unwrap());
    let request = Request::greedy(answer).with_ignore_eos(true).with_lens(Arc::clone(&lens));
    let mut session = pipeline.session().unwrap();
    let outcome = session.generate(Prompt::from(tokens), &request, |_| ()).unwrap();
    (lens.rows(), outcome)
}

/// Each layer has the logits that transformers computes without the layers after it.
#[test]
fn every_layer_agrees_with_transformers() {
    let reference = Reference::open(&fixtures().join("lens/reference.safetensors"));
    for name in ["base/llama", "zoo/gemma2", "zoo/cohere2", "zoo/granite", "zoo/olmo2", "zoo/mamba"] {
        let key = name.rsplit('/').next().unwrap();
        let tokens = reference.ids(&format!("{key}.tokens"));
        let positions = reference.ids(&format!("{key}.positions"));
        let expected = reference.values(&format!("{key}.logits"));
        let pipeline = open(name);
        let chosen: BTreeSet<usize> = positions.iter().map(|at| *at as usize).collect();
        let options = LensOptions::default().with_positions(chosen).with_top(100);
        let (rows, _) = read(&pipeline, &tokens, options, 1);
        let (layers, vocabulary) = (pipeline.engine().model.shape().n_layers, pipeline.vocabulary());
        assert_eq!(expected.len(), layers * positions.len() * vocabulary, "{name}");
        let mut worst = 0.0f32;
        for (place, (row, position)) in rows.iter().zip(&positions).enumerate() {
            assert_eq!((row.position, row.readings.len()), (*position as usize, layers), "{name}");
            for reading in &row.readings {
                let from = (reading.layer * positions.len() + place) * vocabulary;
                let logits = &expected[from..from + vocabulary];
                let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let apart = |id: u32, logit: f32| (logits[id as usize] - logit).abs();
                assert_eq!(reading.top.len(), 100);
                worst = reading.top.iter().fold(worst, |worst, one| worst.max(apart(one.id, one.logit)));
                // The first one is the most likely one there too.
                worst = worst.max((highest - reading.top[0].logit).abs());
                let likelier = logits.iter().filter(|logit| **logit > logits[row.likeliest as usize] + 1e-3);
                assert!(likelier.count() < reading.rank, "{name}: layer {}", reading.layer);
            }
        }
        assert_eq!(rows.len(), positions.len(), "{name}");
        assert!(worst <= 1e-4, "{name}: {worst}");
    }
}

/// Norms before, after and around branches, none at the end, scaled and capped heads, biases of heads, suppressed
/// tokens, loops, per-layer embeddings, experts, recurrent layers, latent attention.
const ALIKE: [&str; 24] = [
    "base/llama",
    "base/phi2",
    "base/mixtral",
    "zoo/bloom",
    "zoo/chameleon",
    "zoo/cohere2",
    "zoo/deepseek2-lite",
    "zoo/falcon-h1",
    "zoo/gemma2",
    "zoo/gemma4",
    "zoo/gpt2",
    "zoo/granite",
    "zoo/grok-2",
    "zoo/kimi-linear",
    "zoo/lfm2",
    "zoo/mamba",
    "zoo/minicpm",
    "zoo/mpt",
    "zoo/nanbeige",
    "zoo/olmo2",
    "zoo/openelm",
    "zoo/qwen3next",
    "zoo/step35",
    "zoo/talkie",
];

#[test]
fn the_last_layer_has_the_bits_of_the_model() {
    for name in ALIKE {
        let (pipeline, tokens) = (open(name), tokens_of(name));
        let (rows, _) = read(&pipeline, &tokens, LensOptions::default().with_top(50), 1);
        let made = logits(&pipeline, &tokens, &LogitsOptions::default()).unwrap();
        assert_eq!(rows.len(), tokens.len(), "{name}");
        for row in &rows {
            let own = made.row(row.position);
            let mut order: Vec<usize> = (0..own.len()).collect();
            order.sort_by(|a, b| own[*b].total_cmp(&own[*a]).then(a.cmp(b)));
            let expected: Vec<(usize, u32)> =
                order.iter().take(50).map(|id| (*id, own[*id].to_bits())).collect();
            let last = row.readings.last().unwrap();
            let found: Vec<(usize, u32)> =
                last.top.iter().map(|token| (token.id as usize, token.logit.to_bits())).collect();
            assert_eq!(found, expected, "{name}: position {}", row.position);
            assert_eq!((last.rank, row.likeliest as usize), (1, order[0]), "{name}");
            let layers: Vec<usize> = row.readings.iter().map(|reading| reading.layer).collect();
            assert_eq!(layers, (0..pipeline.engine().model.shape().n_layers).collect::<Vec<_>>(), "{name}");
        }
    }
}

/// The rows do not depend on the requests that share the steps, on chunks, or on state that exists already.
#[test]
fn a_request_of_a_queue_is_read_as_if_it_were_alone() {
    for name in ["base/llama", "zoo/gemma2", "zoo/mamba"] {
        let (pipeline, tokens) = (open(name), tokens_of(name));
        let options = || LensOptions::default().with_top(3);
        let (alone, outcome) = read(&pipeline, &tokens, options(), 6);
        assert_eq!(alone.len(), tokens.len() + 5, "{name}");
        let room = SchedulerOptions::default().with_sequences(3).with_prefixes(3).with_capacity_tokens(512);
        let mut queue = pipeline.queue(room.with_step_tokens(7)).unwrap();
        let plain = Request::greedy(9).with_ignore_eos(true);
        // The state of the whole prompt is cached, and other requests with it run beside the one with a lens.
        queue.submit(Prompt::from(tokens.clone()), &plain);
        assert!(queue.run(|_, _| ()).iter().all(|(_, result)| result.is_ok()), "{name}");
        let lens = Arc::new(LogitLens::new(pipeline.engine(), options()).unwrap());
        queue.submit(Prompt::from(tokens[..11].to_vec()), &plain);
        let request = Request::greedy(6).with_ignore_eos(true).with_lens(Arc::clone(&lens));
        queue.submit(Prompt::from(tokens.clone()), &request);
        queue.submit(Prompt::from(tokens.clone()), &plain);
        let results = queue.run(|_, _| ());
        assert_eq!(results[1].1.as_ref().unwrap().tokens, outcome.tokens, "{name}");
        assert_eq!(lens.rows(), alone, "{name}");
        // Greedy answers are what the last layer predicts.
        let predicted: Vec<u32> = alone[tokens.len() - 1..].iter().map(|row| row.likeliest).collect();
        assert_eq!(predicted, outcome.tokens, "{name}");
    }
}

#[test]
fn only_the_chosen_layers_and_positions_are_read() {
    let (pipeline, tokens) = (open("base/llama"), tokens_of("base/llama"));
    let (all, _) = read(&pipeline, &tokens, LensOptions::default(), 4);
    let options =
        LensOptions::default().with_layers(BTreeSet::from([1])).with_positions(BTreeSet::from([3, 25, 90]));
    let (some, _) = read(&pipeline, &tokens, options, 4);
    assert_eq!(some.iter().map(|row| row.position).collect::<Vec<_>>(), [3, 25]);
    for row in &some {
        assert_eq!(row.readings, [all[row.position].readings[1].clone()]);
        assert_eq!(row.likeliest, all[row.position].likeliest);
    }
    // A session whose sequence has the prompt already reads it again.
    let mut session = pipeline.session().unwrap();
    let request = Request::greedy(4).with_ignore_eos(true);
    session.generate(Prompt::from(tokens.clone()), &request, |_| ()).unwrap();
    let lens = Arc::new(LogitLens::new(pipeline.engine(), LensOptions::default()).unwrap());
    session.generate(Prompt::from(tokens.clone()), &request.with_lens(Arc::clone(&lens)), |_| ()).unwrap();
    assert_eq!(lens.rows(), all);
}

#[test]
fn models_without_a_lens_say_why() {
    let refused = |pipeline: &TextPipeline, options: LensOptions| {
        LogitLens::new(pipeline.engine(), options).unwrap_err().to_string()
    };
    let said = refused(&open("zoo/hrm_text"), LensOptions::default());
    assert!(said.contains("two streams"), "{said}");
    let pipeline = open("base/llama");
    let said = refused(&pipeline, LensOptions::default().with_layers(BTreeSet::from([0, 3])));
    assert!(said.contains("layer 3 is past the last one of this model, 2"), "{said}");
    assert!(refused(&pipeline, LensOptions::default().with_top(0)).contains("1 to 100"));
    assert!(
        refused(&pipeline, LensOptions::default().with_positions(BTreeSet::new())).contains("a position")
    );
    let staged = open_with("base/llama", &options(Arithmetic::Fast).with_stages(StageOptions::count(2)));
    let said = refused(&staged, LensOptions::default());
    assert!(said.contains("in stages") && said.contains("--stages"), "{said}");
    // A lens of another model.
    let lens = Arc::new(LogitLens::new(pipeline.engine(), LensOptions::default()).unwrap());
    let request = Request::greedy(1).with_lens(lens);
    let said = open("zoo/mamba").session().unwrap().generate(Prompt::from(vec![1, 2]), &request, |_| ());
    let said = said.unwrap_err().to_string();
    assert!(said.contains("was made for a model with 3 layers and 384 tokens"), "{said}");
}
