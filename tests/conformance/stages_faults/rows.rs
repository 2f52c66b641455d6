//! Rows that are no numbers: the sequence that has one fails, with the stage and the chunk; the others of its step go on.

use crate::mischief::{Mischief, Place};
use crate::split::{CHUNK, LONG, Part, Split, TOKENS, computed_part, empty_pool, prompted, taken};
use menagerie::engine::{
    Engine, GenerateError, LogitRows, Scheduler, SchedulerOptions, Sequence, StepOutput,
};
use menagerie::open::stage_fault;
use menagerie::stages::{FaultKind, TransportKind};
use std::sync::Arc;

/// What each of two sequences gets in a step: bits of its logits, or its error.
type Got = [Result<Vec<u32>, GenerateError>; 2];

fn step(scheduler: &mut Scheduler, [one, two]: &mut [Sequence; 2]) -> Got {
    let mut got = [Ok(Vec::new()), Ok(Vec::new())];
    scheduler.step(&mut [one, two], None).each(&mut |index, output| {
        let bits = |output: StepOutput| Ok(output.logits()?.iter().map(|value| value.to_bits()).collect());
        got[index] = output.and_then(bits);
    });
    got
}

/// Two sequences with the prompt.
fn two_prompts(engine: &Arc<Engine>, step_tokens: usize) -> (Scheduler, [Sequence; 2]) {
    let room = SchedulerOptions::default()
        .with_sequences(2)
        .with_prefixes(0)
        .with_capacity_tokens(64)
        .with_step_tokens(step_tokens);
    let engine = Arc::new(Engine { chunk: 32, ..(**engine).clone() });
    let mut scheduler = Scheduler::new(engine, Vec::new(), room).unwrap();
    let mut sequences = [scheduler.create().unwrap(), scheduler.create().unwrap()];
    for sequence in &mut sequences {
        scheduler.begin(sequence, &TOKENS, LogitRows::Last).unwrap();
    }
    (scheduler, sequences)
}

/// The second of two sequences in a step has a row that is no number: of the prompts, and of the tokens after them.
#[test]
fn a_row_that_is_no_number_fails_its_sequence_alone() {
    for transport in [TransportKind::InMemory, TransportKind::Serialized] {
        for frame in 0..3 {
            let split = Split::carried(Mischief::NotANumber, Place { link: 1, frame }, LONG, transport);
            let (mut scheduler, mut sequences) = two_prompts(&split.engine, 32);
            let (mut whole, mut of_whole) = two_prompts(&split.whole, 32);
            for round in 0..4 {
                let [one, two] = step(&mut scheduler, &mut sequences);
                let expected = step(&mut whole, &mut of_whole).map(Result::unwrap);
                assert!(one.unwrap() == expected[0], "{transport:?}, frame {frame}, step {round}");
                if round == frame {
                    let error = two.unwrap_err();
                    let fault = stage_fault(&error).unwrap_or_else(|| panic!("{error}"));
                    let (first, rows) = if frame == 0 { (0, 12) } else { (11 + frame as u32, 1) };
                    assert_eq!((fault.kind, fault.stage.index), (FaultKind::NotFinite, 1), "{error}");
                    assert_eq!((fault.position, fault.rows), (first, rows), "{error}");
                    let row = format!("of the row at position {}", first + rows - 1);
                    assert!(error.to_string().contains(&row), "{error}");
                    // What it held before is still there.
                    let lost = sequences[1].pending();
                    assert_eq!((lost, sequences[1].tokens().len()), (0, first as usize), "{error}");
                    let again = &of_whole[1].tokens()[first as usize..];
                    if frame == 0 {
                        scheduler.begin(&mut sequences[1], again, LogitRows::Last).unwrap();
                    } else {
                        scheduler.push(&mut sequences[1], again[0]).unwrap();
                    }
                    let two = sole(&mut scheduler, &mut sequences[1]);
                    assert!(two == expected[1], "{transport:?}, frame {frame}, asked again");
                } else {
                    assert!(two.unwrap() == expected[1], "{transport:?}, frame {frame}, step {round}");
                }
                let token = 7 + round as u32;
                for (one, other) in sequences.iter_mut().zip(&mut of_whole) {
                    scheduler.push(one, token).unwrap();
                    whole.push(other, token).unwrap();
                }
            }
            drop(scheduler);
            split.end();
        }
    }
}

/// What one sequence gets alone.
fn sole(scheduler: &mut Scheduler, sequence: &mut Sequence) -> Vec<u32> {
    let mut bits = Vec::new();
    scheduler.feed(sequence, None, &mut |_, output| taken(output, &mut bits)).unwrap();
    bits
}

/// A chunk that nobody waits for has one: a later step says which it was, and what comes before it need not be computed again.
#[test]
fn a_chunk_with_a_row_that_is_no_number_is_named_later_and_what_comes_before_stays() {
    let split = Split::new(Mischief::NotANumber, Place { link: 1, frame: 1 }, LONG);
    let (mut scheduler, mut sequence) = prompted(&split.engine).unwrap();
    let error = scheduler.feed(&mut sequence, None, &mut |_, _| Ok(())).unwrap_err();
    let fault = stage_fault(&error).unwrap_or_else(|| panic!("{error}"));
    assert_eq!((fault.kind, fault.position, fault.rows), (FaultKind::NotFinite, 3, 3), "{error}");
    let text = error.to_string();
    let words = ["positions 3 to 5: ", "row at position 5", "in an earlier chunk of the prompt"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    let kept = 2 * CHUNK - 1;
    assert_eq!(sequence.tokens(), &TOKENS[..kept]);
    let before = scheduler.counts().rows;
    scheduler.begin(&mut sequence, &TOKENS, LogitRows::Last).unwrap();
    let bits = sole(&mut scheduler, &mut sequence);
    assert_eq!(scheduler.counts().rows - before, (TOKENS.len() - kept) as u64);
    let (mut whole, mut of_whole) = prompted(&split.whole).unwrap();
    assert!(bits == sole(&mut whole, &mut of_whole));
    drop(scheduler);
    split.end();
}

/// Where nobody asks for failures of single sequences the step fails, and nothing of it stays.
#[test]
fn the_step_fails_where_failures_are_not_told_apart() {
    let split = Split::new(Mischief::NotANumber, Place { link: 1, frame: 0 }, LONG);
    let (mut pool, id) = empty_pool(&split.engine);
    let prompt = Part { sequence: id, first: 0, tokens: &TOKENS, wants: 1 };
    let error = computed_part(&split.engine, &mut pool, prompt, None).unwrap_err().to_string();
    assert!(error.contains("stage 1 (layer") && error.contains("is NaN"), "{error}");
    assert!(computed_part(&split.engine, &mut pool, prompt, None).is_ok());
    drop(pool);
    split.end();
}
