//! A model in stages gives the bits of the whole one: prompt, chunks, single steps, several sequences, adapters.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::{AdapterChoice, Arithmetic, Request, SchedulerOptions, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadError, LoadOptions, LoadedModel, ModelBuilder, StageOptions, StageProbe};
use menagerie_conformance::suite::zoo::{ENCODERS, entries, model_file};
use menagerie_conformance::{Reference, fixtures, options};
use std::path::{Path, PathBuf};

const BASE: [&str; 9] =
    ["llama", "mixtral", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "starcoder2", "mistral3"];

fn base(name: &str) -> PathBuf {
    fixtures().join("base").join(name).join("model-f32.gguf")
}

fn prompt(folder: &Path) -> Vec<u32> {
    Reference::open(&folder.join("reference.safetensors")).ids("tokens_prompt")
}

/// Opened without the comparison that opening makes: the tests make it.
fn split(path: &Path, stages: usize, load: &LoadOptions) -> Result<LoadedModel<TextPipeline>, LoadError> {
    let stages = StageOptions::count(stages).with_probe(StageProbe::Never);
    ModelBuilder::new(path).with_options(&load.clone().with_stages(stages)).open_text()
}

fn whole(path: &Path, load: &LoadOptions) -> LoadedModel<TextPipeline> {
    ModelBuilder::new(path).with_options(load).open_text().unwrap_or_else(|error| panic!("{error}"))
}

fn bits(
    pipeline: &TextPipeline,
    tokens: &[u32],
    chunk: Option<usize>,
    decode_from: Option<usize>,
) -> Vec<u32> {
    let logits =
        logits(pipeline, tokens, &LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from));
    let logits = logits.unwrap_or_else(|error| panic!("{error}"));
    logits.values.iter().map(|value| value.to_bits()).collect()
}

/// What differs: the prompt at once, in chunks, and decoded from its middle.
fn difference(whole: &TextPipeline, split: &TextPipeline, tokens: &[u32]) -> Option<&'static str> {
    let in_parts = !whole.engine().model.is_bidirectional();
    let ways = [
        ("prompt", None, None, true),
        ("chunks of 5", Some(5), None, in_parts),
        ("decoded from the middle", Some(7), Some(tokens.len() / 2), in_parts),
    ];
    let differs = |(_, chunk, decode_from, _): &(&str, Option<usize>, Option<usize>, bool)| {
        bits(whole, tokens, *chunk, *decode_from) != bits(split, tokens, *chunk, *decode_from)
    };
    ways.iter().filter(|way| way.3).find(|way| differs(way)).map(|way| way.0)
}

#[test]
fn two_three_and_four_stages_of_every_base_model_give_the_bits_of_one() {
    for name in BASE {
        let tokens = prompt(&fixtures().join("base").join(name));
        for arithmetic in [Arithmetic::Fast, Arithmetic::Exact] {
            let load = options(arithmetic);
            let one = whole(&base(name), &load);
            let layers = one.engine().model.shape().n_layers;
            for stages in (2..=4).filter(|stages| *stages <= layers) {
                let parts = split(&base(name), stages, &load).unwrap();
                assert_eq!(
                    difference(&one, &parts, &tokens),
                    None,
                    "{name}, {stages} stages, {arithmetic:?}"
                );
            }
        }
    }
}

/// Every decoder of the zoo, in as many stages as its layers allow, up to 4: recurrent ones, windows, latent attention, keys of
/// other layers, rows of the embedding in the layers, slots, blocks that run several times.
#[test]
fn every_decoder_of_the_zoo_gives_the_bits_of_one() {
    let (mut faults, mut refused) = (Vec::new(), Vec::new());
    for entry in entries().iter().filter(|entry| !ENCODERS.contains(&entry.name.as_str())) {
        let (load, file) = (options(Arithmetic::Fast), model_file(&entry.folder()));
        let (one, tokens) = (whole(&file, &load), prompt(&entry.folder()));
        let layers = one.engine().model.shape().n_layers;
        let parts = (2..=layers.min(4)).rev().find_map(|stages| split(&file, stages, &load).ok());
        match parts {
            None => {
                refused.push(format!("{} of {layers}: {}", entry.name, split(&file, 2, &load).err().unwrap()))
            }
            Some(parts) => {
                let differs = difference(&one, &parts, &tokens);
                faults.extend(differs.map(|what| format!("{}: {what}", entry.name)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Nearly all of its layers read the keys of the first ones.
    assert_eq!(refused.len(), 1, "{}", refused.join("\n"));
    assert!(
        refused[0].starts_with("gemma4-full") && refused[0].contains("this model cannot be split"),
        "{}",
        refused[0]
    );
}

#[test]
fn quantized_models_give_the_bits_of_one() {
    let tokens = prompt(&fixtures().join("base/llama"));
    for kind in ["Q4_K_M", "Q8_0", "IQ4_XS", "F16"] {
        let file = fixtures().join("quant").join(format!("{kind}.gguf"));
        let load = options(Arithmetic::Fast);
        let one = whole(&file, &load);
        let vocabulary = one.vocabulary() as u32;
        let tokens: Vec<u32> = tokens.iter().map(|token| token % vocabulary).collect();
        assert_eq!(difference(&one, &split(&file, 2, &load).unwrap(), &tokens), None, "{kind}");
    }
}

/// The limit of longrope's short divisors lies between prompt and end: everything is computed again behind it.
#[test]
fn longrope_crosses_its_limit_in_stages() {
    let reference = Reference::open(&fixtures().join("base/phi3/reference.safetensors"));
    let mut tokens = reference.ids("tokens_cross");
    let start = tokens.len();
    tokens.extend(reference.ids("tokens_cross_greedy"));
    let load = options(Arithmetic::Fast);
    let (one, parts) = (whole(&base("phi3"), &load), split(&base("phi3"), 2, &load).unwrap());
    let limit = parts.engine().model.shape().rope_regime_limit.unwrap();
    assert!(start <= limit && tokens.len() > limit, "{start} to {} cross {limit}", tokens.len());
    assert_eq!(bits(&one, &tokens, Some(16), Some(start)), bits(&parts, &tokens, Some(16), Some(start)));
}

/// What a text, its tokens, and its log probabilities are for each of several sequences in one scheduler.
fn generated(
    pipeline: &TextPipeline,
    prompts: &[Vec<u32>],
    sets: &[AdapterChoice],
) -> Vec<(Vec<u32>, Vec<u32>)> {
    let room = SchedulerOptions::default()
        .with_sequences(prompts.len())
        .with_capacity_tokens(400)
        .with_step_tokens(16)
        .with_prefixes(0);
    let mut queue = pipeline.queue(room).unwrap();
    let requests: Vec<Request> = (0..prompts.len())
        .map(|index| {
            Request::greedy(6 + index).with_adapters(sets[index % sets.len()].clone()).with_logprobs(1)
        })
        .collect();
    let pairs = prompts.iter().zip(&requests);
    let ids: Vec<_> = pairs.map(|(prompt, request)| queue.submit(prompt, request)).collect();
    let mut seen: Vec<(Vec<u32>, Vec<u32>)> = vec![Default::default(); prompts.len()];
    let outcomes = queue.run(|request, event| {
        if let menagerie::engine::Event::Token { id, logprob, .. } = event {
            let index = ids.iter().position(|one| *one == request).unwrap();
            seen[index].0.push(id);
            seen[index].1.push(logprob.unwrap().to_bits());
        }
    });
    outcomes.into_iter().for_each(|(_, outcome)| drop(outcome.unwrap()));
    seen
}

#[test]
fn sequences_with_different_adapters_share_steps_in_stages() {
    let folder = fixtures().join("lora/llama/adapters");
    let load = options(Arithmetic::Exact);
    let tokens = prompt(&fixtures().join("base/llama"));
    let prompts: Vec<Vec<u32>> = (0..4).map(|index| tokens[..tokens.len() - 3 * index].to_vec()).collect();
    let answers = |pipeline: &LoadedModel<TextPipeline>| {
        for name in ["a0", "a1"] {
            pipeline.load_adapter(name, folder.join(name)).unwrap();
        }
        let set = |members: &[(&str, f32)]| AdapterChoice::Set(pipeline.adapter_set(members).unwrap());
        let sets =
            [set(&[("a0", 1.0)]), AdapterChoice::Bare, set(&[("a0", 0.7), ("a1", 0.4)]), set(&[("a1", 1.0)])];
        generated(pipeline, &prompts, &sets)
    };
    let one = answers(&whole(&base("llama"), &load));
    for stages in [2, 3] {
        assert_eq!(one, answers(&split(&base("llama"), stages, &load).unwrap()), "{stages} stages");
    }
    assert_ne!(one[0].1[0], one[3].1[0], "adapters act");
}

/// Going back, and beginning again: recurrent states are put back from copies that the stages keep.
#[test]
fn sessions_go_back_in_stages_as_in_one() {
    for (file, stages) in [
        (base("llama"), 2),
        (model_file(&fixtures().join("zoo/jamba")), 2),
        (model_file(&fixtures().join("zoo/gemma3")), 2),
    ] {
        let load = options(Arithmetic::Fast).with_chunk(6);
        let one = whole(&file, &load);
        let parts = split(&file, stages, &load).unwrap();
        let vocabulary = one.vocabulary() as u32;
        let tokens: Vec<u32> = (0..40).map(|index| (index * 37 + 5) % vocabulary).collect();
        let request = Request::greedy(5).with_logprobs(1);
        let mut said: Vec<Vec<(u32, u32)>> = Vec::new();
        for pipeline in [&one, &parts] {
            let mut session = pipeline.session().unwrap();
            let mut seen = Vec::new();
            for length in [20, 31, 17, 40] {
                let mut prompt = tokens[..length].to_vec();
                prompt[length - 1] = (length as u32 * 3) % vocabulary;
                let outcome = session.generate(&prompt, &request, |event| {
                    if let menagerie::engine::Event::Token { id, logprob, .. } = event {
                        seen.push((id, logprob.unwrap().to_bits()));
                    }
                });
                outcome.unwrap();
            }
            said.push(seen);
        }
        assert_eq!(said[0], said[1], "{}", file.display());
    }
}

#[test]
fn a_split_model_is_compared_with_the_whole_one_when_it_is_opened() {
    let load = options(Arithmetic::Fast).with_stages(StageOptions::count(2));
    ModelBuilder::new(base("llama")).with_options(&load).open_text().unwrap();
}

#[test]
fn what_cannot_be_split_is_refused_by_name() {
    let load = options(Arithmetic::Fast);
    let error = split(&base("llama"), 99, &load).err().unwrap().to_string();
    assert!(error.contains("99 stages for a model of 3 layers: expected 1 to 3"), "{error}");
    let layers = |ranges: &[std::ops::Range<usize>]| {
        let stages = StageOptions::layers(ranges.to_vec());
        let load = load.clone().with_stages(stages);
        ModelBuilder::new(base("llama")).with_options(&load).open_text().err().map(|error| error.to_string())
    };
    assert!(layers(&[0..1, 2..3]).unwrap().contains("expected them to begin at 1"));
    assert!(layers(std::slice::from_ref(&(0..1))).unwrap().contains("the stages end with layer 0"));
    let encoder = model_file(&fixtures().join("zoo/bert"));
    let error = split(&encoder, 2, &load).err().unwrap().to_string();
    assert!(error.contains("encoder"), "{error}");
}
