//! Frames that are dropped, doubled, swapped, changed or late; stages that are gone or are others: each is a named error,
//! within its deadline, and what is asked afterwards is right or refused.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

mod agreement;
mod batches;
mod cancelled;
mod guards;
mod memory;
mod mischief;
mod overlap;
mod renewed;
mod replayed;
mod requests;
mod rows;
mod split;

use mischief::{Mischief, Place};
use split::{CHUNK, LONG, Split, TOKENS, computed, generated};
use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie::engine::{Engine, LogitRows, Scheduler};
use menagerie::stages::TransportKind;

/// A deadline that is waited for, and one that nothing should wait for.
const SOON: Duration = Duration::from_secs(3);

/// A way to run a request, and what it answers.
type Way = fn(&Arc<Engine>) -> Result<Vec<u32>, String>;

/// The ways that a model is asked: chunks that are all waited for, and chunks of which only the last is.
const WAYS: [(&str, Way); 2] = [("all logits", computed), ("a prompt", generated)];

/// A chunk of a prompt that is not the last, the last one, and a token: by number of the frame.
const PHASES: [usize; 3] = [1, 3, 5];

/// The positions of a frame's rows, as faults say them, in each of the ways.
fn positions(way: usize, frame: usize) -> [String; 2] {
    let chunks = if way == 0 { 2 } else { TOKENS.len() / CHUNK };
    let first = if frame < chunks { frame * CHUNK } else { chunks * CHUNK + frame - chunks };
    let rows = if frame < chunks { CHUNK } else { 1 };
    // Of a frame that was answered before the chain knows the beginning only.
    [
        format!("request 1, positions {first} to {}:", first + rows - 1),
        format!("request 1, position {first}:"),
    ]
}

/// Asks until no answer is late because the machine is busy, or hit by the frame that was held back before, but not for ever.
fn asked_again(ask: &dyn Fn() -> Result<Vec<u32>, String>) -> Result<Vec<u32>, String> {
    let (began, mut held_back) = (Instant::now(), 0);
    loop {
        match ask() {
            Err(error) if error.contains("has not answered") && began.elapsed() < LONG => {}
            Err(error) if error.contains("came before one that is missing") && held_back == 0 => {
                held_back += 1
            }
            other => return other,
        }
    }
}

/// Mischief on a link ends in an error with these words, the request and the positions of the frame, in every phase; what is
/// asked next is right.
fn fails_with(mischief: Mischief, link: usize, deadline: Duration, words: &[&str]) {
    // Together: most wait for their deadline. Frames that stay in memory are changed by nobody.
    let least = mischief.transport();
    std::thread::scope(|scope| {
        for transport in [TransportKind::InMemory, TransportKind::Serialized] {
            for way in (0..WAYS.len()).filter(|_| least == TransportKind::InMemory || transport == least) {
                for frame in PHASES {
                    let place = (Place { link, frame }, transport);
                    scope.spawn(move || fails_once(mischief, place, way, (deadline, words)));
                }
            }
        }
    });
}

fn fails_once(
    mischief: Mischief,
    (place, transport): (Place, TransportKind),
    way: usize,
    (deadline, words): (Duration, &[&str]),
) {
    let (name, ask) = WAYS[way];
    let what = format!("{mischief:?} of frame {} on link {}, {transport:?}, {name}", place.frame, place.link);
    let split = Split::carried(mischief, place, deadline, transport);
    let began = Instant::now();
    let Err(error) = ask(&split.engine) else { panic!("{what}: no error") };
    assert!(began.elapsed() < LONG / 2, "{what}: {:?}", began.elapsed());
    let places = positions(way, place.frame);
    assert!(places.iter().any(|place| error.contains(place)), "{what}: {error}, not {places:?}");
    assert!(words.iter().all(|word| error.contains(word)), "{what}: {error}, not {words:?}");
    // Nothing of the step that failed is left.
    let again = asked_again(&|| ask(&split.engine));
    assert!(again.as_ref().err().is_none(), "{what}, asked again: {}", again.unwrap_err());
    assert!(again == ask(&split.whole), "{what}, asked again");
    split.end();
}

#[test]
fn without_mischief_the_bits_are_those_of_one() {
    let nothing = Split::new(Mischief::Drop, Place { link: 0, frame: usize::MAX }, LONG);
    for (_, ask) in WAYS {
        assert!(ask(&nothing.engine).unwrap() == ask(&nothing.whole).unwrap());
    }
    nothing.end();
}

#[test]
fn a_frame_that_is_lost_is_noticed_by_the_next_one_or_the_deadline() {
    fails_with(Mischief::Drop, 0, SOON, &["stage 0 (layer"]);
    fails_with(Mischief::Drop, 1, SOON, &["stage 1 (layer"]);
    fails_with(Mischief::Drop, 2, SOON, &["stage 1 (layer"]);
    // Where another one follows nobody waits.
    let split = Split::new(Mischief::Drop, Place { link: 1, frame: 1 }, LONG);
    let (began, error) = (Instant::now(), generated(&split.engine).unwrap_err());
    assert!(error.contains("came before one that is missing") && began.elapsed() < LONG / 2, "{error}");
    split.end();
}

#[test]
fn a_frame_that_comes_twice_is_named() {
    for (link, stage) in [(0, "stage 0 (layer"), (1, "stage 1 (layer"), (2, "stage 1 (layer")] {
        fails_with(Mischief::Double, link, LONG, &[stage, "came twice or too late"]);
    }
}

#[test]
fn frames_out_of_order_are_named() {
    for (link, stage) in [(0, "stage 0 (layer"), (1, "stage 1 (layer"), (2, "stage 1 (layer")] {
        fails_with(Mischief::Swap, link, SOON, &[stage]);
    }
}

#[test]
fn a_frame_that_was_changed_is_named() {
    fails_with(Mischief::FlipBit, 0, LONG, &["stage 0 (layer", "checksum", "on the link from the chain"]);
    fails_with(Mischief::FlipBit, 1, LONG, &["stage 1 (layer", "checksum", "on the link from stage 0"]);
    fails_with(Mischief::FlipBit, 2, LONG, &["stage 1 (layer", "checksum", "on the link to the chain"]);
}

#[test]
fn a_frame_of_another_epoch_is_named() {
    fails_with(Mischief::OldEpoch, 0, LONG, &["stage 0 (layer", "epoch 8, but epoch 1 is open"]);
    fails_with(Mischief::OldEpoch, 1, LONG, &["stage 1 (layer", "epoch 8, but epoch 1 is open"]);
    fails_with(Mischief::OldEpoch, 2, LONG, &["stage 1 (layer", "epoch 8", "epoch 1"]);
}

#[test]
fn a_row_that_is_no_number_is_named() {
    fails_with(Mischief::NotANumber, 1, LONG, &["stage 1 (layer", "is NaN"]);
}

#[test]
fn a_stage_that_is_slow_is_named_and_its_late_answer_is_nobodys() {
    fails_with(Mischief::Slow(5), 1, SOON, &["stage 0 (layer", "has not answered for 3 s"]);
    fails_with(Mischief::Slow(5), 2, SOON, &["stage 1 (layer", "has not answered for 3 s"]);
}

#[test]
fn a_stage_that_is_gone_is_named_for_ever() {
    for link in 0..3 {
        for (way, (_, ask)) in WAYS.iter().enumerate() {
            for frame in PHASES {
                let split = Split::new(Mischief::Gone, Place { link, frame }, LONG);
                let errors = [ask(&split.engine).unwrap_err(), ask(&split.engine).unwrap_err()];
                for error in &errors {
                    let what = format!("frame {frame} on link {link}: {error}");
                    assert!(error.contains("stage 1 (layer") && error.contains("is gone"), "{what}");
                    // One before it may not have been answered.
                    let places: Vec<String> = (0..=frame).flat_map(|frame| positions(way, frame)).collect();
                    assert!(places.iter().any(|place| error.contains(place)), "{what}");
                }
                split.end();
            }
        }
    }
}

/// What is given back for frames says when more may come: what is lost or changed is spoken for by the next one, and where all
/// that a link may hold is lost, it is asked for.
#[test]
fn what_is_given_back_may_be_lost() {
    for mischief in [Mischief::LoseDone, Mischief::FlipDone, Mischief::LoseThree, Mischief::LoseEverySecond] {
        for link in 0..3 {
            for frame in 0..9 {
                let split = Split::new(mischief, Place { link, frame }, SOON);
                for (name, ask) in WAYS {
                    let what = format!("{mischief:?} {frame} on link {link}, {name}");
                    assert!(ask(&split.engine).expect(&what) == ask(&split.whole).unwrap(), "{what}");
                }
                split.end();
            }
        }
    }
}

/// A stage begins the next chunk of a prompt before the stage after it has ended the last one. Where others leave this process one
/// core for a while nothing overlaps: it is tried several times.
#[test]
fn chunks_of_a_prompt_overlap() {
    let mut tried = (0..10).map(|_| overlapping_chunks());
    assert!(tried.any(|overlapping| overlapping >= 3), "3 of 9 chunks never overlap");
}

/// How many of nine chunks overlap.
fn overlapping_chunks() -> usize {
    let split = Split::new(Mischief::Drop, Place { link: 0, frame: usize::MAX }, LONG);
    let engine = Arc::new(Engine { chunk: 60, ..(*split.engine).clone() });
    let mut scheduler = Scheduler::for_one(engine, Vec::new()).unwrap();
    let mut sequence = scheduler.create().unwrap();
    let tokens: Vec<u32> = (0..600).map(|index| index % 90).collect();
    scheduler.begin(&mut sequence, &tokens, LogitRows::Last).unwrap();
    scheduler.feed(&mut sequence, None, &mut |_, _| Ok(())).unwrap();
    // One more step, before which the chain hears of the others.
    scheduler.push(&mut sequence, 7).unwrap();
    scheduler.feed(&mut sequence, None, &mut |_, _| Ok(())).unwrap();
    let times = split.chain.times();
    let chunks: Vec<u32> = times.iter().filter(|time| time.rows == 60).map(|time| time.step).collect();
    let of = |stage: u16, step: u32| times.iter().find(|time| (time.stage, time.step) == (stage, step));
    let overlap = |step: &&u32| match (of(0, **step + 1), of(1, **step)) {
        (Some(next), Some(last)) => next.began < last.ended,
        _ => false,
    };
    // Each step is there twice, once of each stage.
    let overlapping = chunks.iter().filter(overlap).count() / 2;
    drop(scheduler);
    split.end();
    overlapping
}
