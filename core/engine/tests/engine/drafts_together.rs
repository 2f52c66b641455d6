//! Drafts of several answers in the same steps, and of a model with weights.

use crate::byte_text::{Bytes, VOCABULARY};
use crate::drafts::{all_guesses, always, samplers};
use crate::fixture::{eight_sequences, engine, mixing};
use menagerie_engine::{
    DraftPace, DraftSource, Engine, Event, KvType, Outcome, PromptLookup, Queue, Request, Scheduler,
    SchedulerOptions, Session, Statistics, StopReason,
};
use menagerie_model::Compute;
use menagerie_testkit::{FakeModel, TinyModel, TinyShape, cpu_backend};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

pub(crate) type Answers = Vec<(Vec<Event>, Outcome)>;

/// The events and outcomes of requests that run together. Each is stopped after some of its tokens, if so many are given.
pub(crate) fn together(
    engine: &Arc<Engine>,
    options: SchedulerOptions,
    asked: &[(Vec<u32>, Request)],
    most: Option<usize>,
) -> (Answers, [u64; 2]) {
    let scheduler = Scheduler::new(Arc::clone(engine), Vec::new(), options).unwrap();
    let mut queue = Queue::new(scheduler.with_draft_pace(DraftPace::Always), Some(Arc::new(Bytes)));
    let mut events = BTreeMap::<_, Vec<Event>>::new();
    for (prompt, request) in asked {
        events.insert(queue.submit(prompt, request), Vec::new());
    }
    let ended = queue.run(|id, event| {
        let own = events.get_mut(&id).unwrap();
        own.push(event);
        let tokens = own.iter().filter(|event| matches!(event, Event::Token { .. })).count();
        if most.is_some_and(|most| tokens >= most) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let counts = *queue.scheduler().counts();
    let answer = |(id, outcome): (_, Result<Outcome, _>)| {
        let mut outcome = outcome.unwrap();
        outcome.statistics = Statistics::default();
        // How a prompt is divided into steps may change.
        let mut events = events.remove(&id).unwrap();
        events.retain(|event| !matches!(event, Event::Prefill { .. }));
        (events, outcome)
    };
    let answers = ended.into_iter().map(answer).collect();
    queue.scheduler_mut().forget().unwrap();
    assert_eq!(queue.scheduler().state_bytes(), 0, "no page is lost");
    (answers, [counts.drafted, counts.accepted])
}

/// Requests with different prompts, samplers and lengths.
pub(crate) fn asked(seed: u64) -> Vec<(Vec<u32>, Request)> {
    let each = samplers(seed).into_iter().zip(0u32..).map(|(sampling, at)| {
        let prompt: Vec<u32> = (0..4 + at * 7).map(|index| (index * index + at + seed as u32) % 50).collect();
        let request = Request::greedy(20 + 5 * at as usize).with_sampling(sampling).with_logprobs(1);
        (prompt, request.with_priority(at as i32 % 2))
    });
    each.collect()
}

/// The same requests with guesses of each kind, different for each request.
fn with_guesses(asked: &[(Vec<u32>, Request)], plain: &Answers, round: usize) -> Vec<(Vec<u32>, Request)> {
    let each = asked.iter().zip(plain).enumerate().map(|(index, ((prompt, request), (_, outcome)))| {
        let text = [&prompt[..], &outcome.tokens, &[1; 9]].concat();
        let mut all = all_guesses(&text);
        let source = all.swap_remove((index + round) % all.len());
        (prompt.clone(), request.clone().with_draft(source))
    });
    each.collect()
}

#[test]
fn answers_that_run_together_are_those_without_drafts() {
    let (plain, windowed) =
        (|| FakeModel::new(VOCABULARY, mixing), || FakeModel::new(VOCABULARY, mixing).windowed(12));
    for (name, model) in [
        ("plain", plain()),
        ("windowed", windowed()),
        ("recurrent", plain().recurrent()),
        ("hybrid", windowed().recurrent()),
    ] {
        let engine = engine(&Arc::new(model), 128, 64);
        // With room for all, and with pages for two: the others give way and go on later.
        let little = SchedulerOptions::default().with_sequences(5).with_prefixes(2).with_capacity_tokens(80);
        let swapping = little.with_swap_bytes(1 << 20);
        for (round, options) in
            [eight_sequences(), little, swapping, little.with_step_tokens(7)].iter().enumerate()
        {
            for seed in 0..6 {
                let asked = asked(seed);
                let (plain, counts) = together(&engine, *options, &asked, None);
                assert_eq!(counts, [0, 0]);
                let guessed = with_guesses(&asked, &plain, round + seed as usize);
                let (drafted, [guesses, accepted]) = together(&engine, *options, &guessed, None);
                assert_eq!(plain, drafted, "{name} {round} {seed}");
                assert!(
                    accepted > 10 && guesses > accepted,
                    "{name} {round} {seed}: {accepted} of {guesses}"
                );
            }
        }
    }
}

/// A callback that stops gets no more events, and the outcome has no token after it, also in the middle of a step.
#[test]
fn a_stopped_request_has_no_token_more_than_without_drafts() {
    let engine = engine(&Arc::new(FakeModel::new(VOCABULARY, mixing)), 128, 64);
    let asked = asked(3);
    let (whole, _) = together(&engine, eight_sequences(), &asked, None);
    for most in [1, 2, 5, 9, 14] {
        let (plain, _) = together(&engine, eight_sequences(), &asked, Some(most));
        let guessed = with_guesses(&asked, &whole, most);
        let (drafted, _) = together(&engine, eight_sequences(), &guessed, Some(most));
        assert_eq!(plain, drafted, "{most}");
        assert!(plain.iter().all(|(_, outcome)| outcome.tokens.len() == most));
        assert!(plain.iter().all(|(_, outcome)| outcome.reason == StopReason::Cancelled));
    }
}

/// Prompts come first: a step that computes a part of a prompt computes no guesses.
#[test]
fn guesses_take_no_rows_of_prompts() {
    let model = Arc::new(FakeModel::new(VOCABULARY, mixing));
    let lookup: Arc<dyn DraftSource> = Arc::new(PromptLookup::default());
    let scheduler = Scheduler::new(engine(&model, 512, 16), Vec::new(), eight_sequences()).unwrap();
    let mut queue = Queue::new(scheduler.with_draft_pace(DraftPace::Always), None);
    queue.submit(&[5; 20], &Request::greedy(60).with_draft(lookup));
    queue.step(|_, _| {});
    queue.submit((0..300).map(|at| at * at % 47).collect::<Vec<u32>>(), &Request::greedy(1));
    model.take_seen();
    while queue.running() + queue.waiting() > 1 {
        let before = *queue.scheduler().counts();
        queue.step(|_, _| {});
        let rows: usize = model.take_seen().iter().map(|part| part.tokens.len()).sum();
        if rows > 20 {
            assert_eq!(queue.scheduler().counts().drafted, before.drafted);
        }
    }
}

/// A small dense model on the CPU, whose greedy answers soon repeat themselves.
pub(crate) fn tiny(context: usize, kv_type: KvType) -> Arc<Engine> {
    tiny_of(context, kv_type, 11, 1.0)
}

/// One with other weights, whose logits are larger by a factor.
pub(crate) fn tiny_of(context: usize, kv_type: KvType, seed: u64, factor: f32) -> Arc<Engine> {
    let shape = TinyShape { vocabulary: VOCABULARY, ..TinyShape::default() };
    let arithmetic = menagerie_engine::Arithmetic::Exact;
    let mut model = TinyModel::new(shape, seed);
    model.tensors.get_mut("output.weight").unwrap().1.iter_mut().for_each(|weight| *weight *= factor);
    Arc::new(Engine {
        model: Arc::new(model.to_model().unwrap()),
        compute: Compute::new(cpu_backend(2).unwrap(), arithmetic),
        kv_type,
        context,
        learned_positions: None,
        chunk: 32,
        guard: None,
        adapters: None,
    })
}

/// Tokens and log probabilities of a model with weights, bit for bit: alone, and together with others.
#[test]
fn a_model_with_weights_answers_as_without_drafts() {
    for kv_type in [KvType::F32, KvType::F16] {
        let engine = tiny(160, kv_type);
        let mut asked = asked(1);
        for (prompt, request) in &mut asked {
            prompt.extend_from_within(..);
            request.max_tokens = Some(60);
        }
        let (plain, _) = together(&engine, eight_sequences(), &asked, None);
        let mut sums = [0; 2];
        for round in 0..5 {
            let guessed = with_guesses(&asked, &plain, round);
            let (drafted, [guesses, accepted]) = together(&engine, eight_sequences(), &guessed, None);
            assert_eq!(plain, drafted, "{kv_type:?} {round}");
            sums = [sums[0] + guesses, sums[1] + accepted];
        }
        assert!(sums[1] > 250 && sums[0] > sums[1], "{kv_type:?}: {sums:?}");
        for ((prompt, request), (events, outcome)) in asked.iter().zip(&plain) {
            let scheduler = Scheduler::for_one(Arc::clone(&engine), Vec::new()).unwrap();
            let scheduler = scheduler.with_draft_pace(DraftPace::Always);
            let mut session = Session::new(scheduler, Some(Arc::new(Bytes))).unwrap();
            let lookup: Arc<dyn DraftSource> = Arc::new(PromptLookup::default());
            let mut alone = Vec::new();
            let request = request.clone().with_draft(lookup);
            let mut found = session.generate(prompt, &request, |event| alone.push(event)).unwrap();
            found.statistics = Statistics::default();
            alone.retain(|event| !matches!(event, Event::Prefill { .. }));
            assert_eq!((&alone, &found), (events, outcome), "{kv_type:?}");
        }
    }
}

/// Without [`DraftPace::Always`], times decide, and the answer is the same.
#[test]
fn the_pace_changes_no_answer() {
    let model = Arc::new(FakeModel::new(VOCABULARY, |seen| seen.len() as u32 % 7));
    let request = Request::greedy(200).with_logprobs(1);
    let plain = always(&model, 256).generate(&[1, 2, 3], &request, |_| {}).unwrap();
    let scheduler = Scheduler::for_one(engine(&model, 256, 16), Vec::new()).unwrap();
    let mut session = Session::new(scheduler, Some(Arc::new(Bytes))).unwrap();
    let lookup: Arc<dyn DraftSource> = Arc::new(PromptLookup::default());
    let drafted = session.generate(&[1, 2, 3], &request.with_draft(lookup), |_| {}).unwrap();
    assert_eq!((plain.tokens, plain.text), (drafted.tokens, drafted.text));
}
