//! The logits of a model are the same bits whatever the number of threads, mapped or read, and wherever prompts are cut.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{Arithmetic, Event, Request, SamplingOptions};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie_conformance::{fixtures, options};
use std::path::{Path, PathBuf};

/// 150 of the vocabulary's tokens.
fn tokens(vocabulary: usize) -> Vec<u32> {
    (0..150).map(|i| ((i * i * 7 + i * 13 + 5) % vocabulary) as u32).collect()
}

/// Every fixture of a folder: the base models, or the quantized files.
fn models(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(fixtures().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let file = |path: PathBuf| if path.is_dir() { path.join("model-f32.gguf") } else { path };
    let mut models: Vec<PathBuf> =
        entries.map(file).filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    models.sort();
    models
}

/// Bits of the logits: of the prompt cut into `chunk`s, then of ten tokens one at a time.
fn bits(model: &Path, options: &LoadOptions, chunk: usize) -> Vec<u32> {
    let pipeline =
        ModelBuilder::new(model).with_options(options).open_text().unwrap_or_else(|e| panic!("{e}"));
    let tokens = tokens(pipeline.vocabulary());
    let logits =
        logits(&pipeline, &tokens, &LogitsOptions::default().with_chunk(chunk).with_decode_from(140));
    logits.unwrap_or_else(|e| panic!("{e}")).values.iter().map(|value| value.to_bits()).collect()
}

fn every_way_gives_the_same(folder: &str, count: usize) {
    let models = models(folder);
    assert_eq!(models.len(), count);
    for (model, arithmetic) in
        models.iter().flat_map(|model| [(model, Arithmetic::Fast), (model, Arithmetic::Exact)])
    {
        let threads = |threads| options(arithmetic).with_threads(threads);
        let usual = bits(model, &threads(1), 512);
        for (what, options, chunk) in [
            ("2 threads", threads(2), 512),
            ("3 threads", threads(3), 31),
            ("7 threads", threads(7), 512),
            ("the file read", threads(2).with_mmap(false), 512),
            ("chunks of 9", threads(1), 9),
            ("chunks of 64", threads(2), 64),
        ] {
            assert!(bits(model, &options, chunk) == usual, "{}, {arithmetic:?}: {what}", model.display());
        }
    }
}

#[test]
fn base_models() {
    every_way_gives_the_same("base", 9);
}

#[test]
fn quantized_files() {
    every_way_gives_the_same("quant", 14);
}

/// Tokens and their log probabilities to the bit; a mixture and quantized weights.
fn answer(session: &mut menagerie::engine::Session, prompt: &[u32]) -> Vec<(u32, u32)> {
    let sampling = SamplingOptions::default().with_seed(5).with_temperature(1.5);
    let request =
        Request::default().with_sampling(sampling).with_max_tokens(12).with_ignore_eos(true).with_logprobs(0);
    let mut said = Vec::new();
    let mut note = |event: Event| {
        if let Event::Token { id, logprob: Some(logprob), .. } = event {
            said.push((id, logprob.to_bits()));
        }
    };
    session.generate(prompt, &request, &mut note).unwrap();
    said
}

/// The same seed, the same text: also where the prompt, or its beginning, is held from before.
#[test]
fn a_cached_prompt_changes_no_bit() {
    for name in ["quant/Q4_K_M.gguf", "quant/F16.gguf", "base/qwen3moe/model-f32.gguf"] {
        let options = options(Arithmetic::Fast).with_chunk(20);
        let pipeline = ModelBuilder::new(fixtures().join(name)).with_options(&options).open_text().unwrap();
        let prompt: Vec<u32> = tokens(pipeline.vocabulary())[..41].to_vec();
        let mut session = pipeline.session().unwrap();
        let first = answer(&mut session, &prompt);
        assert_eq!(first.len(), 12);
        assert_eq!(answer(&mut session, &prompt), first, "{name}: again");
        for held in [2, 20, 39, 40] {
            let mut session = pipeline.session().unwrap();
            session.generate(&prompt[..held], &Request::greedy(1), |_| {}).unwrap();
            assert_eq!(answer(&mut session, &prompt), first, "{name}: {held} held");
        }
    }
}
