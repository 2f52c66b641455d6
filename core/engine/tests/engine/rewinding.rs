//! Windows that drop rows, and recurrent states that go back to snapshots.

use crate::fixture::{Lone, best, engine, mixing};
use menagerie_engine::Scheduler;
use menagerie_testkit::FakeModel;
use std::sync::Arc;

/// A sequence in pages of 4 tokens.
fn small_pages(model: &Arc<FakeModel>, context: usize, chunk: usize) -> Lone {
    let engine = engine(model, context, chunk);
    let pool = engine.pool_options(1, context).with_page_len(4);
    let mut scheduler = Scheduler::with_pool(engine, Vec::new(), pool, chunk).unwrap();
    let sequence = scheduler.create().unwrap();
    Lone { scheduler, sequence }
}

#[test]
fn the_memory_of_a_window_stays_flat_over_a_long_generation() {
    let model = Arc::new(FakeModel::new(50, mixing).windowed(10));
    let mut lone = small_pages(&model, 4000, 16);
    let prompt: Vec<u32> = (0..40).map(|i| i % 30).collect();
    let (mut logits, _) = lone.prefill(&prompt).unwrap();
    let mut history = prompt;
    let mut most = 0;
    for _ in 0..3000 {
        let next = best(&logits);
        assert_eq!(next, mixing(&history[history.len() - 10..]), "after {} tokens", history.len());
        history.push(next);
        logits = lone.decode(next, None).unwrap();
        most = most.max(lone.scheduler.state_bytes());
    }
    // The 9 tokens a query still sees lie on at most 4 pages of 4 tokens of 4 bytes.
    assert!(most <= 4 * 4 * 4, "{most} bytes");
}

#[test]
fn what_a_window_dropped_is_computed_again() {
    let model = Arc::new(FakeModel::new(50, |seen| seen.iter().sum::<u32>() % 50).windowed(10));
    let mut lone = small_pages(&model, 400, 16);
    let prompt: Vec<u32> = (0..60).map(|i| i % 30).collect();
    lone.prefill(&prompt).unwrap();
    let mut other = prompt.clone();
    other[50] = 49;
    let (logits, cached) = lone.prefill(&other).unwrap();
    assert_eq!((cached, best(&logits)), (0, other[50..].iter().sum::<u32>() % 50));
    // The newest tokens can be taken back.
    other[59] = 48;
    let (logits, cached) = lone.prefill(&other).unwrap();
    assert_eq!((cached, best(&logits)), (59, other[50..].iter().sum::<u32>() % 50));
}

#[test]
fn a_recurrent_state_goes_back_to_the_last_snapshot_before_the_prefix_ends() {
    let model = Arc::new(FakeModel::new(50, mixing).recurrent());
    let mut lone = Lone::new(&model, 400, 8);
    let prompt: Vec<u32> = (0..30).collect();
    lone.prefill(&prompt).unwrap();
    for token in [3, 1, 4, 1, 5] {
        lone.decode(token, None).unwrap();
    }
    // The prompt and another answer: the snapshot at its end holds.
    let again = [&prompt[..], &[9, 9]].concat();
    let (logits, cached) = lone.prefill(&again).unwrap();
    assert_eq!((cached, best(&logits)), (30, mixing(&again)));
    // The same prompt: its last token wants logits, so that a snapshot before it is taken. Of 8, 16, 24, 30 and 32 tokens
    // 24 was one too many.
    let (logits, cached) = lone.prefill(&prompt).unwrap();
    assert_eq!((cached, best(&logits)), (16, mixing(&prompt)));
    // A prefix that ends inside a chunk.
    let other = [&prompt[..19], &[7, 7, 7]].concat();
    let (logits, cached) = lone.prefill(&other).unwrap();
    assert_eq!((cached, best(&logits)), (16, mixing(&other)));
    // Nothing in common.
    let (logits, cached) = lone.prefill(&[8, 8, 8]).unwrap();
    assert_eq!((cached, best(&logits)), (0, mixing(&[8, 8, 8])));
}

#[test]
fn snapshots_are_few_and_spread() {
    let model = Arc::new(FakeModel::new(50, mixing).recurrent());
    let mut lone = Lone::new(&model, 400, 4);
    let prompt: Vec<u32> = (0..200).map(|i| i % 47).collect();
    lone.prefill(&prompt).unwrap();
    // Wherever the prefix ends, at least a part of what comes before it is kept, and often most of it.
    let mut kept = Vec::new();
    for end in [199, 180, 120, 70] {
        let mut fresh = Lone::new(&model, 400, 4);
        fresh.prefill(&prompt).unwrap();
        let other = [&prompt[..end], &[49, 48]].concat();
        let (logits, cached) = fresh.prefill(&other).unwrap();
        assert_eq!(best(&logits), mixing(&other));
        assert!(cached <= end && cached % 4 == 0, "{cached} of {end}");
        kept.push(cached);
    }
    assert!(kept[0] == 196 && kept[2] > 0, "{kept:?}");
}

#[test]
fn a_recurrent_sequence_survives_cancelling_between_steps() {
    let model = Arc::new(FakeModel::new(50, mixing).recurrent());
    let mut lone = Lone::new(&model, 400, 8);
    lone.prefill(&[1, 2, 3]).unwrap();
    lone.decode(4, None).unwrap();
    let cancelled = std::sync::atomic::AtomicBool::new(true);
    assert!(lone.decode(5, Some(&cancelled)).is_err());
    assert_eq!(lone.sequence.tokens(), [1, 2, 3, 4], "nothing was begun, nothing is lost");
    let logits = lone.decode(6, None).unwrap();
    assert_eq!(best(&logits), mixing(&[1, 2, 3, 4, 6]));
}
