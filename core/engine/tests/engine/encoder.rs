//! An encoder of one layer over a fake device, and the sequences of each of its steps.

use menagerie_engine::EmbeddingEngine;
use menagerie_model::{
    EmbeddingModel, LayerStack, ModelError, ModelShape, Pooling, Result, Rows, StageBody, StateSpec,
    StepInput, TokenEmbedding, TransformContext,
};
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

    fn is_bidirectional(&self) -> bool {
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

pub(crate) fn encoder(step_tokens: usize) -> (EmbeddingEngine, Arc<Mutex<Vec<usize>>>) {
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
