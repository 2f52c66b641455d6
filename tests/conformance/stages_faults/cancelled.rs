//! Steps that are cancelled while they wait for credit: nothing that was computed before is lost, and nothing that was to happen
//! with them.

use crate::mischief::{Mischief, Place};
use crate::split::{LONG, Part, Split, TOKENS, computed_part, empty_pool, taken};
use menagerie::engine::{Engine, GenerateError, LogitRows, Scheduler, Sequence};
use menagerie::model::{ModelError, SequenceId, StatePool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Seconds for which stage 0 does not go on.
const STUCK: u64 = 4;

/// Sets a flag while something runs that takes longer.
fn soon_cancelled<T>(run: impl FnOnce(&AtomicBool) -> T) -> T {
    let cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(STUCK / 2));
            cancelled.store(true, Ordering::Relaxed);
        });
        run(&cancelled)
    })
}

/// The bits after a prompt in chunks of two.
fn last_logits(scheduler: &mut Scheduler, sequence: &mut Sequence) -> Vec<u32> {
    let mut bits = Vec::new();
    scheduler.feed(sequence, None, &mut |_, output| taken(output, &mut bits)).unwrap();
    bits
}

fn begun(engine: &Arc<Engine>) -> (Scheduler, Sequence) {
    let engine = Arc::new(Engine { chunk: 2, ..(**engine).clone() });
    let mut scheduler = Scheduler::for_one(engine, Vec::new()).unwrap();
    let mut sequence = scheduler.create().unwrap();
    scheduler.begin(&mut sequence, &TOKENS, LogitRows::Last).unwrap();
    (scheduler, sequence)
}

/// Chunks that were sent before the one that was cancelled are not computed again.
#[test]
fn a_prompt_that_is_cancelled_goes_on_where_it_was() {
    let split = Split::new(Mischief::Slow(STUCK), Place { link: 1, frame: 1 }, LONG);
    let (mut scheduler, mut sequence) = begun(&split.engine);
    let error = soon_cancelled(|flag| scheduler.feed(&mut sequence, Some(flag), &mut |_, _| Ok(())));
    assert!(matches!(error, Err(GenerateError::Cancelled)), "{error:?}");
    // One was dealt with, and three are as many as stage 0 is sent.
    let computed = scheduler.counts().rows;
    assert_eq!((computed, sequence.tokens().len()), (8, 8));
    scheduler.begin(&mut sequence, &TOKENS, LogitRows::Last).unwrap();
    let bits = last_logits(&mut scheduler, &mut sequence);
    assert_eq!(scheduler.counts().rows, TOKENS.len() as u64, "what was computed is not computed again");
    let (mut whole, mut of_whole) = begun(&split.whole);
    assert!(bits == last_logits(&mut whole, &mut of_whole));
    drop(scheduler);
    split.end();
}

/// Chunks of one sequence that nobody waits for, as many as `count`.
fn chunks(engine: &Arc<Engine>, pool: &mut StatePool, sequence: SequenceId, count: usize) {
    for first in 0..count {
        let part = Part { sequence, first, tokens: &TOKENS[first..=first], wants: 0 };
        computed_part(engine, pool, part, None).unwrap();
        pool.advance(sequence, 1).unwrap();
    }
}

/// A page that a step has copied first is copied though the step was cancelled: the next one needs it.
#[test]
fn what_was_to_happen_before_a_cancelled_step_happens_before_the_next() {
    let split = Split::new(Mischief::Slow(STUCK), Place { link: 1, frame: 3 }, LONG);
    let mut answers = Vec::new();
    for engine in [&split.engine, &split.whole] {
        let (mut pool, one) = empty_pool(engine);
        // Stage 0 takes the fourth of these, and two wait for it: no more are sent.
        chunks(engine, &mut pool, one, 6);
        let twin = pool.fork(one).unwrap();
        let other = Part { sequence: twin, first: 6, tokens: &[71, 19], wants: 2 };
        if Arc::ptr_eq(engine, &split.engine) {
            let error = soon_cancelled(|flag| computed_part(engine, &mut pool, other, Some(flag)));
            assert!(matches!(error, Err(ModelError::Cancelled)), "{error:?}");
            assert!(!pool.is_lost(one).unwrap() && !pool.is_lost(twin).unwrap());
        }
        answers.push(computed_part(engine, &mut pool, other, None).unwrap());
        let next = Part { sequence: one, first: 6, tokens: &TOKENS[6..7], wants: 1 };
        answers.push(computed_part(engine, &mut pool, next, None).unwrap());
    }
    let [staged, after, whole, after_whole] = &answers[..] else { panic!("{} answers", answers.len()) };
    assert!(staged == whole && after == after_whole);
    split.end();
}
