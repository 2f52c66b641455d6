//! Logits of every token, however they are fed.

use crate::fake;
use crate::fixture::{best, engine, mixing};
use menagerie_engine::{Engine, GenerateError, TextPipeline};
use menagerie_measure::{Logits, LogitsOptions, logits, logits_by_step};
use menagerie_model::InferenceStep;
use menagerie_testkit::{FakeModel, Seen};
use std::sync::Arc;

#[test]
fn logits_of_every_token_are_the_same_however_they_are_fed() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let pipeline = fake(&engine(&model, 64, 4));
    let tokens: Vec<u32> = (0..9).map(|i| (i * 5) % 13).collect();
    let run = |chunk, decode_from| -> Result<Logits, GenerateError> {
        logits(&pipeline, &tokens, &LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from))
    };
    let whole = run(None, None).unwrap();
    assert_eq!(whole.rows(), 9);
    for t in 0..9 {
        assert_eq!(best(whole.row(t)), mixing(&tokens[..=t]));
    }
    model.take_seen();
    for (chunk, decode_from) in
        [(Some(1), None), (Some(4), None), (None, Some(1)), (Some(2), Some(5)), (None, Some(9))]
    {
        assert_eq!(run(chunk, decode_from).unwrap(), whole, "chunk {chunk:?}, decode from {decode_from:?}");
    }
    let decodes =
        |seen: &[Seen]| seen.iter().filter(|s| matches!(s.step, InferenceStep::Decode { .. })).count();
    model.take_seen();
    run(None, Some(3)).unwrap();
    assert_eq!(decodes(&model.take_seen()), 6);
    assert!(run(Some(0), None).is_err() && run(None, Some(0)).is_err());
}

/// Rows are handed on step by step, so that the logits of a long text need the memory of one step.
#[test]
fn logits_are_handed_on_by_steps() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let pipeline = fake(&engine(&model, 64, 4));
    let tokens: Vec<u32> = (0..40).collect();
    let steps = |options: &LogitsOptions| {
        let mut steps = Vec::new();
        logits_by_step(&pipeline, &tokens, options, &mut |rows| {
            steps.push(rows.len() / 50);
            Ok(())
        })
        .unwrap();
        steps
    };
    assert_eq!(steps(&LogitsOptions::default().with_chunk(16)), [16, 16, 8]);
    let decoded = steps(&LogitsOptions::default().with_chunk(16).with_decode_from(30));
    assert_eq!((&decoded[..2], decoded.len()), (&[16, 14][..], 12));
    let mut calls = 0;
    let options = LogitsOptions::default().with_chunk(16);
    let stopped = logits_by_step(&pipeline, &tokens, &options, &mut |_| {
        calls += 1;
        Err(GenerateError::Cancelled)
    });
    assert!(matches!(stopped, Err(GenerateError::Cancelled)) && calls == 1);
}

/// Where the system says how much is free.
#[cfg(target_os = "linux")]
#[test]
fn logits_without_room_are_refused() {
    let narrow = engine(&Arc::new(FakeModel::new(50, mixing)), 64, 4);
    let wide = Engine { model: Arc::new(FakeModel::new(1 << 50, mixing)), ..(*narrow).clone() };
    let wide = TextPipeline::new("wide", wide);
    let options = LogitsOptions::default();
    let all = logits(&wide, &[1, 2], &options).map(drop);
    let steps = logits_by_step(&wide, &[1, 2], &options, &mut |_| Ok(()));
    for (result, advice) in [(all, "fewer tokens at once"), (steps, "smaller steps (--chunk)")] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("the logits of 2 tokens") && error.contains(advice), "{error}");
    }
}
