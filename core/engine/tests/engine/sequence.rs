//! What is fed to the model: chunks, steps, prefixes, regimes, cancellation.

use crate::fixture::{Lone, best, mixing};
use menagerie_engine::{GenerateError, LogitRows, Sequence, StepOutput};
use menagerie_model::{InferenceStep, RopeRegime};
use menagerie_testkit::FakeModel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_prompt_is_fed_in_chunks_and_a_token_as_decode() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut sequence = Lone::new(&model, 64, 4);
    let prompt: Vec<u32> = (1..=10).collect();
    let mut chunks = Vec::new();
    let mut logits = Vec::new();
    sequence.scheduler.begin(&mut sequence.sequence, &prompt, LogitRows::Last).unwrap();
    let mut on_step = |sequence: &Sequence, output: StepOutput| {
        chunks.push(sequence.tokens().len());
        logits = output.logits()?.to_vec();
        Ok(())
    };
    sequence.scheduler.feed(&mut sequence.sequence, None, &mut on_step).unwrap();
    assert_eq!(chunks, [4, 8, 10]);
    assert_eq!(best(&logits), mixing(&prompt));
    sequence.decode(11, None).unwrap();
    let step = |chunk_tokens, chunk_start_position, is_final_chunk| InferenceStep::Prefill {
        chunk_tokens,
        chunk_start_position,
        total_prompt_tokens: 10,
        is_final_chunk,
    };
    let seen = model.take_seen();
    let steps: Vec<(InferenceStep, usize)> = seen.iter().map(|seen| (seen.step, seen.logits)).collect();
    let expected = [
        (step(4, 0, false), 0),
        (step(4, 4, false), 0),
        (step(2, 8, true), 1),
        (InferenceStep::Decode { current_position: 10 }, 1),
    ];
    assert_eq!(steps, expected);
    assert_eq!(seen[1].tokens, [5, 6, 7, 8]);
}

#[test]
fn a_prompt_of_one_token_is_still_prefill() {
    let model = Arc::new(FakeModel::new(50, mixing));
    Lone::new(&model, 8, 4).prefill(&[3]).unwrap();
    let step = model.take_seen()[0].step;
    assert!(matches!(step, InferenceStep::Prefill { chunk_tokens: 1, is_final_chunk: true, .. }), "{step:?}");
}

#[test]
fn a_common_prefix_is_kept() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut sequence = Lone::new(&model, 64, 16);
    sequence.prefill(&[1, 2, 3, 4]).unwrap();
    model.take_seen();
    let prompt = [1, 2, 9, 8, 7];
    let (logits, cached) = sequence.prefill(&prompt).unwrap();
    assert_eq!((cached, best(&logits)), (2, mixing(&prompt)));
    assert_eq!(model.take_seen()[0].tokens, [9, 8, 7]);
    // The same prompt again: its last token is computed again, since its logits are wanted.
    let (logits, cached) = sequence.prefill(&prompt).unwrap();
    assert_eq!((cached, best(&logits)), (4, mixing(&prompt)));
    // A beginning of what is cached.
    let (logits, cached) = sequence.prefill(&prompt[..3]).unwrap();
    assert_eq!((cached, best(&logits)), (2, mixing(&prompt[..3])));
}

/// Chunks are as long as they may be, also where one row is left.
#[test]
fn prompts_are_cut_into_whole_chunks_and_a_rest() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let prompt: Vec<u32> = (1..=20).collect();
    for chunk in 1..=20 {
        for total in 1..=20 {
            let mut sequence = Lone::new(&model, 64, chunk);
            assert_eq!(best(&sequence.prefill(&prompt[..total]).unwrap().0), mixing(&prompt[..total]));
            let chunks: Vec<usize> = model.take_seen().iter().map(|seen| seen.tokens.len()).collect();
            let expected: Vec<usize> = prompt[..total].chunks(chunk).map(<[u32]>::len).collect();
            assert_eq!(chunks, expected, "{total} in chunks of {chunk}");
        }
    }
}

#[test]
fn crossing_the_rope_limit_prefills_again() {
    let model = Arc::new(FakeModel::new(50, mixing).with_limit(6));
    let mut sequence = Lone::new(&model, 64, 4);
    sequence.prefill(&[1, 2, 3, 4, 5]).unwrap();
    sequence.decode(6, None).unwrap();
    assert_eq!((sequence.sequence.regime(), sequence.sequence.reprefills()), (RopeRegime::Short, 0));
    model.take_seen();
    let logits = sequence.decode(7, None).unwrap();
    assert_eq!(best(&logits), mixing(&[1, 2, 3, 4, 5, 6, 7]));
    assert_eq!((sequence.sequence.regime(), sequence.sequence.reprefills()), (RopeRegime::Long, 1));
    let seen = model.take_seen();
    assert_eq!(seen.iter().map(|seen| seen.tokens.len()).collect::<Vec<_>>(), [4, 3]);
    assert!(seen.iter().all(|seen| seen.regime == RopeRegime::Long && seen.step.total_tokens() == 7));
    sequence.decode(8, None).unwrap();
    assert_eq!(sequence.sequence.reprefills(), 1);
}

#[test]
fn a_prefix_of_another_regime_is_not_kept() {
    let model = Arc::new(FakeModel::new(50, mixing).with_limit(4));
    let mut sequence = Lone::new(&model, 64, 16);
    sequence.prefill(&[1, 2, 3]).unwrap();
    model.take_seen();
    assert_eq!(sequence.prefill(&[1, 2, 3, 4, 5]).unwrap().1, 0);
    assert_eq!(model.take_seen()[0].regime, RopeRegime::Long);
    assert_eq!(sequence.prefill(&[1, 2, 3, 4]).unwrap().1, 0);
    assert_eq!(model.take_seen()[0].regime, RopeRegime::Short);
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut sequence = Lone::new(&model, 4, 16);
    assert!(matches!(sequence.prefill(&[]), Err(GenerateError::EmptyPrompt)));
    let long = sequence.prefill(&[1; 5]).unwrap_err();
    assert_eq!(
        long.to_string(),
        "the prompt has 5 tokens but the context holds 4: shorten it by 1, or open the model with a larger context (-c 256)"
    );
    let unknown = sequence.prefill(&[1, 50]).unwrap_err().to_string();
    assert!(unknown.starts_with("token id 50 (number 1 of the prompt"), "{unknown}");
    assert!(model.take_seen().is_empty());
    sequence.prefill(&[1; 4]).unwrap();
    assert!(sequence.decode(1, None).is_err());
}

#[test]
fn cancelling_stops_at_the_next_chunk_and_what_is_done_stays() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut sequence = Lone::new(&model, 64, 2);
    let cancel = AtomicBool::new(false);
    let mut on_step = |sequence: &Sequence, _: StepOutput| {
        if sequence.tokens().len() == 4 {
            cancel.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    sequence.scheduler.begin(&mut sequence.sequence, &[1, 2, 3, 4, 5, 6, 7], LogitRows::Last).unwrap();
    let result = sequence.scheduler.feed(&mut sequence.sequence, Some(&cancel), &mut on_step);
    assert!(matches!(result, Err(GenerateError::Cancelled)));
    assert_eq!((sequence.sequence.tokens(), sequence.sequence.pending()), (&[1, 2, 3, 4][..], 0));
    let (logits, cached) = sequence.prefill(&[1, 2, 3, 4, 5]).unwrap();
    assert_eq!((cached, best(&logits)), (4, mixing(&[1, 2, 3, 4, 5])));
}

#[test]
fn cancelling_inside_a_forward_leaves_a_usable_sequence() {
    for model in [FakeModel::new(50, mixing), FakeModel::new(50, mixing).recurrent()] {
        let model = Arc::new(model);
        let mut sequence = Lone::new(&model, 64, 16);
        sequence.prefill(&[1, 2]).unwrap();
        let cancel = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancel);
        model.during(Some(Box::new(move || {
            flag.store(true, Ordering::Relaxed);
            Ok(())
        })));
        assert!(matches!(sequence.decode(3, Some(&cancel)), Err(GenerateError::Cancelled)));
        model.during(None);
        let (logits, _) = sequence.prefill(&[1, 2, 4]).unwrap();
        assert_eq!(best(&logits), mixing(&[1, 2, 4]));
    }
}
