//! [`TinyRun`]: a tiny random model of a spec, created and run in several ways.

use crate::arguments::spec_reference::SpecSelection;
use crate::failure::Failure;
use menagerie::engine::{EmbeddingOptions, EmbeddingPipeline, GenerateError, KvType, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use menagerie::spec::MetadataValue;
use menagerie::synth::{SynthError, Synthesis, policy, tiny_keys, tiny_value};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

/// Number of tokens: more than the window of the tiny model.
const TOKENS: u32 = 40;

/// Largest difference between two ways of computing the same logits, as a share of the largest logit: sums of some hundred
/// f32 in another order differ in the last bits.
const TOLERANCE: f32 = 1e-4;

/// The result of running a tiny model.
#[derive(Debug, serde::Serialize)]
pub(crate) struct TinyRun {
    /// Number of layers.
    pub(crate) layers: usize,
    /// Width of the residual stream.
    pub(crate) width: usize,
    /// Whether it was also computed in chunks and with the cache, unlike an encoder.
    pub(crate) cached: bool,
    /// Largest difference between two ways, as a share of the largest value.
    pub(crate) difference: f32,
    /// Errors.
    pub(crate) faults: Vec<String>,
}

impl TinyRun {
    /// The result in one line.
    pub(crate) fn line(&self) -> String {
        let Self { layers, width, cached, difference, .. } = self;
        let ways = match cached {
            true => "in one step, in chunks, and one at a time with the cache",
            false => "alone and in a batch",
        };
        format!(
            "a tiny random model ({layers} layers, width {width}) ran {TOKENS} tokens {ways}, with equal results \
             (within {difference:.1e} of the largest)"
        )
    }
}

/// Creates and runs a tiny model of a spec. The inner `Err` is the reason why it could not be created.
pub(crate) fn tiny_run(
    meant: &SpecSelection,
    given: &BTreeMap<String, MetadataValue>,
) -> Result<Result<TinyRun, String>, Failure> {
    let spec = meant.spec()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tiny.gguf");
    if let Err(why) = write(meant, given, &file)? {
        return Ok(Err(why));
    }
    let options = LoadOptions::default().with_threads(1).with_kv_type(KvType::F32);
    let tokens: Vec<u32> = (0..TOKENS).map(|at| (at * 37 + 11) % 150).collect();
    let encoder = spec.document().pointer("/output/head").is_some_and(|head| head == "none");
    let builder = ModelBuilder::new(&file).with_environment(&meant.environment).with_options(&options);
    let run = match encoder {
        true => {
            builder.open_embedding().map_err(Failure::from).and_then(|pipeline| encoded(&pipeline, &tokens))
        }
        false => {
            builder.open_text().map_err(Failure::from).and_then(|pipeline| generated(&pipeline, &tokens))
        }
    };
    match run {
        Ok(run) => Ok(Ok(run)),
        Err(Failure::Failed(why)) => Ok(Err(why.replace(&*file.to_string_lossy(), "the tiny model"))),
        Err(other) => Err(other),
    }
}

/// Writes the tiny model; missing keys are added until it is complete.
fn write(
    meant: &SpecSelection,
    given: &BTreeMap<String, MetadataValue>,
    file: &Path,
) -> Result<Result<(), String>, Failure> {
    let spec = meant.spec()?;
    let mut keys = tiny_keys(&spec, given);
    let policy = policy("F32")?;
    loop {
        let synthesis = Synthesis { spec: &spec, keys: keys.clone(), tied: false, policy: &policy, seed: 1 };
        match menagerie::synth::write(&synthesis, file, &mut |_, _| ControlFlow::Continue(())) {
            Ok(()) => return Ok(Ok(())),
            Err(SynthError::MissingKey { key, .. }) if !keys.contains_key(&key) => {
                let value = tiny_value(&key);
                keys.insert(key, value);
            }
            Err(error) => {
                return Ok(Err(error.to_string().replace(&*file.to_string_lossy(), "the tiny model")));
            }
        }
    }
}

fn generated(pipeline: &LoadedModel<TextPipeline>, tokens: &[u32]) -> Result<TinyRun, Failure> {
    let ways = [(None, None), (Some(7), None), (None, Some(5)), (None, None)];
    let mut given = Vec::new();
    let names = ["in one step", "in chunks of 7", "one at a time from token 5 on", "a second time"];
    let mut failed = Vec::new();
    for ((chunk, decode_from), name) in ways.into_iter().zip(names) {
        let options = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
        match logits(pipeline, tokens, &options) {
            Ok(logits) => given.push((name, logits.values)),
            // Bidirectional models cannot be computed in several steps.
            Err(GenerateError::Chunked { .. } | GenerateError::LooksAhead) => {}
            Err(error) => {
                failed.push(format!("computed {name}: {error}"));
                break;
            }
        }
    }
    let config = pipeline.config();
    let (layers, width) = (config.layers.len(), config.embedding_length);
    let cached = given.len() == ways.len();
    Ok(judged(TinyRun { layers, width, cached, difference: 0.0, faults: failed }, &given))
}

fn encoded(pipeline: &LoadedModel<EmbeddingPipeline>, tokens: &[u32]) -> Result<TinyRun, Failure> {
    let (mut given, mut failed) = (Vec::new(), Vec::new());
    let ways = [("alone", &[tokens][..]), ("in a batch with another text", &[&tokens[..9], tokens])];
    for (name, texts) in ways {
        match pipeline.embed(texts, &EmbeddingOptions::default()).pop().transpose() {
            Ok(last) => given.push((name, last.unwrap_or_default())),
            Err(error) => {
                failed.push(format!("computed {name}: {error}"));
                break;
            }
        }
    }
    let width = given.first().map_or(0, |(_, values)| values.len());
    let layers = pipeline.resolved().config().layers.len();
    Ok(judged(TinyRun { layers, width, cached: false, difference: 0.0, faults: failed }, &given))
}

/// Compares the first way with the others.
fn judged(mut run: TinyRun, given: &[(&str, Vec<f32>)]) -> TinyRun {
    let Some(((_, first), others)) = given.split_first() else { return run };
    let largest = first.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    if first.iter().any(|value| !value.is_finite()) {
        run.faults.push("its outputs are not finite".to_owned());
        return run;
    }
    if first.windows(2).all(|pair| pair[0] == pair[1]) {
        run.faults.push("all its outputs are equal: something multiplies everything by 0".to_owned());
    }
    for (name, other) in others {
        let apart =
            first.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest.max(1e-30);
        run.difference = run.difference.max(apart);
        if other.len() != first.len() || apart > TOLERANCE {
            run.faults.push(format!("computed {name}, its outputs differ by {apart:.1e} of the largest"));
        }
    }
    run
}
