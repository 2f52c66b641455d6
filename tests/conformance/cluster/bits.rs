//! The bits of the whole model, from stages of a cluster.

use super::stages::Cluster;
use menagerie::engine::{Arithmetic, Event, Request, SchedulerOptions, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{AdapterOption, LoadOptions, ModelBuilder};
use menagerie::spec::AdapterKind;
use menagerie_conformance::suite::zoo::model_file;
use menagerie_conformance::{Reference, fixtures, options};
use std::path::{Path, PathBuf};

pub(crate) fn base(name: &str) -> PathBuf {
    fixtures().join("base").join(name).join("model-f32.gguf")
}

pub(crate) fn prompt(folder: &Path) -> Vec<u32> {
    Reference::open(&folder.join("reference.safetensors")).ids("tokens_prompt")
}

fn bits(pipeline: &TextPipeline, tokens: &[u32], chunk: usize, decode_from: Option<usize>) -> Vec<u32> {
    let how = LogitsOptions::default().with_chunk(Some(chunk)).with_decode_from(decode_from);
    let logits = logits(pipeline, tokens, &how).unwrap_or_else(|error| panic!("{error}"));
    logits.values.iter().map(|value| value.to_bits()).collect()
}

/// Compares the prompt in chunks, and decoded from its middle.
fn compare(file: &Path, load: &LoadOptions, stages: impl IntoIterator<Item = usize>, tokens: &[u32]) {
    let whole = ModelBuilder::new(file).with_options(load).open_text().unwrap();
    let ways = [(5, None), (7, Some(tokens.len() / 2))];
    let expected = ways.map(|(chunk, decode_from)| bits(&whole, tokens, chunk, decode_from));
    for of in stages {
        let cluster = Cluster::with_stages(file, load, of);
        let split = cluster.open(file, load).unwrap_or_else(|error| panic!("{error}"));
        let found = ways.map(|(chunk, decode_from)| bits(&split, tokens, chunk, decode_from));
        assert!(expected == found, "{} in {of} stages", file.display());
        assert!(cluster.meters.lock().unwrap().iter().all(|meter| meter.counts().steps > 0));
    }
}

#[test]
fn two_and_three_stages_of_a_base_model_give_the_bits_of_one() {
    let tokens = prompt(&fixtures().join("base/qwen2"));
    compare(&base("qwen2"), &options(Arithmetic::Fast), 2..=3, &tokens);
    compare(&base("qwen2"), &options(Arithmetic::Exact), [1], &tokens);
}

/// Recurrent layers, windows, and latent attention.
#[test]
fn four_stages_of_other_architectures_give_the_bits_of_one() {
    for name in ["jamba", "gemma2", "kimi-linear"] {
        let folder = fixtures().join("zoo").join(name);
        compare(&model_file(&folder), &options(Arithmetic::Fast), [4], &prompt(&folder));
    }
    let folder = fixtures().join("zoo/deepseek2-lite");
    compare(&model_file(&folder), &options(Arithmetic::Fast), [3], &prompt(&folder));
}

/// Tokens and log probabilities of several sequences in one scheduler.
fn generated(pipeline: &TextPipeline, prompts: &[Vec<u32>]) -> Vec<(Vec<u32>, Vec<u32>)> {
    let room = SchedulerOptions::default()
        .with_sequences(prompts.len())
        .with_capacity_tokens(400)
        .with_step_tokens(16)
        .with_prefixes(0);
    let mut queue = pipeline.queue(room).unwrap();
    let requests = (0..prompts.len()).map(|index| Request::greedy(6 + index).with_logprobs(1));
    let ids: Vec<_> =
        prompts.iter().zip(requests).map(|(prompt, request)| queue.submit(prompt, &request)).collect();
    let mut seen: Vec<(Vec<u32>, Vec<u32>)> = vec![Default::default(); prompts.len()];
    let outcomes = queue.run(|request, event| {
        if let Event::Token { id, logprob, .. } = event {
            let index = ids.iter().position(|one| *one == request).unwrap();
            seen[index].0.push(id);
            seen[index].1.push(logprob.unwrap().to_bits());
        }
    });
    outcomes.into_iter().for_each(|(_, outcome)| drop(outcome.unwrap()));
    seen
}

#[test]
fn a_batch_with_an_adapter_gives_the_bits_of_one() {
    let path = fixtures().join("lora/llama/adapters/a0");
    let adapter = AdapterOption { kind: AdapterKind::Lora, path, weight: 0.7 };
    let (plain, file) = (options(Arithmetic::Fast), base("llama"));
    let load = plain.clone().with_adapters(vec![adapter]);
    let tokens = prompt(&fixtures().join("base/llama"));
    let prompts: Vec<Vec<u32>> = (0..4).map(|index| tokens[..tokens.len() - 3 * index].to_vec()).collect();
    let whole = |load: &LoadOptions| {
        generated(&ModelBuilder::new(&file).with_options(load).open_text().unwrap(), &prompts)
    };
    let expected = whole(&load);
    assert_ne!(expected[0].1, whole(&plain)[0].1, "the adapter acts");
    let cluster = Cluster::with_stages(&file, &load, 3);
    assert_eq!(expected, generated(&cluster.open(&file, &load).unwrap(), &prompts));
}
