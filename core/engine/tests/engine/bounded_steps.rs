//! Steps of a bounded time: how many rows of prompts come beside sequences that decode.

use crate::fixture::{engine, mixing};
use menagerie_engine::{Event, Queue, Request, RequestId, Scheduler, SchedulerOptions};
use menagerie_model::InferenceStep;
use menagerie_testkit::{FakeModel, Seen};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The fewest rows of prompts in a step.
const LEAST: usize = 32;

fn queue(model: &Arc<FakeModel>, time: Option<Duration>) -> Queue {
    let options =
        SchedulerOptions::default().with_capacity_tokens(4 * 8192).with_step_tokens(100).with_step_time(time);
    Queue::new(Scheduler::new(engine(model, 8192, 512), Vec::new(), options).unwrap(), None)
}

fn text(len: usize, salt: u32) -> Vec<u32> {
    (0..len as u32).map(|index| (index * index + index / 7 + salt * 11) % 50).collect()
}

/// Rows of prompts in a step, and rows of sequences that decode.
fn rows(seen: &[Seen]) -> (usize, usize) {
    let of = |decodes: bool| {
        let parts = seen.iter().filter(|part| matches!(part.step, InferenceStep::Decode { .. }) == decodes);
        parts.map(|part| part.tokens.len()).sum()
    };
    (of(false), of(true))
}

/// Tokens by request.
type Answers = BTreeMap<RequestId, Vec<u32>>;

/// The answers, and the rows of each step.
fn run(queue: &mut Queue, model: &FakeModel) -> (Answers, Vec<(usize, usize)>) {
    let (mut answers, mut steps) = (BTreeMap::new(), Vec::new());
    model.take_seen();
    while !queue.is_idle() {
        let ended = queue.step(|_, _| {});
        answers.extend(ended.into_iter().map(|(id, result)| (id, result.unwrap().tokens)));
        steps.push(rows(&model.take_seen()));
    }
    (answers, steps)
}

/// No time is enough for more than the least, and every time is enough for a whole step. Answers do not depend on it,
/// whatever states a model has, and prefixes are shared at chunk boundaries as ever.
#[test]
fn prompts_get_the_rows_of_the_time_while_others_decode() {
    let model = || FakeModel::new(50, mixing);
    for (name, model) in
        [("plain", model()), ("recurrent", model().recurrent()), ("windowed", model().windowed(40))]
    {
        let model = Arc::new(model);
        let (prefix, few) = (text(900, 1), Request::greedy(3));
        let prompts = [prefix.clone(), [prefix, text(70, 5)].concat(), text(400, 2)];
        let mut expected = None;
        for (time, most) in [(None, 99), (Some(Duration::ZERO), LEAST), (Some(Duration::MAX), 99)] {
            let mut queue = queue(&model, time);
            let stream = queue.submit(&[1, 2, 3], &Request::greedy(120));
            queue.step(|_, _| {});
            let ids = prompts.each_ref().map(|prompt| queue.submit(prompt, &few));
            let (answers, steps) = run(&mut queue, &model);
            let beside = steps.iter().filter(|(_, decoded)| *decoded > 0).map(|(prompt, _)| *prompt);
            assert_eq!(beside.max(), Some(most), "{name} {time:?}: {steps:?}");
            let all: Vec<Vec<u32>> = [stream].iter().chain(&ids).map(|id| answers[id].clone()).collect();
            assert_eq!(*expected.get_or_insert(all.clone()), all, "{name} {time:?}");
            assert!(queue.scheduler().counts().shared >= 800, "{name} {time:?}");
        }
    }
}

#[test]
fn a_step_without_decoding_sequences_is_not_bounded() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, Some(Duration::ZERO));
    queue.submit(text(1000, 1), &Request::greedy(2));
    queue.submit(text(400, 2), &Request::greedy(2));
    let (_, steps) = run(&mut queue, &model);
    // They take turns, so the shorter one ends after eight steps; it decodes beside the other one.
    assert!(steps[..8].iter().all(|step| *step == (100, 0)), "{steps:?}");
    assert_eq!(steps.iter().filter(|step| **step == (100, 0)).count(), 8 + 5, "{steps:?}");
    assert!(steps.iter().all(|(prompt, decoded)| *decoded == 0 || *prompt <= LEAST), "{steps:?}");
}

/// Two prompts beside a stream take turns, and the stream gets a token in every step.
#[test]
fn several_prompts_take_turns_in_small_steps() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, Some(Duration::ZERO));
    let stream = queue.submit(&[1, 2, 3], &Request::greedy(200));
    queue.step(|_, _| {});
    let ids =
        [queue.submit(text(1000, 1), &Request::greedy(1)), queue.submit(text(1000, 2), &Request::greedy(1))];
    let mut done: BTreeMap<RequestId, usize> = BTreeMap::new();
    let mut widest = 0;
    while done.get(&ids[0]) != Some(&1000) {
        let mut tokens = 0;
        queue.step(|id, event| match event {
            Event::Prefill { done: now, .. } => drop(done.insert(id, now)),
            Event::Token { .. } if id == stream => tokens += 1,
            _ => {}
        });
        assert_eq!(tokens, 1);
        let [one, other] = ids.map(|id| done.get(&id).copied().unwrap_or(0));
        widest = widest.max(one.abs_diff(other));
    }
    assert!(widest <= 2 * LEAST, "{widest}");
}

/// A prompt that must be computed as a whole would wait forever for a larger step.
#[test]
fn whole_prompts_have_no_bound() {
    let model = Arc::new(FakeModel::new(50, mixing).taking_whole_prompts());
    let mut queue = queue(&model, Some(Duration::ZERO));
    queue.submit(&[1, 2, 3], &Request::greedy(20));
    queue.step(|_, _| {});
    queue.submit(text(90, 1), &Request::greedy(2));
    let (answers, steps) = run(&mut queue, &model);
    assert_eq!(answers.len(), 2);
    assert_eq!(steps[0], (90, 1), "{steps:?}");
}
