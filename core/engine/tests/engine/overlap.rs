//! Steps in flight: which sequences they have, when they begin, and how requests end.

use crate::fixture::{engine, mixing};
use menagerie_engine::{
    Completion, Event, GenerateError, Queue, Request, RequestId, Scheduler, SchedulerOptions, StopReason,
};
use menagerie_model::InferenceStep;
use menagerie_testkit::{FakeModel, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Room for so many sequences, in steps of 16 rows.
fn queue(model: &Arc<FakeModel>, sequences: usize) -> Queue {
    let room = SchedulerOptions::default()
        .with_sequences(sequences)
        .with_prefixes(0)
        .with_capacity_tokens(4096)
        .with_step_tokens(16);
    Queue::new(Scheduler::new(engine(model, 512, 16), Vec::new(), room).unwrap(), None)
}

fn finish(queue: &mut Queue) -> BTreeMap<RequestId, Completion> {
    let mut ended = BTreeMap::new();
    while !queue.is_idle() {
        ended.extend(queue.step(|_, _| {}).into_iter().map(|one| (one.0, one)));
    }
    ended
}

fn tokens((_, result): &Completion) -> &[u32] {
    &result.as_ref().unwrap().tokens
}

fn prompt(index: u32) -> Vec<u32> {
    (0..3 + index % 4).map(|at| (index * 7 + at * 3) % 50).collect()
}

/// What a request says alone, in steps that do not overlap.
fn alone(prompt: &[u32], request: &Request) -> Vec<u32> {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, 1);
    let id = queue.submit(prompt, request);
    tokens(&finish(&mut queue)[&id]).to_vec()
}

/// The number of sequences in the steps that decode.
fn together(seen: &[Seen]) -> BTreeSet<usize> {
    let decoding = seen.iter().filter(|one| matches!(one.step, InferenceStep::Decode { .. }));
    decoding.map(|one| one.together).collect()
}

#[test]
fn sequences_that_decode_are_divided_over_the_steps() {
    // Steps in flight, sequences, the sizes of the steps.
    for (overlap, count, sizes) in [
        (1, 6, vec![6]),
        (2, 1, vec![1]),
        (2, 6, vec![3]),
        (3, 6, vec![2]),
        (4, 6, vec![1, 2]),
        (4, 3, vec![1]),
    ] {
        let model = Arc::new(FakeModel::new(50, mixing).overlapping(overlap));
        let mut queue = queue(&model, count);
        let request = Request::greedy(40);
        let ids: Vec<RequestId> =
            (0..count as u32).map(|index| queue.submit(prompt(index), &request)).collect();
        for _ in 0..8 * overlap {
            queue.step(|_, _| {});
        }
        model.take_seen();
        for _ in 0..8 * overlap {
            queue.step(|_, _| {});
        }
        let found = together(&model.take_seen());
        assert_eq!(found, sizes.into_iter().collect(), "{count} sequences in {overlap} steps");
        let most = model.most_in_flight();
        let least = if overlap == 1 { 0 } else { overlap.min(count) };
        // Prompts have a step in addition.
        assert!((least..=least + 1).contains(&most), "{most} in flight, {count} sequences");
        let ended = finish(&mut queue);
        for (index, id) in (0u32..).zip(ids) {
            assert_eq!(tokens(&ended[&id]), alone(&prompt(index), &request), "{index}");
        }
    }
}

/// As some end and others begin, the steps have sizes that differ by little again.
#[test]
fn what_is_left_is_divided_again() {
    let model = Arc::new(FakeModel::new(50, mixing).overlapping(2));
    let mut queue = queue(&model, 8);
    let ids: Vec<RequestId> = (0..8u32)
        .map(|index| queue.submit(prompt(index), &Request::greedy(if index % 2 == 0 { 4 } else { 60 })))
        .collect();
    for _ in 0..24 {
        queue.step(|_, _| {});
    }
    model.take_seen();
    for _ in 0..8 {
        queue.step(|_, _| {});
    }
    assert_eq!(together(&model.take_seen()), BTreeSet::from([2]), "four are left");
    assert_eq!(finish(&mut queue).len() + 4, ids.len());
}

/// While others decode, a long prompt has one step for each step of theirs, and its chunks do not wait for each other.
#[test]
fn chunks_of_a_prompt_take_turns_with_sequences_that_decode() {
    let model = Arc::new(FakeModel::new(50, mixing).overlapping(2));
    let mut queue = queue(&model, 3);
    let request = Request::greedy(100);
    let others: Vec<RequestId> = (0..2u32).map(|index| queue.submit(prompt(index), &request)).collect();
    for _ in 0..6 {
        queue.step(|_, _| {});
    }
    model.take_seen();
    let long: Vec<u32> = (0..320).map(|index| index % 50).collect();
    let id = queue.submit(&long, &Request::greedy(3));
    let (mut given, mut done) = (0, 0);
    while done < 320 {
        queue.step(|of, event| match event {
            Event::Token { .. } if others.contains(&of) => given += 1,
            Event::Prefill { done: so_far, .. } if of == id => done = so_far,
            _ => {}
        });
    }
    // Twenty chunks of 16 rows.
    assert!((18..=23).contains(&given), "{given} tokens beside 20 chunks");
    let seen = model.take_seen();
    let mixed = |one: &&Seen| matches!(one.step, InferenceStep::Prefill { .. }) && one.together > 1;
    assert_eq!(seen.iter().filter(mixed).count(), 0, "prompts have their own steps");
    let ended = finish(&mut queue);
    assert_eq!(tokens(&ended[&id]), alone(&long, &Request::greedy(3)));
    for (index, id) in (0u32..).zip(others) {
        assert_eq!(tokens(&ended[&id]), alone(&prompt(index), &request));
    }
}

/// A request whose step is in flight ends with that step and has no token of it; nothing is left of it.
#[test]
fn cancelled_requests_end_with_their_step() {
    for by_flag in [false, true] {
        let model = Arc::new(FakeModel::new(50, mixing).overlapping(3));
        let mut queue = queue(&model, 6);
        let flags: Vec<Arc<AtomicBool>> = (0..6).map(|_| Arc::default()).collect();
        let ids: Vec<RequestId> = (0u32..)
            .zip(&flags)
            .map(|(index, flag)| {
                queue.submit(prompt(index), &Request::greedy(50).with_cancel(Arc::clone(flag)))
            })
            .collect();
        for _ in 0..12 {
            queue.step(|_, _| {});
        }
        for index in [1, 4] {
            match by_flag {
                true => flags[index].store(true, Ordering::Relaxed),
                false => queue.cancel(ids[index]),
            }
        }
        let mut late = 0;
        let mut ended = BTreeMap::new();
        while !queue.is_idle() {
            let step = queue.step(|of, event| {
                late += usize::from(matches!(event, Event::Token { .. }) && (of == ids[1] || of == ids[4]));
            });
            ended.extend(step.into_iter().map(|one| (one.0, one)));
        }
        assert_eq!(late, 0, "tokens after the cancellation");
        for (index, id) in (0u32..).zip(&ids) {
            let expected = alone(&prompt(index), &Request::greedy(50));
            let outcome = ended[id].1.as_ref().unwrap();
            match index {
                1 | 4 => {
                    assert_eq!(outcome.reason, StopReason::Cancelled);
                    assert!(expected.starts_with(&outcome.tokens) && outcome.tokens.len() < 10);
                }
                _ => assert_eq!(outcome.tokens, expected),
            }
        }
        queue.scheduler_mut().forget().unwrap();
        assert_eq!(queue.scheduler().state_bytes(), 0, "no page is left");
    }
}

/// An error of a step is one of its sequences; an error of a sequence is its own.
#[test]
fn errors_of_a_step_are_those_of_its_sequences() {
    // The token 49 fails its sequence alone.
    let model =
        Arc::new(FakeModel::new(50, |history| history.len() as u32 % 49).overlapping(2).failing_on(30));
    let mut queue = queue(&model, 4);
    let ids: Vec<RequestId> =
        (0..4usize).map(|index| queue.submit(vec![5; 6 * index + 3], &Request::greedy(25))).collect();
    let ended = finish(&mut queue);
    for (index, id) in ids.iter().enumerate() {
        let (first, result) = (6 * index as u32 + 3, &ended[id].1);
        // Its tokens count up from the length of its prompt.
        match (first..first + 24).contains(&30) {
            true => assert!(matches!(result, Err(GenerateError::Model(_))), "{result:?}"),
            false => {
                assert_eq!(tokens(&ended[id]), (first..first + 25).map(|id| id % 49).collect::<Vec<_>>())
            }
        }
    }
}
