//! Cancellation of single requests of a queue, while others run.

use crate::fixture::{engine, mixing};
use menagerie_engine::{
    Completion, Event, GenerateError, Queue, Request, RequestId, Scheduler, SchedulerOptions, StopReason,
};
use menagerie_testkit::FakeModel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Flag = Arc<AtomicBool>;

fn queue(model: &Arc<FakeModel>, sequences: usize) -> Queue {
    let options = SchedulerOptions::default().with_sequences(sequences).with_step_tokens(64);
    Queue::new(Scheduler::new(engine(model, 512, 64), Vec::new(), options).unwrap(), None)
}

/// Requests with a flag each that answer the prompts 1, 2 .. and have the first token.
fn answering(queue: &mut Queue, count: u32) -> Vec<(RequestId, Flag)> {
    let all = (1..=count).map(|salt| {
        let flag = Flag::default();
        let request = Request::greedy(100).with_cancel(Arc::clone(&flag));
        (queue.submit(&[salt, salt + 1, salt + 2], &request), flag)
    });
    let all: Vec<(RequestId, Flag)> = all.collect();
    queue.step(|_, _| {});
    all
}

/// Sets the flags in the middle of the next steps.
fn set_during(model: &FakeModel, flags: impl IntoIterator<Item = Flag>) {
    let flags: Vec<Flag> = flags.into_iter().collect();
    model.during(Some(Box::new(move || {
        flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        Ok(())
    })));
}

/// A step, and the ids of its tokens.
fn step(queue: &mut Queue) -> (Vec<Completion>, Vec<RequestId>) {
    let mut tokens = Vec::new();
    let ended = queue.step(|id, event| {
        if matches!(event, Event::Token { .. }) {
            tokens.push(id);
        }
    });
    (ended, tokens)
}

fn is_cancelled(ended: &Completion) -> bool {
    matches!(&ended.1, Ok(outcome) if outcome.reason == StopReason::Cancelled)
}

#[test]
fn one_of_two_ends_with_the_step_and_the_other_has_its_token() {
    for model in [FakeModel::new(50, mixing), FakeModel::new(50, mixing).recurrent()] {
        let model = Arc::new(model);
        let mut expected = None;
        for cancels in [false, true] {
            let mut queue = queue(&model, 2);
            let all = answering(&mut queue, 2);
            if cancels {
                set_during(&model, [Arc::clone(&all[0].1)]);
                let (ended, tokens) = step(&mut queue);
                model.during(None);
                assert_eq!((ended.len(), ended[0].0, is_cancelled(&ended[0])), (1, all[0].0, true));
                assert_eq!(tokens, [all[1].0], "the step went on, and the cancelled one got nothing of it");
            }
            let ended = queue.run(|_, _| {});
            let other = ended.into_iter().find(|(id, _)| *id == all[1].0).unwrap().1.unwrap();
            assert_eq!(*expected.get_or_insert(other.tokens.clone()), other.tokens);
            assert_eq!(other.tokens.len(), 100);
        }
    }
}

/// Flags of their own, all set: the step ends in the middle, before the model reaches the second sequence.
#[test]
fn a_step_ends_early_when_everyone_in_it_is_cancelled() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, 2);
    let all = answering(&mut queue, 2);
    model.take_seen();
    set_during(&model, all.iter().map(|(_, flag)| Arc::clone(flag)));
    let (ended, tokens) = step(&mut queue);
    assert_eq!((ended.len(), ended.iter().all(is_cancelled), tokens.len()), (2, true, 0));
    assert_eq!(model.take_seen().len(), 1);
    assert!(queue.is_idle());
    queue.scheduler_mut().forget().unwrap();
    assert_eq!(queue.scheduler().state_bytes(), 0);
}

/// Someone who cannot be cancelled is never cut off by the others.
#[test]
fn a_request_without_a_flag_keeps_the_step_going() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, 3);
    let free = queue.submit(&[9, 9, 9], &Request::greedy(100));
    let all = answering(&mut queue, 2);
    set_during(&model, all.iter().map(|(_, flag)| Arc::clone(flag)));
    let (ended, tokens) = step(&mut queue);
    assert_eq!((ended.len(), tokens), (2, vec![free]));
}

/// By flag with the step that is being computed; by id at once, so that the place in the queue is free.
#[test]
fn waiting_requests_end_at_once() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, 1);
    let running = answering(&mut queue, 1);
    let flag = Flag::default();
    let by_flag = queue.submit(&[7, 7], &Request::greedy(5).with_cancel(Arc::clone(&flag)));
    let by_id = queue.submit(&[8, 8], &Request::greedy(5));
    let last = queue.submit(&[9, 9], &Request::greedy(5));
    queue.cancel(by_id);
    assert_eq!(queue.waiting(), 2);
    set_during(&model, [flag]);
    let (ended, tokens) = step(&mut queue);
    model.during(None);
    let ids: Vec<RequestId> = ended.iter().map(|(id, _)| *id).collect();
    assert!(ended.iter().all(|(_, result)| matches!(result, Err(GenerateError::Cancelled))), "{ended:?}");
    assert_eq!((ids, tokens), (vec![by_id, by_flag], vec![running[0].0]));
    queue.cancel(running[0].0);
    let ended = queue.run(|_, _| {});
    assert_eq!(ended.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [running[0].0, last]);
}
