//! Batches over two to four stages with as many steps in flight: requests that arrive, are cancelled, give way and share
//! prefixes say what they say alone, bit for bit.

use menagerie::engine::{
    AdapterChoice, Arithmetic, Event, GenerateError, Queue, Request, RequestId, SamplingOptions, Scheduler,
    StopReason, TextPipeline,
};
use menagerie::open::{LoadedModel, ModelBuilder, StageOptions, StageOverlap, StageProbe};
use menagerie_conformance::suite::zoo::model_file;
use menagerie_conformance::{fixtures, options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const REQUESTS: usize = 18;

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Token ids, and the bits of their log probabilities.
type Said = Vec<(u32, u32)>;

/// What is asked, and when.
struct Asked {
    prompt: Vec<u32>,
    request: Request,
    at_step: usize,
    cancelled_at: Option<usize>,
}

/// Prompts that often share their beginning, some sampled, some cancelled, some urgent.
fn asked(vocabulary: usize, adapters: &[AdapterChoice]) -> Vec<Asked> {
    let mut numbers = Numbers(0x5eed_0004);
    let shared: Vec<u32> = (0..40).map(|at| ((at * 37 + 5) % vocabulary) as u32).collect();
    let one = |index: usize| {
        let mut prompt = shared[..[0, 20, 33][index % 3]].to_vec();
        prompt.extend((0..1 + numbers.below(24)).map(|_| numbers.below(vocabulary) as u32));
        let sampling = match index % 4 {
            0 => SamplingOptions::default().with_temperature(1.0).with_seed(index as u64),
            _ => SamplingOptions::greedy(),
        };
        let request = Request::greedy(16 + numbers.below(22))
            .with_sampling(sampling)
            .with_logprobs(1)
            .with_priority(numbers.below(2) as i32)
            .with_adapters(adapters[index % adapters.len()].clone());
        let at_step = numbers.below(30);
        let cancelled_at = (index % 6 == 5).then(|| at_step + 2 + numbers.below(20));
        Asked { prompt, request, at_step, cancelled_at }
    };
    (0..REQUESTS).map(one).collect()
}

fn note(said: &mut Said, event: Event) {
    if let Event::Token { id, logprob, .. } = event {
        said.push((id, logprob.unwrap().to_bits()));
    }
}

/// What the whole model says to each alone.
fn alone(pipeline: &TextPipeline, all: &[Asked]) -> Vec<Said> {
    let of = |one: &Asked| {
        let mut said = Said::new();
        let scheduler = Scheduler::for_one(Arc::clone(pipeline.engine()), Vec::new()).unwrap();
        let mut queue = Queue::new(scheduler, None);
        queue.submit(&one.prompt, &one.request);
        for (_, outcome) in queue.run(|_, event| note(&mut said, event)) {
            outcome.unwrap();
        }
        said
    };
    all.iter().map(of).collect()
}

/// Runs all together with little room, and compares; returns how many gave way and how many were cancelled while they ran.
fn together(pipeline: &TextPipeline, all: &[Asked], expected: &[Said], what: &str) -> [usize; 2] {
    let engine = pipeline.engine();
    let room = engine.pool_options(6 + 2, 176).with_page_len(8);
    let scheduler = Scheduler::with_pool(Arc::clone(engine), Vec::new(), room, 12).unwrap().with_prefixes(2);
    let mut queue = Queue::new(scheduler, None);
    let mut ids = BTreeMap::<RequestId, usize>::new();
    let mut said = vec![Said::new(); all.len()];
    let (mut step, mut preempted, mut cancelled) = (0, 0, 0);
    while step < 40 || !queue.is_idle() {
        for (index, one) in all.iter().enumerate() {
            if one.at_step == step {
                ids.insert(queue.submit(&one.prompt, &one.request), index);
            }
            if one.cancelled_at == Some(step)
                && let Some((id, _)) = ids.iter().find(|(_, of)| **of == index)
            {
                queue.cancel(*id);
            }
        }
        for (id, result) in queue.step(|id, event| note(&mut said[ids[&id]], event)) {
            let (found, expected) = (&said[ids[&id]], &expected[ids[&id]]);
            match result {
                Ok(outcome) if outcome.reason == StopReason::Cancelled => {
                    assert!(expected.starts_with(found), "{what}, request {}", ids[&id]);
                    cancelled += 1;
                }
                Ok(outcome) => {
                    assert!(found == expected, "{what}, request {}", ids[&id]);
                    preempted += outcome.statistics.preemptions;
                }
                Err(GenerateError::Cancelled) => cancelled += 1,
                Err(error) => panic!("{what}, request {}: {error}", ids[&id]),
            }
        }
        step += 1;
        assert!(step < 5000, "{what}: a request waits for ever");
    }
    assert_eq!(ids.len(), all.len());
    [preempted, cancelled]
}

fn split(file: &Path, stages: usize, overlap: usize) -> LoadedModel<TextPipeline> {
    let how =
        StageOptions::count(stages).with_probe(StageProbe::Never).with_overlap(StageOverlap::Steps(overlap));
    let load = options(Arithmetic::Fast).with_context(96).with_stages(how);
    ModelBuilder::new(file).with_options(&load).open_text().unwrap_or_else(|error| panic!("{error}"))
}

fn whole(file: &Path) -> LoadedModel<TextPipeline> {
    let load = options(Arithmetic::Fast).with_context(96);
    ModelBuilder::new(file).with_options(&load).open_text().unwrap_or_else(|error| panic!("{error}"))
}

/// Plain, recurrent, windowed, latent attention.
#[test]
fn batches_with_steps_in_flight_say_what_each_says_alone() {
    let zoo = |name: &str| model_file(&fixtures().join("zoo").join(name));
    let files: [PathBuf; 4] =
        [fixtures().join("base/llama/model-f32.gguf"), zoo("jamba"), zoo("gemma3"), zoo("deepseek2-lite")];
    let mut seen = [0, 0];
    for file in files {
        let one = whole(&file);
        let all = asked(one.vocabulary(), &[AdapterChoice::AsOpened]);
        let expected = alone(&one, &all);
        let layers = one.engine().model.shape().n_layers;
        for stages in (2..=4).filter(|stages| *stages <= layers) {
            let what = format!("{}, {stages} stages", file.display());
            let parts = split(&file, stages, stages);
            assert_eq!(parts.engine().model.overlap(&Default::default()), stages);
            let found = together(&parts, &all, &expected, &what);
            seen = [seen[0] + found[0], seen[1] + found[1]];
        }
    }
    assert!(seen[0] > 10 && seen[1] > 5, "{seen:?} gave way and were cancelled");
}

#[test]
fn batches_with_adapters_and_steps_in_flight_say_what_each_says_alone() {
    let file = fixtures().join("base/llama/model-f32.gguf");
    let folder = fixtures().join("lora/llama/adapters");
    let choices = |pipeline: &LoadedModel<TextPipeline>| {
        for name in ["a0", "a1"] {
            pipeline.load_adapter(name, folder.join(name)).unwrap();
        }
        let set = |members: &[(&str, f32)]| AdapterChoice::Set(pipeline.adapter_set(members).unwrap());
        [set(&[("a0", 1.0)]), AdapterChoice::Bare, set(&[("a0", 0.7), ("a1", 0.4)]), set(&[("a1", 1.0)])]
    };
    let one = whole(&file);
    let of_one = asked(one.vocabulary(), &choices(&one));
    let expected = alone(&one, &of_one);
    for stages in [2, 3] {
        let parts = split(&file, stages, stages);
        let all = asked(one.vocabulary(), &choices(&parts));
        together(&parts, &all, &expected, &format!("{stages} stages"));
    }
}
