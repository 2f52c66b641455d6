//! Encoders: whole sequences, pooled.

use crate::encoder::encoder;
use menagerie_engine::{EmbeddingOptions, GenerateError, Normalization};
use menagerie_model::{Linear, LinearInput, Pooling, Result, Rows, TransformContext};
use std::sync::{Arc, Mutex};

fn plain(pooling: Option<Pooling>) -> EmbeddingOptions {
    EmbeddingOptions::default().with_pooling(pooling).with_normalization(Normalization::None)
}

#[test]
fn sequences_are_pooled_as_asked() {
    let (engine, _) = encoder(64);
    let one = |pooling| engine.embed(&[&[1, 2, 6]], &plain(pooling)).pop().unwrap().unwrap();
    assert_eq!(one(None), [12.0, 1.0], "the model's own: the mean of 10, 11 and 15");
    assert_eq!(one(Some(Pooling::Cls)), [10.0, 1.0]);
    assert_eq!(one(Some(Pooling::Last)), [15.0, 1.0]);
    assert_eq!(one(Some(Pooling::None)), [10.0, 1.0, 11.0, 1.0, 15.0, 1.0]);
    let normed = engine.embed(&[&[0, 3]], &EmbeddingOptions::default()).pop().unwrap().unwrap();
    // The mean is (4.5, 1).
    let length = (4.5f32 * 4.5 + 1.0).sqrt();
    assert!((normed[0] - 4.5 / length).abs() < 1e-6 && (normed[1] - 1.0 / length).abs() < 1e-6);
}

#[test]
fn together_is_the_same_as_alone_and_one_fails_alone() {
    let texts: [&[u32]; 6] = [&[1, 2], &[3; 5], &[], &[7, 100], &[4, 5, 6], &[9; 9]];
    for step_tokens in [1, 7, 64] {
        let (engine, steps) = encoder(step_tokens);
        let results = engine.embed(&texts, &plain(None));
        for index in [0, 1, 4] {
            let alone = engine.embed(&[texts[index]], &plain(None)).pop().unwrap().unwrap();
            assert_eq!(results[index].as_ref().unwrap(), &alone);
        }
        assert!(matches!(results[2], Err(GenerateError::EmptyPrompt)));
        assert!(matches!(results[3], Err(GenerateError::TokenOutOfRange { id: 100, index: 1, .. })));
        assert!(matches!(results[5], Err(GenerateError::PromptTooLong { tokens: 9, context: 8 })));
        let expected: &[usize] = match step_tokens {
            1 => &[1, 1, 1],
            7 => &[2, 1],
            _ => &[3],
        };
        assert_eq!(steps.lock().unwrap()[..expected.len()], *expected);
    }
}

#[test]
fn a_vector_that_is_no_number_is_an_error_of_its_text() {
    let (engine, _) = encoder(64);
    let results = engine.embed(&[&[1], &[99], &[2]], &plain(None));
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(matches!(results[1], Err(GenerateError::NotFinite { .. })));
}

/// A linear that changes nothing and records the row of the step that each of its rows came from.
struct OriginLog(Arc<Mutex<Vec<usize>>>);

impl Linear for OriginLog {
    fn in_features(&self) -> usize {
        2
    }

    fn out_features(&self) -> usize {
        2
    }

    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows> {
        self.0.lock().unwrap().extend((0..x.rows().rows()).map(|row| x.origin(row)));
        context.compute.backend.copy(x.rows())
    }
}

/// Adapters find the sequence of a pooled row by its origin. No linear follows a requested pooling, which has other
/// origins, so no linear can get the origins of another pooling.
#[test]
fn linears_after_the_pooling_get_the_origins_of_the_pooled_rows() {
    let texts: [&[u32]; 2] = [&[1, 2, 6], &[3, 4]];
    for (own, expected) in [(Pooling::Cls, [0, 3]), (Pooling::Mean, [0, 3]), (Pooling::Last, [2, 4])] {
        let (mut engine, _) = encoder(64);
        let origins = Arc::new(Mutex::new(Vec::new()));
        let model = Arc::get_mut(&mut engine.model).unwrap();
        model.pooling = own;
        model.dense.push(Box::new(OriginLog(Arc::clone(&origins))));
        assert!(engine.embed(&texts, &plain(None)).iter().all(|vector| vector.as_ref().unwrap().len() == 2));
        assert_eq!(std::mem::take(&mut *origins.lock().unwrap()), expected, "{own:?}");
        for requested in [Pooling::Cls, Pooling::Mean, Pooling::Last, Pooling::None] {
            assert!(engine.embed(&texts, &plain(Some(requested))).iter().all(|vector| vector.is_ok()));
            assert!(origins.lock().unwrap().is_empty(), "{requested:?}");
        }
    }
}
