//! Encoders: whole sequences, pooled.

use menagerie_model::{
    EmbeddingModel, LayerStack, ModelError, ModelShape, Pooling, Result, Rows, StageBody, StateSpec,
    StepInput, TokenEmbedding, TransformContext,
};
use menagerie_pipeline::{EmbeddingEngine, EmbeddingOptions, GenerateError, Normalization};
use menagerie_testkit::FakeModel;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Row `[id, 1]` for a token; ids from 100 on are not known, 99 is no number.
struct Embedding;

impl TokenEmbedding for Embedding {
    fn vocabulary(&self) -> usize {
        100
    }

    fn embed(&self, context: &mut TransformContext) -> Result<Rows> {
        let StepInput::Tokens(tokens) = context.input else {
            return Err(ModelError::Unsupported("tokens only".to_owned()));
        };
        let value = |id: u32| if id == 99 { f32::NAN } else { id as f32 };
        let values = tokens.iter().flat_map(|&id| [value(id), 1.0]).collect();
        context.compute.backend.upload(values, 2)
    }
}

/// Adds the sum of the sequence's rows to each: what looks ahead, and only inside its sequence.
struct Layers {
    states: Vec<StateSpec>,
    steps: Arc<Mutex<Vec<usize>>>,
}

impl LayerStack for Layers {
    fn layers(&self) -> Range<usize> {
        0..1
    }

    fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn transform(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        context.states.prepare(context.layout)?;
        self.steps.lock().unwrap().push(context.layout.sequences().len());
        let mut values = context.compute.backend.read(&hidden)?.into_owned();
        for part in context.layout.sequences() {
            assert!(part.is_whole());
            let own = &mut values[part.rows.start * 2..part.rows.end * 2];
            let sum: f32 = own.chunks_exact(2).map(|row| row[0]).sum();
            own.chunks_exact_mut(2).for_each(|row| row[0] += sum);
        }
        context.compute.backend.upload(values, 2)
    }
}

pub(crate) fn engine(step_tokens: usize) -> (EmbeddingEngine, Arc<Mutex<Vec<usize>>>) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let state =
        StateSpec::PerToken { name: "k".to_owned(), dtype: None, heads: 1, head_dim: 2, window: None };
    let shape = ModelShape { n_layers: 1, max_seq_len: None, embedding_length: 2, rope_regime_limit: None };
    let stack = Layers { states: vec![state], steps: Arc::clone(&steps) };
    let body = StageBody { shape, stack: Box::new(stack) };
    let model = EmbeddingModel {
        body,
        embedding: Box::new(Embedding),
        norm: None,
        pooling: Pooling::Mean,
        classifier: None,
        dense: Vec::new(),
    };
    let engine = EmbeddingEngine {
        model: Arc::new(model),
        compute: FakeModel::compute(),
        context: 8,
        learned_positions: None,
        step_tokens,
        guard: None,
        lifecycles: Vec::new(),
    };
    (engine, steps)
}

fn plain(pooling: Option<Pooling>) -> EmbeddingOptions {
    EmbeddingOptions::default().with_pooling(pooling).with_normalization(Normalization::None)
}

#[test]
fn sequences_are_pooled_as_asked() {
    let (engine, _) = engine(64);
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
        let (engine, steps) = engine(step_tokens);
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
    let (engine, _) = engine(64);
    let results = engine.embed(&[&[1], &[99], &[2]], &plain(None));
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(matches!(results[1], Err(GenerateError::NotFinite { .. })));
}
