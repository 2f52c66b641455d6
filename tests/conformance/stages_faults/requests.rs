//! Whose fault it is: of several requests, of chunks that nobody waits for, and of states that are read.

use crate::mischief::{Mischief, Place};
use crate::split::{
    LONG, Making, Part, Split, TOKENS, computed_part, empty_pool, errors, generated, prompted, taken,
};
use menagerie::engine::{Engine, LogitRows, Scheduler, SchedulerOptions, Sequence, StepOutput};
use menagerie::model::{ModelError, SequenceId, StateId, StatePool};
use menagerie::open::stage_fault;
use std::sync::Arc;
use std::time::Duration;

/// A chunk that nobody waits for fails: the step of another request is right, and the next one of its own names the chunk.
#[test]
fn a_fault_is_told_to_the_request_that_has_it() {
    let split = Split::new(Mischief::OldEpoch, Place { link: 1, frame: 1 }, LONG);
    let (mut scheduler, mut sequence) = prompted(&split.engine).unwrap();
    for _ in 0..2 {
        let step = scheduler.step(&mut [&mut sequence], None);
        assert!(errors(step).is_empty());
    }
    assert!(generated(&split.engine).unwrap() == generated(&split.whole).unwrap(), "the other one");
    let step = scheduler.step(&mut [&mut sequence], None);
    let error = errors(step).remove(0);
    let fault = stage_fault(&error).unwrap_or_else(|| panic!("{error}"));
    assert_eq!((fault.request, fault.position, fault.rows), (1, 3, 3), "{fault}");
    assert!(fault.is_of_links() && error.to_string().contains("request 1, positions 3 to 5"), "{error}");
    // What is asked again is computed again, and right.
    scheduler.begin(&mut sequence, &TOKENS, LogitRows::Last).unwrap();
    let mut bits = Vec::new();
    let mut take = |_: &Sequence, output: StepOutput| taken(output, &mut bits);
    scheduler.feed(&mut sequence, None, &mut take).unwrap();
    assert!(bits == generated(&split.whole).unwrap()[..bits.len()]);
    drop(scheduler);
    split.end();
}

/// A chunk of a prompt fails while later ones are on their way: the error names it, and not the one that is being sent.
#[test]
fn the_chunk_that_failed_is_named_by_a_later_one() {
    for frame in 0..3 {
        let split = Split::new(Mischief::FlipBit, Place { link: 1, frame }, LONG);
        let error = generated(&split.engine).unwrap_err();
        let (first, last) = (3 * frame, 3 * frame + 2);
        assert!(error.contains(&format!("request 1, positions {first} to {last}: ")), "{error}");
        split.end();
    }
}

/// Steps of several sequences have no positions that follow each other: the first one's is said.
#[test]
fn steps_of_several_sequences_fail_for_each() {
    let split = Split::new(Mischief::FlipBit, Place { link: 1, frame: 0 }, LONG);
    let engine = Arc::new(Engine { chunk: 32, ..(*split.engine).clone() });
    let room = SchedulerOptions::default()
        .with_sequences(2)
        .with_prefixes(0)
        .with_capacity_tokens(64)
        .with_step_tokens(32);
    let mut scheduler = Scheduler::new(engine, Vec::new(), room).unwrap();
    let mut sequences = [scheduler.create().unwrap(), scheduler.create().unwrap()];
    for sequence in &mut sequences {
        scheduler.begin(sequence, &TOKENS, LogitRows::Last).unwrap();
    }
    let [one, two] = &mut sequences;
    let step = scheduler.step(&mut [one, two], None);
    let errors: Vec<String> = errors(step).iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2);
    assert!(
        errors.iter().all(|error| error.contains("stage 1 (layer") && error.contains("position 0:")),
        "{errors:?}"
    );
    drop(scheduler);
    split.end();
}

/// A pool with the states of the prompt.
fn with_tokens(engine: &Arc<Engine>) -> (StatePool, SequenceId) {
    let (mut pool, id) = empty_pool(engine);
    let prompt = Part { sequence: id, first: 0, tokens: &TOKENS, wants: 0 };
    computed_part(engine, &mut pool, prompt, None).unwrap();
    pool.advance(id, TOKENS.len()).unwrap();
    (pool, id)
}

/// What stages hold is read as the whole model holds it.
#[test]
fn rows_that_stages_hold_are_those_of_the_whole_model() {
    let split = Split::made(Making::default()).unwrap();
    let (pool, id) = with_tokens(&split.engine);
    let (of_whole, of_whole_id) = with_tokens(&split.whole);
    for state in (0..pool.specs().len()).map(StateId) {
        let rows = pool.read_rows(state, id, 0..TOKENS.len()).unwrap();
        assert!(rows.iter().any(|byte| *byte != 0));
        assert_eq!(rows, of_whole.read_rows(state, of_whole_id, 0..TOKENS.len()).unwrap(), "{state:?}");
    }
    drop(pool);
    split.end();
}

/// A read that fails is an error that names the stage; what was held is lost then, and no later read gives anything else.
#[test]
fn a_read_that_fails_is_named_and_nothing_is_read_afterwards() {
    for (mischief, link, deadline, word) in [
        (Mischief::Drop, 1, 3, "stage 1 (layer"),
        (Mischief::Drop, 2, 3, "has not answered for 3 s"),
        (Mischief::FlipBit, 0, 60, "stage 0 (layer"),
        (Mischief::FlipBit, 1, 60, "checksum"),
        (Mischief::FlipBit, 2, 60, "checksum"),
        (Mischief::OldEpoch, 1, 60, "epoch 8, but epoch 1 is open"),
        (Mischief::Gone, 1, 60, "is gone"),
    ] {
        // The first frame is that of the step.
        let split = Split::new(mischief, Place { link, frame: 1 }, Duration::from_secs(deadline));
        let (pool, id) = with_tokens(&split.engine);
        for _ in 0..2 {
            let error = pool.read_rows(StateId(0), id, 0..4).unwrap_err();
            assert!(matches!(error, ModelError::Stage(_)), "{mischief:?}: {error}");
            let error = error.to_string();
            assert!(error.contains(word) && error.contains("stage"), "{mischief:?} on link {link}: {error}");
        }
        assert!(pool.is_lost(id).unwrap());
        drop(pool);
        split.end();
    }
}
