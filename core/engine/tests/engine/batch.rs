//! Several sequences in one step: each is what it is alone, and one that fails is the only one that does.

use crate::byte_text::{Bytes, VOCABULARY};
use crate::fixture::{engine, mixing};
use menagerie_engine::{
    Engine, Event, GenerateError, LogitRows, Outcome, Queue, Request, SamplingOptions, Scheduler, Sequence,
    StopReason,
};
use menagerie_model::{KvType, ModelError};
use menagerie_testkit::FakeModel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pages are small, so that a queue starts several requests in a small pool.
fn scheduler(model: &Arc<FakeModel>, capacity_tokens: usize, step_tokens: usize) -> Scheduler {
    let engine = engine(model, 64, 16);
    let pool = engine.pool_options(4, capacity_tokens).with_page_len(4);
    Scheduler::with_pool(engine, Vec::new(), pool, step_tokens).unwrap()
}

fn prompts() -> Vec<Vec<u32>> {
    vec![vec![1, 2, 3], (0..23).map(|i| (i * 7) % 40).collect(), vec![9], (5..18).collect()]
}

/// Runs all prompts in one queue. Returns their results.
fn run(
    scheduler: Scheduler,
    prompts: &[Vec<u32>],
    requests: &[Request],
) -> Vec<Result<Outcome, GenerateError>> {
    let mut queue = Queue::new(scheduler, Some(Arc::new(Bytes)));
    for (prompt, request) in prompts.iter().zip(requests) {
        queue.submit(prompt, request);
    }
    queue.run(|_, _| {}).into_iter().map(|(_, result)| result).collect()
}

fn alone(model: &Arc<FakeModel>, prompt: &[u32], request: &Request) -> Outcome {
    let one = [prompt.to_vec()];
    run(scheduler(model, 64, 16), &one, std::slice::from_ref(request)).pop().unwrap().unwrap()
}

#[test]
fn together_is_the_same_as_alone() {
    for model in [FakeModel::new(50, mixing), FakeModel::new(50, mixing).recurrent()] {
        let model = Arc::new(model);
        let requests: Vec<Request> = [5, 9, 17, 2].map(Request::greedy).into();
        let expected: Vec<Vec<u32>> = prompts()
            .iter()
            .zip(&requests)
            .map(|(prompt, request)| alone(&model, prompt, request).tokens)
            .collect();
        for step_tokens in [1, 4, 7, 100] {
            model.take_seen();
            let results = run(scheduler(&model, 256, step_tokens), &prompts(), &requests);
            let tokens: Vec<Vec<u32>> = results.into_iter().map(|result| result.unwrap().tokens).collect();
            assert_eq!(tokens, expected, "{step_tokens} rows per step");
            let seen = model.take_seen();
            assert!(step_tokens == 1 || seen.iter().any(|seen| seen.together > 1), "steps were shared");
        }
    }
}

#[test]
fn a_step_has_no_more_rows_than_it_may_and_nobody_starves() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut scheduler = scheduler(&model, 256, 6);
    let mut sequences: Vec<Sequence> = (0..4).map(|_| scheduler.create().unwrap()).collect();
    scheduler.begin(&mut sequences[0], &[1; 9], LogitRows::Last).unwrap();
    scheduler.begin(&mut sequences[1], &[2; 20], LogitRows::Last).unwrap();
    // One that decodes goes on while others have long prompts.
    scheduler.push(&mut sequences[2], 7).unwrap();
    let mut steps = 0;
    while sequences.iter().any(|sequence| sequence.pending() > 0) {
        let mut all: Vec<&mut Sequence> = sequences.iter_mut().collect();
        scheduler.step(&mut all, None).each(&mut |_, output| assert!(output.is_ok()));
        let rows: usize = model.take_seen().iter().map(|seen| seen.tokens.len()).sum();
        assert!((1..=6).contains(&rows), "{rows} rows");
        if steps == 0 {
            assert_eq!(sequences[2].pending(), 0, "decoding comes first");
        }
        steps += 1;
    }
    assert_eq!(steps, 5, "30 rows in steps of 6");
}

#[test]
fn one_fails_alone() {
    // The third sequence's second answer is no number; the fourth has a prompt that is too long.
    let model = Arc::new(FakeModel::new(50, mixing).broken_after(mixing(&[9]), f32::NAN));
    let requests = vec![Request::greedy(4); 4];
    let mut prompts = prompts();
    prompts[3] = vec![1; 65];
    let mut results = run(scheduler(&model, 256, 16), &prompts, &requests);
    let long = results.pop().unwrap().unwrap_err();
    assert!(matches!(long, GenerateError::PromptTooLong { tokens: 65, context: 64 }));
    let broken = results.pop().unwrap().unwrap_err().to_string();
    assert!(broken.starts_with("after position 1 value ") && broken.contains(" is NaN"), "{broken}");
    let fine = Arc::new(FakeModel::new(50, mixing));
    for (result, prompt) in results.into_iter().zip(&prompts) {
        assert_eq!(result.unwrap().tokens, alone(&fine, prompt, &requests[0]).tokens);
    }
}

/// Two sequences of 40 tokens do not fit into 64, one does. A session keeps its state, so nothing can make room.
#[test]
fn a_sequence_without_room_fails_alone() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let engine = engine(&model, 64, 16);
    let pool = engine.pool_options(2, 64).with_page_len(4);
    let mut scheduler = Scheduler::with_pool(engine, Vec::new(), pool, 16).unwrap();
    let mut sequences = [scheduler.create().unwrap(), scheduler.create().unwrap()];
    for (sequence, prompt) in sequences.iter_mut().zip([(0..40).collect::<Vec<u32>>(), (0..30).collect()]) {
        scheduler.begin(sequence, &prompt, LogitRows::Last).unwrap();
    }
    let [first, second] = &mut sequences;
    scheduler.feed(first, None, &mut |_, _| Ok(())).unwrap();
    let error = scheduler.feed(second, None, &mut |_, _| Ok(())).unwrap_err();
    let message = error.to_string();
    assert!(
        matches!(error, GenerateError::Model(ModelError::State(_))) && message.contains("more pages"),
        "{message}"
    );
    assert_eq!((first.tokens().len(), second.tokens().len()), (40, 0));
    scheduler.push(first, 3).unwrap();
    scheduler.feed(first, None, &mut |_, _| Ok(())).unwrap();
}

#[test]
fn options_that_make_no_sense_fail_alone() {
    let model = Arc::new(FakeModel::new(VOCABULARY, mixing));
    let bias = SamplingOptions::greedy().with_logit_bias(vec![(9999, 1.0)]);
    let nothing_left = SamplingOptions::greedy()
        .with_logit_bias((0..VOCABULARY as u32).map(|id| (id, f32::NEG_INFINITY)).collect());
    let with = |sampling| Request::greedy(3).with_sampling(sampling);
    let requests = [with(bias), Request::greedy(3), with(nothing_left)];
    let results = run(scheduler(&model, 256, 16), &prompts()[..3], &requests);
    assert!(results[0].is_err() && results[2].is_err());
    assert_eq!(results[1].as_ref().unwrap().tokens.len(), 3);
}

#[test]
fn an_error_of_the_step_is_that_of_all_in_it() {
    let model = Arc::new(FakeModel::new(50, mixing).recurrent());
    let mut scheduler = scheduler(&model, 256, 16);
    let mut sequences: Vec<Sequence> = (0..2).map(|_| scheduler.create().unwrap()).collect();
    for sequence in &mut sequences {
        scheduler.begin(sequence, &[1, 2, 3], LogitRows::Last).unwrap();
        scheduler.feed(sequence, None, &mut |_, _| Ok(())).unwrap();
        scheduler.push(sequence, 4).unwrap();
    }
    model.during(Some(Box::new(|| Err(ModelError::Weights("gone".to_owned())))));
    let step = scheduler.step(&mut sequences.iter_mut().collect::<Vec<_>>(), None);
    let mut errors = Vec::new();
    step.each(&mut |_, output| errors.push(output.unwrap_err().to_string()));
    assert_eq!(errors, ["weights: gone", "the step this sequence shared with others failed: weights: gone"]);
    model.during(None);
    // Both are what they were before the step, their recurrent state too.
    for sequence in &mut sequences {
        assert_eq!((sequence.tokens(), sequence.pending()), (&[1, 2, 3][..], 0));
        scheduler.push(sequence, 4).unwrap();
        scheduler.feed(sequence, None, &mut |_, _| Ok(())).unwrap();
    }
}

#[test]
fn one_is_cancelled_and_the_other_goes_on() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let flag = Arc::new(AtomicBool::new(false));
    let requests = [Request::greedy(20).with_cancel(Arc::clone(&flag)), Request::greedy(20)];
    let mut queue = Queue::new(scheduler(&model, 256, 16), None);
    let prompts = prompts();
    let ids = [0, 1].map(|index| queue.submit(&prompts[index], &requests[index]));
    let mut first = 0;
    let results = queue.run(|id, event| {
        if id == ids[0] && matches!(event, Event::Token { .. }) {
            first += 1;
            flag.store(first == 5, Ordering::Relaxed);
        }
    });
    let results: Vec<Outcome> = results.into_iter().map(|(_, result)| result.unwrap()).collect();
    assert_eq!((&results[0].reason, results[0].tokens.len()), (&StopReason::Cancelled, 5));
    assert_eq!((&results[1].reason, results[1].tokens.len()), (&StopReason::MaxTokens, 20));
    assert_eq!(results[0].tokens, alone(&model, &prompts[0], &Request::greedy(5)).tokens);
}

#[test]
fn an_f16_cache_that_overflows_is_named() {
    for (kv_type, value, advice) in [
        (KvType::F16, f32::INFINITY, "try --kv-type f32"),
        (KvType::F32, f32::NEG_INFINITY, "check the file's checksum"),
    ] {
        let model = Arc::new(FakeModel::new(50, mixing).broken_after(3, value));
        let engine = Arc::new(Engine { kv_type, ..(*engine(&model, 64, 16)).clone() });
        let mut scheduler = Scheduler::for_one(engine, Vec::new()).unwrap();
        let mut sequence = scheduler.create().unwrap();
        scheduler.begin(&mut sequence, &[1, 2, 3, 4], LogitRows::All).unwrap();
        let error = scheduler.feed(&mut sequence, None, &mut |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("after position 2 value ") && error.contains(advice), "{error}");
        assert!(sequence.tokens().is_empty(), "nothing computed from it is kept");
    }
}

#[test]
fn models_that_look_ahead_get_no_chunks() {
    let model = Arc::new(FakeModel::new(50, mixing).looking_ahead());
    let mut scheduler = scheduler(&model, 256, 16);
    let mut sequences: Vec<Sequence> = (0..3).map(|_| scheduler.create().unwrap()).collect();
    let error = scheduler.begin(&mut sequences[0], &[1; 17], LogitRows::Last).unwrap_err().to_string();
    assert!(error.contains("cannot be computed in chunks") && error.contains("--chunk 17"), "{error}");
    for sequence in &mut sequences {
        scheduler.begin(sequence, &[1; 10], LogitRows::Last).unwrap();
    }
    while sequences.iter().any(|sequence| sequence.pending() > 0) {
        scheduler.step(&mut sequences.iter_mut().collect::<Vec<_>>(), None);
        assert!(model.take_seen().iter().all(|seen| seen.tokens.len() == 10));
    }
    assert!(matches!(scheduler.push(&mut sequences[0], 1), Err(GenerateError::LooksAhead)));
}
