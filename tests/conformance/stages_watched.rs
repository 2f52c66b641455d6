//! What acts between layers and what watches them, of a model in stages: hooks, control vectors, captures, traces, X-LoRA. Each
//! gives the bits of the whole model.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::{
    Arithmetic, Capture, CaptureOptions, PhaseProfile, PipelineHooks, Request, ScalingLog, TextPipeline,
    write_trace,
};
use menagerie::measure::{ControlVectorOption, LogitsOptions, SteeringOptions, logits, steering};
use menagerie::model::{
    Checkpoint, Effect, HookInput, LayerHook, ModelError, Part, Phases, Rows, StageTrace, Trace,
};
use menagerie::open::{AdapterOption, LoadOptions, LoadedModel, ModelBuilder, StageOptions, StageProbe};
use menagerie::spec::AdapterKind;
use menagerie_conformance::suite::zoo::model_file;
use menagerie_conformance::{Reference, fixtures, options};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

fn llama() -> PathBuf {
    fixtures().join("base/llama/model-f32.gguf")
}

fn open(path: &Path, stages: Option<usize>, load: &LoadOptions) -> LoadedModel<TextPipeline> {
    let split = |count| StageOptions::count(count).with_probe(StageProbe::Never);
    let load = load.clone().with_stages(stages.map(split));
    ModelBuilder::new(path)
        .with_options(&load)
        .open_text()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn tokens(count: u32, pipeline: &TextPipeline) -> Vec<u32> {
    let vocabulary = pipeline.vocabulary() as u32;
    (0..count).map(|index| (index * 37 + 5) % vocabulary).collect()
}

/// A prompt in chunks, then single tokens.
fn in_fives() -> LogitsOptions {
    LogitsOptions::default().with_chunk(5).with_decode_from(13)
}

fn bits(pipeline: &TextPipeline, tokens: &[u32]) -> Vec<u32> {
    let made = logits(pipeline, tokens, &in_fives()).unwrap_or_else(|error| panic!("{error}"));
    made.values.iter().map(|value| value.to_bits()).collect()
}

/// Multiplies what goes into some layers or comes out of them, and notes which it saw.
struct Scaling {
    layers: Range<usize>,
    phases: Phases,
    before: f32,
    after: f32,
    seen: Mutex<Vec<(usize, usize)>>,
}

impl Scaling {
    fn new(layers: Range<usize>, phases: Phases, [before, after]: [f32; 2]) -> Arc<Self> {
        Arc::new(Self { layers, phases, before, after, seen: Mutex::default() })
    }

    /// Layer and first position of what it saw, sorted: stages work side by side.
    fn seen(&self) -> Vec<(usize, usize)> {
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.sort_unstable();
        seen
    }
}

impl LayerHook for Scaling {
    fn name(&self) -> &str {
        "test/scaling"
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn effect(&self) -> Effect {
        Effect::Replaces(format!("{} {}", self.before, self.after))
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        let backend = &shown.compute.backend;
        backend.scale(backend.copy(shown.rows)?, self.before).map(Some)
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        let backend = &shown.compute.backend;
        backend.scale(backend.copy(shown.rows)?, self.after).map(Some)
    }

    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<(), ModelError> {
        if checkpoint == Checkpoint::FfnOut {
            let first = |part: &menagerie::model::SequenceRows| (shown.layer, part.first_position);
            self.seen.lock().unwrap().extend(shown.layout.sequences().iter().map(first));
        }
        Ok(())
    }
}

/// Hooks of Rust, over boundaries of stages and within them, of one phase and of both; and taken away again.
#[test]
fn hooks_act_in_the_stage_that_has_their_layers() {
    for file in
        [llama(), model_file(&fixtures().join("zoo/jamba")), model_file(&fixtures().join("zoo/gemma3"))]
    {
        let load = options(Arithmetic::Fast);
        let layers = open(&file, None, &load).engine().model.shape().n_layers;
        let made = |stages: Option<usize>| {
            let hooks = [
                Scaling::new(0..layers, Phases::All, [0.9, 1.25]),
                Scaling::new(1..2, Phases::Decode, [1.5, 0.75]),
                Scaling::new(layers - 1..layers, Phases::Prefill, [1.0, -1.0]),
            ];
            let mut pipeline = open(&file, stages, &load);
            let bare = bits(&pipeline, &tokens(20, &pipeline));
            hooks.iter().for_each(|hook| pipeline.add_hook(Arc::clone(hook) as _));
            let hooked = bits(&pipeline, &tokens(20, &pipeline));
            let seen = hooks.map(|hook| hook.seen());
            *pipeline.hooks_mut() = PipelineHooks::default();
            assert_eq!(bits(&pipeline, &tokens(20, &pipeline)), bare, "without hooks again");
            (bare, hooked, seen)
        };
        let one = made(None);
        assert_ne!(one.0, one.1, "hooks act");
        assert_eq!(one.2[1].len(), 7, "a layer, token by token: {:?}", one.2[1]);
        for stages in (2..=3).filter(|stages| *stages <= layers) {
            assert!(one == made(Some(stages)), "{}, {stages} stages", file.display());
        }
    }
}

struct Failing;

impl LayerHook for Failing {
    fn name(&self) -> &str {
        "test/failing"
    }

    fn layers(&self) -> Range<usize> {
        2..3
    }

    fn at(&self, _: Checkpoint, shown: &HookInput) -> Result<(), ModelError> {
        let decodes = shown.layout.rows() == 1;
        match decodes {
            true => {
                Err(ModelError::Hook { hook: "test/failing".to_owned(), reason: "had enough".to_owned() })
            }
            false => Ok(()),
        }
    }
}

#[test]
fn an_error_of_a_hook_names_stage_layer_and_position() {
    let mut pipeline = open(&llama(), Some(3), &options(Arithmetic::Fast));
    pipeline.add_hook(Arc::new(Failing));
    let error = logits(&pipeline, &tokens(20, &pipeline), &in_fives()).unwrap_err().to_string();
    for words in ["stage 2 (layer 2)", "position 13", "layer 2: hook test/failing: had enough"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    *pipeline.hooks_mut() = PipelineHooks::default();
    let one = open(&llama(), None, &options(Arithmetic::Fast));
    assert_eq!(bits(&pipeline, &tokens(20, &pipeline)), bits(&one, &tokens(20, &one)));
}

#[test]
fn control_vectors_steer_stages_as_one_model() {
    let vector =
        |name: &str, scale| ControlVectorOption { path: fixtures().join("control").join(name), scale };
    for (given, layers) in [
        (vec![vector("a.gguf", 1.0)], None),
        (vec![vector("a.gguf", 0.5), vector("b.gguf", -1.5)], None),
        (vec![vector("a.gguf", 1.0)], Some(1..=1)),
    ] {
        for arithmetic in [Arithmetic::Fast, Arithmetic::Exact] {
            let made = |stages| {
                let mut pipeline = open(&llama(), stages, &options(arithmetic));
                let how = SteeringOptions::default().with_layers(layers.clone()).with_hint(None);
                let steering = steering(&pipeline, &given, &how).unwrap();
                pipeline.add_hook(Arc::new(steering));
                bits(&pipeline, &tokens(20, &pipeline))
            };
            let one = made(None);
            for stages in [2, 3] {
                assert!(one == made(Some(stages)), "{given:?}, {stages} stages, {arithmetic:?}");
            }
        }
    }
}

/// Bytes of the file that a capture writes.
fn captured(stages: Option<usize>, how: &CaptureOptions) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut pipeline = open(&llama(), stages, &options(Arithmetic::Fast));
    let capture = Arc::new(Capture::new(folder.path(), how.clone(), 3).unwrap());
    pipeline.add_hook(Arc::clone(&capture) as _);
    let mut session = pipeline.session().unwrap();
    let prompt = tokens(30, &pipeline);
    let outcome = session.generate(&prompt, &Request::greedy(6), |_| {}).unwrap();
    pipeline.settle().unwrap();
    let mut out = Vec::new();
    capture.write(&[&prompt[..], &outcome.tokens].concat(), &mut out).unwrap();
    out
}

#[test]
fn captures_are_the_same_bytes() {
    let all = CaptureOptions::default().with_places(Checkpoint::ALL[..2].to_vec());
    let some = CaptureOptions::default().with_layers(1..=2).with_phases(Phases::Decode);
    for how in [all, some] {
        let one = captured(None, &how);
        for stages in [2, 3] {
            assert!(one == captured(Some(stages), &how), "{stages} stages, {how:?}");
        }
    }
}

/// Every part of every layer is noted once, in the stage that has it; prompts overlap in the file.
#[test]
fn traces_have_a_lane_for_each_stage() {
    let load = options(Arithmetic::Fast).with_chunk(40);
    let counts = |trace: &Trace, stages: &[StageTrace], decodes| {
        let profile = PhaseProfile::of(trace, stages, 3, decodes);
        let layers: Vec<_> = profile
            .layers
            .iter()
            .map(|layer| (layer.whole.count, layer.whole.rows, layer.whole.bytes))
            .collect();
        let parts: Vec<_> = profile.parts.iter().map(|(name, sum)| (*name, sum.count)).collect();
        (profile.steps, profile.tokens, layers, parts)
    };
    let run = |stages: Option<usize>| {
        let mut pipeline = open(&llama(), stages, &load);
        let trace = Arc::new(Trace::new(10_000));
        pipeline.hooks_mut().trace = Some(Arc::clone(&trace));
        let mut session = pipeline.session().unwrap();
        session.generate(tokens(400, &pipeline), &Request::greedy(4), |_| {}).unwrap();
        let stages = pipeline.stage_traces(&trace).unwrap();
        (trace, stages)
    };
    let (one, none) = run(None);
    assert!(none.is_empty());
    let (own, stages) = run(Some(3));
    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["stage 0 (layer 0)", "stage 1 (layer 1)", "stage 2 (layer 2)"]);
    for decodes in [false, true] {
        assert_eq!(counts(&own, &stages, decodes), counts(&one, &[], decodes));
        let profile = PhaseProfile::of(&own, &stages, 3, decodes);
        assert_eq!(profile.layers.iter().map(|layer| layer.stage).collect::<Vec<_>>(), [0, 1, 2].map(Some));
        assert!(profile.stages.iter().all(|stage| stage.count == profile.steps), "{:?}", profile.stages);
    }
    for (index, stage) in stages.iter().enumerate() {
        let (spans, left_out) = stage.trace.spans();
        assert!(
            left_out == 0 && spans.iter().all(|span| span.of.layer.is_none_or(|of| of as usize == index))
        );
        assert_eq!(spans.iter().any(|span| span.of.part == Part::Head), index == 2);
    }
    // Where others leave this process one core for a while nothing overlaps: it is tried several times.
    let mut tried = std::iter::once((own, stages)).chain((0..9).map(|_| run(Some(3))));
    assert!(tried.any(|(own, stages)| overlapping(&own, &stages) >= 3), "3 of 9 chunks never overlap");
    // A second trace begins anew.
    let pipeline = open(&llama(), Some(2), &load);
    let empty = pipeline.stage_traces(&Trace::new(10)).unwrap();
    assert!(empty.len() == 2 && empty.iter().all(|stage| stage.trace.sums().is_empty()));
}

/// How many of nine chunks a stage begins before the one after it has ended the chunk before, in a trace file; none is begun
/// before it was given.
fn overlapping(own: &Trace, stages: &[StageTrace]) -> usize {
    let mut file = Vec::new();
    write_trace("model", own, stages, &mut file).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let steps = |process: u64| -> Vec<(f64, f64)> {
        let of = events.iter().filter(|one| one["name"] == "step" && one["pid"] == process);
        of.map(|one| (one["ts"].as_f64().unwrap(), one["dur"].as_f64().unwrap())).collect()
    };
    let [first, second] = [2, 3].map(steps);
    assert_eq!((first.len(), second.len(), steps(1).len()), (13, 13, 13));
    assert!((0..13).all(|at| first[at].0 + first[at].1 <= second[at].0 + 10.0), "{first:?} {second:?}");
    (0..9).filter(|&at| first[at + 1].0 < second[at].0 + second[at].1).count()
}

/// Logits and scalings, as bits.
fn mixed(base: &str, variant: &Path, stages: Option<usize>, probe: StageProbe) -> (Vec<u32>, Vec<u32>) {
    let adapter = AdapterOption { kind: AdapterKind::XLora, path: variant.to_owned(), weight: 1.0 };
    let split = |count| StageOptions::count(count).with_probe(probe);
    let load = options(Arithmetic::Fast).with_adapters(vec![adapter]).with_stages(stages.map(split));
    let file = fixtures().join("base").join(base).join("model-f32.gguf");
    let pipeline =
        ModelBuilder::new(&file).with_options(&load).open_text().unwrap_or_else(|error| panic!("{error}"));
    let reference = Reference::open(&variant.join("reference.safetensors"));
    let tokens = reference.ids("tokens_prompt");
    let shape = pipeline.engine().model.scaling_shape().unwrap();
    let log = Arc::new(ScalingLog::new(shape, tokens.len()));
    let how = LogitsOptions::default().with_chunk(7).with_decode_from(tokens.len() - 4);
    let watched =
        TextPipeline::clone(&pipeline).with_hooks(PipelineHooks::of_layers([Arc::clone(&log) as _]));
    let made = logits(&watched, &tokens, &how).unwrap();
    let to_bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    (to_bits(&made.values), to_bits(&log.values()))
}

/// Two passes through all stages, each with states of its own; the classifier is where the chain is.
#[test]
fn x_lora_mixes_in_stages_as_in_one() {
    for base in ["llama", "phi3"] {
        let folder = fixtures().join("lora").join(base).join("xlora");
        let mut count = 0;
        for variant in std::fs::read_dir(folder).unwrap() {
            let variant = variant.unwrap().path();
            let one = mixed(base, &variant, None, StageProbe::Never);
            for (stages, probe) in [(2, StageProbe::WhereWeightsAreMapped), (2, StageProbe::Never)] {
                let parts = mixed(base, &variant, Some(stages), probe);
                assert!(one == parts, "{}, {stages} stages", variant.display());
            }
            count += 1;
        }
        assert!(count >= 4, "{count}");
    }
}
