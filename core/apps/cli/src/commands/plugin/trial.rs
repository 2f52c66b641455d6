//! [`Trial`]: the test of a component in tiny random models, run in several ways that must produce the same logits.

use super::cases::TestCases;
use crate::failure::Failure;
use menagerie::engine::{
    Arithmetic, GenerateError, LogitRows, Scheduler, SchedulerOptions, StepOutput, TextPipeline,
};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::model::KvType;
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use menagerie::plugin_host::LoadedPlugin;
use menagerie::registry::{Environment, FolderKind, SpecFolder, SpecFolders};
use menagerie::spec::MetadataValue;
use menagerie::spec::kind::{Family, FieldDefault, FieldType, Kind};
use menagerie::synth::{SynthError, Synthesis, policy, tiny_keys, tiny_value};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Id of the specs of the test models, and the name of their files.
const ID: &str = "plugin-check";

/// Largest difference between two ways of computing the same logits, as a share of the largest logit: all are f32 sums of
/// the same numbers, in the same order.
const TOLERANCE: f32 = 1e-4;

/// Width, blocks and seed of the models.
const SHAPES: [(i64, i64, u64); 3] = [(64, 3, 1), (96, 2, 2), (160, 1, 3)];

/// Factors of the embedding: usual values, zeros, and large values.
const SCALES: [&str; 3] = ["1", "0", "1000"];

/// Values for an option without a default, tried one after the other until one is accepted.
const COUNTS: [&str; 4] = ["16", "8", "4", "1"];
const REALS: [&str; 4] = ["0.5", "1", "2", "0.1"];

/// The result of testing a component.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Trial {
    /// Models that were run.
    pub(crate) models: usize,
    /// Number of ways in which each model was run.
    pub(crate) ways: usize,
    /// Largest difference between two ways, as a share of the largest logit.
    pub(crate) difference: f32,
    /// Values of options without a default.
    pub(crate) options: BTreeMap<String, String>,
    /// Errors.
    pub(crate) faults: Vec<String>,
}

/// Every shape with every scale.
pub(super) fn grid() -> impl ExactSizeIterator<Item = ((i64, i64, u64), &'static str)> {
    (0..SHAPES.len() * SCALES.len()).map(|at| (SHAPES[at / SCALES.len()], SCALES[at % SCALES.len()]))
}

/// The description of a case of the grid.
pub(super) fn case((width, layers, _): (i64, i64, u64), scale: &str) -> String {
    format!("{layers} layers of width {width}, embedding times {scale}")
}

/// Tests a plugin's component of models; `given` are values of its options.
pub(crate) fn trial(
    plugin: &LoadedPlugin,
    kind: &Kind,
    given: &BTreeMap<String, String>,
    environment: &Environment,
) -> Result<Trial, Failure> {
    let mut trial = Trial::default();
    let mut cases = TestCases::of(plugin, grid().len());
    let mut refused = None;
    for attempt in 0..COUNTS.len() {
        let options = options(kind, given, attempt);
        match open(kind, &options, SHAPES[0], SCALES[0], environment) {
            Ok(_) => {
                trial.options = options;
                refused = None;
                break;
            }
            Err(Failure::Failed(why)) => refused = refused.or(Some(why)),
            Err(other) => return Err(other),
        }
        if !needs_options(kind) {
            break;
        }
    }
    if let Some(why) = refused {
        trial.faults.push(format!("no model with it could be created: {why}"));
        return Ok(trial);
    }
    for (shape, scale) in grid() {
        let opened = open(kind, &trial.options, shape, scale, environment).map_err(said);
        let result = opened.and_then(|pipeline| compared(&pipeline, &tokens(shape.2), &mut trial));
        if cases.note(case(shape, scale), result).is_break() {
            break;
        }
    }
    trial.faults = cases.faults();
    Ok(trial)
}

fn needs_options(kind: &Kind) -> bool {
    kind.options.fields.iter().any(|field| field.default == FieldDefault::Required)
}

/// Options as TOML values: the given ones, and a value to try for each option without a default.
fn options(kind: &Kind, given: &BTreeMap<String, String>, attempt: usize) -> BTreeMap<String, String> {
    let mut options = given.clone();
    for field in kind.options.fields.iter().filter(|field| field.default == FieldDefault::Required) {
        let value = match &field.ty {
            FieldType::Count => COUNTS[attempt].to_owned(),
            FieldType::Name(list) => format!("\"{}\"", list.names[attempt % list.names.len()].name),
            _ => REALS[attempt].to_owned(),
        };
        options.entry(field.name.to_owned()).or_insert(value);
    }
    options
}

/// A spec with the component. There is no norm before it, so that its input has extreme values.
fn spec(kind: &Kind, options: &BTreeMap<String, String>, scale: &str) -> String {
    let fields: String = options.iter().map(|(name, value)| format!(", {name} = {value}")).collect();
    let table = format!("{{ kind = \"{}\"{fields} }}", kind.name);
    let attention = "{ kind = \"attention\", heads = 2, kv_heads = 2, key_dim = 16, value_dim = 16ROPE }";
    let rotary = ", rope = { kind = \"rotary\", pairs = \"halves\", dims = 16, base = 10000FREQUENCIES }";
    let frequencies = format!(", frequencies = {table}");
    let rope =
        if kind.family == Family::Rope { rotary.replace("FREQUENCIES", &frequencies) } else { String::new() };
    let attention = attention.replace("ROPE", &rope);
    let norm =
        if kind.family == Family::Norm { table.clone() } else { "{ kind = \"rms\", eps = 1e-5 }".to_owned() };
    let mixer = if kind.family == Family::Mixer { table.clone() } else { attention };
    let activation = if kind.family == Family::Activation { table.clone() } else { "\"silu\"".to_owned() };
    let feed_forward = match kind.family {
        Family::FeedForward => table,
        _ => format!("{{ kind = \"gated\", activation = {activation} }}"),
    };
    // The tested component reads the stream without a norm.
    let pre = |role: &str, tried: bool| if tried { String::new() } else { format!("pre = \"{role}\"\n") };
    let (mixes, feeds) =
        (kind.family == Family::Mixer, matches!(kind.family, Family::FeedForward | Family::Activation));
    format!(
        "schema = 1\nnorm = {norm}\nmixer = {mixer}\nfeed_forward = {feed_forward}\n\n[architecture]\nid = \"{ID}\"\n\n\
         [provenance]\nreference = \"paper\"\nsource = \"plugin check\"\ncovers = \"plugin check\"\n\n\
         [embedding]\nscale = {scale}\n\n[block.mixer]\n{}\n[block.feed_forward]\n{}\n\
         [output]\nnorm = \"output_norm\"\nhead = \"own\"\n",
        pre("attn_norm", mixes),
        pre("ffn_norm", feeds),
    )
}

/// A tiny random model with the component, opened.
pub(super) fn open(
    kind: &Kind,
    options: &BTreeMap<String, String>,
    (width, layers, seed): (i64, i64, u64),
    scale: &str,
    installed: &Environment,
) -> Result<LoadedModel<TextPipeline>, Failure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(format!("{ID}.toml"));
    std::fs::write(&path, spec(kind, options, scale))?;
    let folders = vec![SpecFolder { path, kind: FolderKind::File }];
    let environment = installed.with_spec_folders(SpecFolders::default().with_folders(folders))?;
    let Some(entry) = environment.architecture(ID) else {
        return Err(Failure::Failed("the spec was not found".to_owned()));
    };
    let spec = entry.spec().clone()?;
    let given = [
        ("embedding_length".to_owned(), MetadataValue::Integer(width)),
        ("block_count".to_owned(), MetadataValue::Integer(layers)),
    ];
    let mut keys = tiny_keys(&spec, &given.into_iter().collect());
    let file = folder.path().join("tiny.gguf");
    loop {
        let policy = policy("F32")?;
        let synthesis = Synthesis { spec: &spec, keys: keys.clone(), tied: false, policy: &policy, seed };
        match menagerie::synth::write(&synthesis, &file, &mut |_, _| ControlFlow::Continue(())) {
            Ok(()) => break,
            Err(SynthError::MissingKey { key, .. }) if !keys.contains_key(&key) => {
                let value = tiny_value(&key);
                keys.insert(key, value);
            }
            Err(error) => return Err(named(&error.to_string(), &file)),
        }
    }
    // Read into memory, because the folder is removed before the model is dropped.
    let options = LoadOptions::default()
        .with_threads(2)
        .with_kv_type(KvType::F32)
        .with_arithmetic(Arithmetic::Exact)
        .with_mmap(false);
    let builder = ModelBuilder::new(&file).with_environment(&environment).with_options(&options);
    builder.open_text().map_err(|error| named(&error.to_string(), &file))
}

fn named(error: &str, file: &Path) -> Failure {
    Failure::Failed(error.replace(&*file.to_string_lossy(), "the tiny model"))
}

/// The name of a way of computing logits, and its result.
type WayLogits<'w> = (&'w str, Vec<f32>);

/// The tokens of a test.
pub(super) fn tokens(seed: u64) -> Vec<u32> {
    (0..40).map(|at| (at * 37 + 11 + seed as u32) % 150).collect()
}

/// Computes logits in every way and compares them.
pub(super) fn compared(pipeline: &TextPipeline, tokens: &[u32], trial: &mut Trial) -> Result<(), String> {
    let ways = ways(pipeline, tokens)?;
    trial.models += 1;
    trial.ways = trial.ways.max(ways.len());
    let (first, others) = (&ways[0].1, &ways[1..]);
    if first.iter().any(|value| !value.is_finite()) {
        return Err("its logits are not finite".to_owned());
    }
    let largest = first.iter().fold(1e-30f32, |most, value| most.max(value.abs()));
    for (name, other) in others {
        if other.len() != first.len() {
            return Err(format!("{name}: {} logits instead of {}", other.len(), first.len()));
        }
        let apart = first.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest;
        trial.difference = trial.difference.max(apart);
        // NaN is not a small difference.
        if apart.is_nan() || apart > TOLERANCE {
            return Err(format!(
                "{name}: the logits differ from those in one step by {apart:.1e} of the largest"
            ));
        }
    }
    Ok(())
}

pub(super) fn said(failure: Failure) -> String {
    match failure {
        Failure::Failed(why) | Failure::Usage(why) => why,
        other => format!("{other:?}"),
    }
}

fn ways<'w>(pipeline: &TextPipeline, tokens: &[u32]) -> Result<Vec<WayLogits<'w>>, String> {
    let logits = |chunk, decode_from| {
        let options = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
        logits(pipeline, tokens, &options).map(|logits| logits.values)
    };
    let mut ways = vec![("in one step", logits(None, None).map_err(|error| error.to_string())?)];
    ways.push(("a second time", logits(None, None).map_err(|error| error.to_string())?));
    let parts = [
        ("in chunks of 7", Some(7), None),
        ("in chunks of 1", Some(1), None),
        ("one at a time from token 5 on", None, Some(5)),
    ];
    for (name, chunk, decode_from) in parts {
        match logits(chunk, decode_from) {
            Ok(values) => ways.push((name, values)),
            // Bidirectional models cannot be computed in several steps.
            Err(GenerateError::Chunked { .. } | GenerateError::LooksAhead) => {}
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
    for (name, place) in [("first of three in a batch", 0), ("last of three in a batch", 2)] {
        let batch = beside(pipeline, tokens, place).map_err(|error| format!("{name}: {error}"))?;
        ways.push((name, batch));
    }
    Ok(ways)
}

/// Logits of tokens in a step with two other sequences, at index `place` of the batch.
fn beside(pipeline: &TextPipeline, tokens: &[u32], place: usize) -> Result<Vec<f32>, GenerateError> {
    let mut prompts: Vec<Vec<u32>> = vec![vec![3, 1, 4, 1, 5], (7..30).collect()];
    prompts.insert(place, tokens.to_vec());
    let total = prompts.iter().map(Vec::len).sum();
    let room = SchedulerOptions::default()
        .with_sequences(prompts.len())
        .with_prefixes(0)
        .with_capacity_tokens(total)
        .with_step_tokens(total);
    let mut scheduler = Scheduler::new(Arc::clone(pipeline.engine()), pipeline.hooks().clone(), room)?;
    let mut sequences = Vec::new();
    for prompt in &prompts {
        let mut sequence = scheduler.create()?;
        scheduler.begin(&mut sequence, prompt, LogitRows::All)?;
        sequences.push(sequence);
    }
    let step = scheduler.step(&mut sequences.iter_mut().collect::<Vec<_>>(), None);
    let (mut own, mut failed) = (Vec::new(), None);
    step.each(&mut |index, output| match output.and_then(StepOutput::logits) {
        Ok(rows) if index == place => own = rows.to_vec(),
        Ok(_) => {}
        Err(error) => drop(failed.get_or_insert(error)),
    });
    failed.map_or(Ok(own), Err)
}
