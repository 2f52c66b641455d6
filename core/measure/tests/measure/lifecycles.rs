//! Every request is told of: text, logits, vectors, measures; with one beginning and one end, whatever happens.

use crate::byte_text::Bytes;
use crate::encoder::encoder;
use crate::fake;
use crate::fixture::{engine, mixing};
use menagerie_all as _;
use menagerie_engine::{
    EmbeddingOptions, Engine, GenerateError, Hookable, Metrics, PipelineHooks, PipelineLifecycle, Queue,
    Request, RequestEnd, RequestId, RequestKind, RequestStart, Scheduler, SchedulerOptions, StopReason,
    TextPipeline, Truncation,
};
use menagerie_measure::{
    Against, BenchOptions, DirectionMethod, LogitsOptions, PerplexityOptions, PromptPair, TextChunks,
    TogetherOptions, bench, bench_together, logits, logits_by_step, make_control_vector, perplexity,
};
use menagerie_model::ModelError;
use menagerie_open::{LoadOptions, ModelBuilder};
use menagerie_testkit::FakeModel;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a request went through, by its number.
#[derive(Default)]
struct Lives(Mutex<Vec<(u64, String)>>);

impl PipelineLifecycle for Lives {
    fn begins(&self, request: RequestId, kind: RequestKind) {
        self.0.lock().unwrap().push((request.number(), format!("{} begins", kind.name())));
    }

    fn initialized(&self, request: RequestId, start: &RequestStart) {
        let said = format!("has {}, {} of them cached", start.prompt_tokens, start.cached_tokens);
        self.0.lock().unwrap().push((request.number(), said));
    }

    fn ends(&self, request: RequestId, end: &RequestEnd) {
        let said = match end {
            RequestEnd::Finished(outcome) => format!("{:?}", outcome.reason),
            RequestEnd::Failed(error) => error.to_string().split(' ').take(2).collect::<Vec<_>>().join(" "),
            RequestEnd::Computed { tokens } => format!("computed {tokens}"),
            RequestEnd::Abandoned => "abandoned".to_owned(),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push((request.number(), said));
    }
}

impl Lives {
    /// Hooks that tell it.
    fn hooks(self: &Arc<Self>) -> PipelineHooks {
        told(Arc::clone(self) as _)
    }

    /// A pipeline that tells it.
    fn watched(self: &Arc<Self>, engine: &Arc<Engine>) -> TextPipeline {
        fake(engine).with_hooks(self.hooks())
    }

    /// The stories of all requests, in the order they began.
    fn stories(&self) -> Vec<Vec<String>> {
        let told = self.0.lock().unwrap();
        let mut numbers: Vec<u64> = told.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let of = |number: &u64| {
            told.iter().filter(|(one, _)| one == number).map(|(_, said)| said.clone()).collect()
        };
        numbers.iter().map(of).collect()
    }
}

fn told(lifecycle: Arc<dyn PipelineLifecycle>) -> PipelineHooks {
    PipelineHooks { lifecycles: vec![lifecycle], ..PipelineHooks::default() }
}

fn watched(model: FakeModel, lives: &Arc<Lives>) -> Queue {
    let room = SchedulerOptions::default()
        .with_sequences(5)
        .with_prefixes(0)
        .with_capacity_tokens(256)
        .with_step_tokens(16);
    let scheduler = Scheduler::new(engine(&Arc::new(model), 64, 16), lives.hooks(), room).unwrap();
    Queue::new(scheduler, Some(Arc::new(Bytes)))
}

fn story(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Ends, errors, refusals and cancellations, each with one beginning and one end.
#[test]
fn a_request_begins_and_ends_once_whatever_happens() {
    let lives = Arc::new(Lives::default());
    // What follows the prompt [9] is no number.
    let mut queue = watched(FakeModel::new(50, mixing).broken_after(mixing(&[9]), f32::NAN), &lives);
    let prompts: [&[u32]; 5] = [&[1, 2, 3], &[9], &[], &[4, 5], &[6, 7]];
    let mut requests = vec![Request::greedy(3); 5];
    requests[3].cancel = Some(Arc::new(AtomicBool::new(true)));
    requests[4].sampling.logit_bias = vec![(9999, 1.0)];
    for (prompt, request) in prompts.iter().zip(&requests[..3]) {
        queue.submit(*prompt, request);
    }
    let started = queue.submit(prompts[3], &Request::greedy(3));
    queue.submit(prompts[4], &requests[4]);
    queue.step(|id, _| match id == started {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    let waiting = queue.submit(prompts[3], &requests[3]);
    let results: BTreeMap<_, _> = queue.run(|_, _| {}).into_iter().collect();
    assert_eq!(results[&started].as_ref().unwrap().reason, StopReason::Cancelled);
    assert!(matches!(results[&waiting], Err(GenerateError::Cancelled)));
    assert_eq!(
        lives.stories(),
        [
            story(&["text begins", "has 3, 0 of them cached", "MaxTokens"]),
            story(&["text begins", "has 1, 0 of them cached", "after position"]),
            story(&["text begins", "the prompt"]),
            story(&["text begins", "has 2, 0 of them cached", "Cancelled"]),
            story(&["text begins", "logit bias"]),
            story(&["text begins", "cancelled"]),
        ]
    );
}

#[test]
fn a_request_whose_caller_panics_has_been_abandoned() {
    let lives = Arc::new(Lives::default());
    let mut queue = watched(FakeModel::new(50, mixing), &lives);
    queue.submit(&[1, 2], &Request::greedy(3));
    let gone = catch_unwind(AssertUnwindSafe(move || queue.run(|_, _| -> () { panic!("enough") })));
    assert!(gone.is_err());
    assert_eq!(lives.stories(), [["text begins", "has 2, 0 of them cached", "abandoned"]]);
}

/// An engine of 64 tokens of context and chunks of 4, and its model.
fn small() -> (Arc<Engine>, Arc<FakeModel>) {
    let model = Arc::new(FakeModel::new(50, mixing));
    (engine(&model, 64, 4), model)
}

fn six_and_three() -> BenchOptions {
    BenchOptions::default()
        .with_prompt(6)
        .with_generate(3)
        .with_depth(2)
        .with_repetitions(2)
        .with_warm_up(true)
}

fn text() -> TextChunks {
    TextChunks::new((0..20).collect(), None, 8, None).unwrap()
}

/// What asks for no answer is a request as well: a prompt of a measure, a chunk, a text.
#[test]
fn what_is_computed_is_told_of_too() {
    let (engine, _) = small();
    let lives = Arc::new(Lives::default());
    let tokens: Vec<u32> = (1..10).collect();
    let options = LogitsOptions::default().with_chunk(2).with_decode_from(5);
    logits(&lives.watched(&engine), &tokens, &options).unwrap();
    bench(&lives.watched(&engine), &six_and_three(), &mut |_| {}).unwrap();
    let options = PerplexityOptions::default();
    perplexity(&lives.watched(&engine), &text(), Against::Nothing, &options, &mut |_| {}).unwrap();
    let prompt = story(&["bench begins", "has 8, 2 of them cached", "computed 8"]);
    let generation = story(&["bench begins", "has 2, 2 of them cached", "computed 5"]);
    let chunk = story(&["perplexity begins", "has 8, 0 of them cached", "computed 8"]);
    let expected = [
        story(&["logits begins", "has 5, 0 of them cached", "computed 9"]),
        prompt.clone(),
        // The warm-up generates as much as is measured here.
        generation.clone(),
        prompt.clone(),
        prompt,
        generation.clone(),
        generation,
        chunk.clone(),
        chunk,
    ];
    assert_eq!(lives.stories(), expected);
}

/// Sequences that are measured together are a request each, and so are texts that become vectors.
#[test]
fn sequences_and_texts_of_one_call_are_requests_each() {
    let lives = Arc::new(Lives::default());
    let options =
        TogetherOptions::default().with_sequences(2).with_prompt(5).with_generate(2).with_repetitions(1);
    bench_together(&lives.watched(&small().0), &options).unwrap();
    let one = story(&["bench begins", "has 5, 0 of them cached", "computed 7"]);
    assert_eq!(lives.stories(), vec![one; 4], "two of the warm-up and two that are measured");
    for step_tokens in [1, 64] {
        let lives = Arc::new(Lives::default());
        let (mut encoder, _) = encoder(step_tokens);
        encoder.lifecycles = lives.hooks().lifecycles;
        encoder.embed(&[&[1, 2], &[], &[99], &[4, 5, 6]], &EmbeddingOptions::default());
        let expected = [
            story(&["embedding begins", "has 2, 0 of them cached", "computed 2"]),
            story(&["embedding begins", "the prompt"]),
            story(&["embedding begins", "has 1, 0 of them cached", "after position"]),
            story(&["embedding begins", "has 3, 0 of them cached", "computed 3"]),
        ];
        assert_eq!(lives.stories(), expected, "steps of {step_tokens}");
    }
}

/// Documents of a reranker, and prompts whose activations are wanted, on real files.
#[test]
fn documents_and_prompts_that_are_looked_into_are_told_of() {
    let lives = Arc::new(Lives::default());
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/zoo/bert-rank/model-f16.gguf");
    let options = LoadOptions::default().with_threads(1);
    let mut reranker = ModelBuilder::new(&file).with_options(&options).open_embedding().unwrap();
    reranker.add_lifecycle(Arc::clone(&lives) as _);
    reranker.rerank("what is a zoo?", &["a place", "the price of tea"], Truncation::Refuse).unwrap();
    let llama = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/base/llama/model-f32.gguf");
    let mut pipeline = ModelBuilder::new(llama).with_options(&options).open_text().unwrap();
    pipeline.add_lifecycle(Arc::clone(&lives) as _);
    let pair = PromptPair { positive: vec![1, 2, 3], negative: vec![4, 5] };
    make_control_vector(&pipeline, &[pair], (0, DirectionMethod::Mean), None, &mut || {}).unwrap();
    let stories = lives.stories();
    let kinds: Vec<&str> = stories.iter().map(|story| story[0].as_str()).collect();
    assert_eq!(kinds, [["reranking begins"; 2], ["activations begins"; 2]].concat());
    assert!(stories.iter().all(|story| story.len() == 3 && story[2].starts_with("computed ")), "{stories:?}");
    assert_eq!(stories[3][1..], ["has 3, 0 of them cached", "computed 3"], "filled up, and computed whole");
}

/// A second forward that fails, or that somebody cancels.
fn interrupted(model: &FakeModel, cancel: Option<&Arc<AtomicBool>>) {
    let (steps, cancel) = (AtomicBool::new(false), cancel.cloned());
    model.during(Some(Box::new(move || match (steps.swap(true, Ordering::Relaxed), &cancel) {
        (true, None) => Err(ModelError::Weights("gone".to_owned())),
        (true, Some(cancel)) => {
            cancel.store(true, Ordering::Relaxed);
            Ok(())
        }
        (false, _) => Ok(()),
    })));
}

#[test]
fn errors_cancellations_and_panics_end_what_is_computed_once() {
    let (engine, model) = small();
    let flag = Arc::new(AtomicBool::new(false));
    let tokens: Vec<u32> = (1..10).collect();
    let chunked = LogitsOptions::default().with_chunk(4);
    for cancel in [None, Some(&flag)] {
        let end = if cancel.is_some() { "cancelled" } else { "weights: gone" };
        let lives = Arc::new(Lives::default());
        flag.store(false, Ordering::Relaxed);
        interrupted(&model, cancel);
        let options = six_and_three().with_depth(0).with_warm_up(false).with_cancel(cancel.cloned());
        assert!(bench(&lives.watched(&engine), &options, &mut |_| {}).is_err());
        flag.store(false, Ordering::Relaxed);
        interrupted(&model, cancel);
        let options = PerplexityOptions::default().with_cancel(cancel.cloned());
        let scored = perplexity(&lives.watched(&engine), &text(), Against::Nothing, &options, &mut |_| {});
        assert!(scored.is_err());
        let expected = [
            story(&["bench begins", "has 6, 0 of them cached", end]),
            story(&["perplexity begins", "has 8, 0 of them cached", end]),
        ];
        assert_eq!(lives.stories(), expected);
    }
    let lives = Arc::new(Lives::default());
    interrupted(&model, None);
    assert!(logits(&lives.watched(&engine), &tokens, &chunked).is_err());
    model.during(None);
    let refused = &mut |_: &[f32]| Err(GenerateError::Cancelled);
    assert!(logits_by_step(&lives.watched(&engine), &tokens, &chunked, refused).is_err());
    let gone = catch_unwind(AssertUnwindSafe(|| {
        logits_by_step(&lives.watched(&engine), &tokens, &chunked, &mut |_| panic!("enough"))
    }));
    assert!(gone.is_err());
    let of = |end| story(&["logits begins", "has 9, 0 of them cached", end]);
    assert_eq!(lives.stories(), ["weights: gone", "cancelled", "abandoned"].map(of));
}

#[test]
fn metrics_count_what_is_computed() {
    let (engine, model) = small();
    let metrics = Arc::new(Metrics::default());
    let hooks = told(Arc::clone(&metrics) as _);
    let watched = fake(&engine).with_hooks(hooks.clone());
    bench(&watched, &six_and_three(), &mut |_| {}).unwrap();
    assert_eq!((metrics.requests.computed.get(), metrics.requests_open.get()), (6, 0));
    assert_eq!(metrics.generated_tokens.get(), 9);
    let before = [metrics.prompt_tokens.get(), metrics.cached_tokens.get()];
    assert_eq!(before, [3 * 8 + 3 * 2, 3 * 2 + 3 * 2]);
    let options = PerplexityOptions::default();
    perplexity(&watched, &text(), Against::Nothing, &options, &mut |_| {}).unwrap();
    assert_eq!((metrics.requests.computed.get(), metrics.prompt_tokens.get()), (8, before[0] + 16));
    let (mut encoder, _) = encoder(64);
    encoder.lifecycles = hooks.lifecycles.clone();
    let (rows, steps) = (metrics.rows.get(), metrics.steps.get());
    encoder.embed(&[&[1, 2], &[], &[3]], &EmbeddingOptions::default());
    let [failed, refused] = [&metrics.requests.failed, &metrics.requests.refused];
    assert_eq!((metrics.requests.computed.get(), failed.get(), refused.get()), (10, 0, 1));
    assert_eq!((metrics.rows.get() - rows, metrics.steps.get() - steps), (3, 1));
    let flag = Arc::new(AtomicBool::new(true));
    let cancelled = six_and_three().with_cancel(flag).with_depth(0);
    assert!(bench(&watched, &cancelled, &mut |_| {}).is_err());
    interrupted(&model, None);
    assert!(bench(&watched, &six_and_three(), &mut |_| {}).is_err());
    assert_eq!((metrics.requests.cancelled.get(), failed.get(), refused.get()), (1, 1, 1));
    assert_eq!(metrics.requests_open.get(), 0);
}
