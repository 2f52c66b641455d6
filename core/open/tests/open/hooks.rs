//! Hooks around layers.

use crate::opening::{open, options};
use gguf_file::{GgufFile, OpenOptions};
use menagerie_engine::{
    LogitRows, PipelineHooks, Request, Scheduler, SchedulerOptions, Sequence, StepOutput,
};
use menagerie_measure::{ControlVectorOption, LogitsOptions, SteeringOptions, logits, steering};
use menagerie_model::{Checkpoint, Effect, HookInput, InferenceStep, LayerHook, Phases, Result, Rows};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What a step of a sequence showed: the layer, whether it was decoding, the first position, the rows.
type Seen = (usize, bool, usize, usize);

/// Adds to the rows after some layers, and notes what it was shown.
struct Adding {
    layers: Range<usize>,
    phases: Phases,
    amount: f32,
    seen: Mutex<Vec<Seen>>,
    /// Positions of the first ones, and tokens.
    tokens: Mutex<Vec<(usize, Vec<u32>)>>,
}

impl Adding {
    fn new(layers: Range<usize>, phases: Phases, amount: f32) -> Arc<Self> {
        Arc::new(Self { layers, phases, amount, seen: Mutex::default(), tokens: Mutex::default() })
    }
}

impl LayerHook for Adding {
    fn name(&self) -> &str {
        "test/adding"
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn effect(&self) -> Effect {
        Effect::Replaces(format!("adds {}", self.amount))
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        assert_eq!(shown.layout.rows(), shown.rows.rows());
        let of = |part: &menagerie_model::SequenceRows| {
            let decodes = matches!(part.step, InferenceStep::Decode { .. });
            (shown.layer, decodes, part.first_position, part.rows.len())
        };
        self.seen.lock().unwrap().extend(shown.layout.sequences().iter().map(of));
        let own = |part: &menagerie_model::SequenceRows| {
            (part.first_position, shown.tokens.unwrap()[part.rows.clone()].to_vec())
        };
        self.tokens.lock().unwrap().extend(shown.layout.sequences().iter().map(own));
        let values = shown.compute.backend.read(shown.rows)?;
        let cols = shown.rows.cols();
        let made = values.iter().enumerate();
        let made = made.map(|(at, value)| value + self.amount * ((at % cols % 5) as f32 - 2.0));
        shown.compute.backend.upload(made.collect(), shown.rows.cols()).map(Some)
    }
}

/// The logits of each step of a prompt and then of tokens fed one by one, of two sequences that share steps.
fn together(hook: &Arc<Adding>, prompts: [&[u32]; 2], fed: &[u32]) -> [Vec<f32>; 2] {
    let mut pipeline = open("llama", &options()).unwrap();
    pipeline.add_hook(Arc::clone(hook) as Arc<dyn LayerHook>);
    let room = SchedulerOptions::default()
        .with_sequences(2)
        .with_prefixes(0)
        .with_capacity_tokens(256)
        .with_step_tokens(24);
    let mut queue = pipeline.queue(room).unwrap();
    let scheduler = queue.scheduler_mut();
    let mut both = [scheduler.create().unwrap(), scheduler.create().unwrap()];
    let mut made = [Vec::new(), Vec::new()];
    let mut left = [fed.iter(), fed.iter()];
    // The second begins once the first decodes.
    for round in 0.. {
        for (index, sequence) in both.iter_mut().enumerate() {
            if sequence.pending() > 0 || round < 2 * index {
                continue;
            }
            if sequence.tokens().is_empty() {
                scheduler.begin(sequence, prompts[index], LogitRows::Last).unwrap();
            } else if let Some(token) = left[index].next() {
                scheduler.push(sequence, *token).unwrap();
            }
        }
        let [first, second] = &mut both;
        if first.pending() + second.pending() == 0 {
            break;
        }
        scheduler
            .step(&mut [first, second], None)
            .each(&mut |index, output| made[index].extend_from_slice(output.unwrap().logits().unwrap()));
    }
    made
}

fn alone(hook: &Arc<Adding>, prompt: &[u32], fed: &[u32]) -> Vec<f32> {
    let mut pipeline = open("llama", &options()).unwrap();
    pipeline.add_hook(Arc::clone(hook) as Arc<dyn LayerHook>);
    let mut scheduler = Scheduler::for_one(Arc::clone(pipeline.engine()), pipeline.hooks().clone()).unwrap();
    let mut sequence = scheduler.create().unwrap();
    let mut made = Vec::new();
    scheduler.begin(&mut sequence, prompt, LogitRows::Last).unwrap();
    let mut keep = |_: &Sequence, output: StepOutput| {
        made.extend_from_slice(output.logits()?);
        Ok(())
    };
    scheduler.feed(&mut sequence, None, &mut keep).unwrap();
    for token in fed {
        scheduler.push(&mut sequence, *token).unwrap();
        scheduler.feed(&mut sequence, None, &mut keep).unwrap();
    }
    made
}

#[test]
fn a_hook_for_one_phase_is_shown_its_sequences_alone_and_changes_no_others() {
    let (first, second): (Vec<u32>, Vec<u32>) = ((1..8).collect(), (20..33).collect());
    let fed = [3, 5, 7];
    let mut different = Vec::new();
    for phases in [Phases::All, Phases::Prefill, Phases::Decode] {
        let hook = Adding::new(1..2, phases, 0.25);
        let shared = together(&hook, [&first, &second], &fed);
        let seen = std::mem::take(&mut *hook.seen.lock().unwrap());
        assert!(seen.iter().all(|(layer, ..)| *layer == 1));
        let whole = [&first, &second].map(|prompt| [&prompt[..], &fed].concat());
        for (from, tokens) in std::mem::take(&mut *hook.tokens.lock().unwrap()) {
            let is_there = |all: &Vec<u32>| all.get(from..from + tokens.len()) == Some(&tokens[..]);
            assert!(whole.iter().any(is_there), "{phases:?}: {tokens:?} from {from}");
        }
        let wanted = |decodes: &bool| match phases {
            Phases::All => true,
            Phases::Prefill => !decodes,
            Phases::Decode => *decodes,
        };
        assert!(seen.iter().all(|(_, decodes, ..)| wanted(decodes)), "{phases:?}: {seen:?}");
        let rows: usize = seen.iter().map(|(.., rows)| rows).sum();
        let [prompts, decoded] = [first.len() + second.len(), 2 * fed.len()];
        assert_eq!(rows, usize::from(wanted(&false)) * prompts + usize::from(wanted(&true)) * decoded);
        for (prompt, shared) in [&first, &second].into_iter().zip(&shared) {
            let own = alone(&hook, prompt, &fed);
            assert_eq!(own.len(), shared.len());
            let worst = own.iter().zip(shared).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{phases:?}: {worst}");
        }
        different.push(shared);
    }
    assert!(different[0] != different[1] && different[1] != different[2] && different[0] != different[2]);
}

/// Gives what it must not.
enum Wrong {
    Observer,
    Wide,
    NoNumber,
}

impl LayerHook for Wrong {
    fn name(&self) -> &str {
        "test/wrong"
    }

    fn layers(&self) -> Range<usize> {
        2..3
    }

    fn effect(&self) -> Effect {
        if matches!(self, Self::Observer) { Effect::Observes } else { Effect::Replaces(String::new()) }
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        let [rows, mut cols] = [shown.rows.rows(), shown.rows.cols()];
        if matches!(self, Self::Wide) {
            cols += 1;
        }
        let mut values = vec![0.5; rows * cols];
        if matches!(self, Self::NoNumber) {
            values[cols + 3] = f32::NAN;
        }
        shown.compute.backend.upload(values, cols).map(Some)
    }
}

#[test]
fn rows_that_cannot_take_the_place_of_others_are_refused_by_name() {
    for (wrong, words) in [
        (Wrong::Observer, "but its effect is `Observes`"),
        (Wrong::Wide, "instead of [3, "),
        (Wrong::NoNumber, "returned NaN in column 3 of row 1 (position 1 of sequence 0)"),
    ] {
        let mut pipeline = open("llama", &options()).unwrap();
        pipeline.add_hook(Arc::new(wrong));
        let failed = pipeline.session().unwrap().generate(&[1, 2, 3], &Request::greedy(2), |_| {});
        let said = failed.unwrap_err().to_string();
        assert!(said.contains("layer 2: hook test/wrong:") && said.contains(words), "{said}");
    }
}

/// Notes the order in which it is called.
struct Order(&'static str, Arc<Mutex<Vec<String>>>);

impl LayerHook for Order {
    fn name(&self) -> &str {
        self.0
    }

    fn layers(&self) -> Range<usize> {
        0..1
    }

    fn before_layer(&self, _: &HookInput) -> Result<Option<Rows>> {
        self.1.lock().unwrap().push(format!("{} before", self.0));
        Ok(None)
    }

    fn after_layer(&self, _: &HookInput) -> Result<Option<Rows>> {
        self.1.lock().unwrap().push(format!("{} after", self.0));
        Ok(None)
    }

    fn at(&self, checkpoint: Checkpoint, _: &HookInput) -> Result<()> {
        self.1.lock().unwrap().push(format!("{} {}", self.0, checkpoint.name()));
        Ok(())
    }
}

#[test]
fn hooks_are_called_in_the_order_that_is_written_down() {
    let mut pipeline = open("llama", &options()).unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    for name in ["a", "b"] {
        pipeline.add_hook(Arc::new(Order(name, Arc::clone(&seen))));
    }
    pipeline.session().unwrap().generate(&[1, 2, 3], &Request::greedy(1), |_| {}).unwrap();
    let both = ["before", "attn_out", "ffn_out", "after", "l_out"];
    let expected: Vec<String> =
        both.iter().flat_map(|at| ["a", "b"].map(|one| format!("{one} {at}"))).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn effects_say_what_state_depends_on() {
    let mut hooks = PipelineHooks::default();
    assert!(hooks.layers.effects().is_empty());
    hooks.layers.push(Arc::new(Order("looks", Arc::default())));
    assert!(hooks.layers.effects().is_empty());
    hooks.layers.push(Adding::new(1..3, Phases::Decode, 0.5));
    assert_eq!(hooks.layers.effects(), ["test/adding in layers 1..3, Decode: adds 0.5"]);
}

/// Notes the rows after every layer.
#[derive(Default)]
struct Streams(Mutex<Vec<Vec<f32>>>);

impl LayerHook for Streams {
    fn name(&self) -> &str {
        "test/streams"
    }

    fn layers(&self) -> Range<usize> {
        0..usize::MAX
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        self.0.lock().unwrap().push(shown.compute.backend.read(shown.rows)?.into_owned());
        Ok(None)
    }
}

/// A control vector adds its direction for layer N to the stream after layer N, not one layer sooner or later.
#[test]
fn a_control_vector_acts_after_the_layer_that_its_direction_is_for() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/control/a.gguf");
    let vector = GgufFile::open(&file, &OpenOptions::default()).unwrap();
    let streams = |layers: Option<usize>| {
        let mut pipeline = open("llama", &options()).unwrap();
        if let Some(layer) = layers {
            let given = [ControlVectorOption { path: file.clone(), scale: 2.0 }];
            let how = SteeringOptions::default().with_layers(layer..=layer);
            let steering = steering(&pipeline, &given, &how).unwrap();
            pipeline.add_hook(Arc::new(steering));
        }
        let noted = Arc::new(Streams::default());
        pipeline.add_hook(Arc::clone(&noted) as Arc<dyn LayerHook>);
        logits(&pipeline, &[1, 2, 3], &LogitsOptions::default()).unwrap();
        let noted = std::mem::take(&mut *noted.0.lock().unwrap());
        assert_eq!(noted.len(), pipeline.config().layers.len());
        noted
    };
    let bare = streams(None);
    for layer in [1, 2] {
        let direction = vector.data(vector.tensor(&format!("direction.{layer}")).unwrap()).unwrap();
        let direction: Vec<f32> =
            direction.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let steered = streams(Some(layer));
        assert_eq!(steered[..layer], bare[..layer], "layers before {layer}");
        for (at, (steered, bare)) in steered[layer].iter().zip(&bare[layer]).enumerate() {
            let expected = bare + 2.0 * direction[at % direction.len()];
            assert!((steered - expected).abs() < 1e-4, "layer {layer}, {at}: {steered} for {expected}");
        }
    }
}
