//! [`FakeModel`]: a model whose next token is a function of the tokens it finds in its state.

use candle_core::{Device, Tensor};
use menagerie_kernels::{Arithmetic, Cpu};
use menagerie_model::state::KvType;
use menagerie_model::{
    Compute, InferenceStep, LanguageModel, LayerStack, Model, ModelError, OutputHead, Result, RopeRegime,
    StateId, StateSpec, TokenEmbedding, TransformContext, TransformerModel,
};
use menagerie_pipeline::Engine;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Next token after a history.
pub(crate) type Script = Box<dyn Fn(&[u32]) -> u32 + Send + Sync>;

/// One step as the model saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub step: InferenceStep,
    pub tokens: Vec<u32>,
    pub regime: RopeRegime,
    pub logits: usize,
}

/// Writes the tokens of a step into its state and answers from what it reads there, so that a wrong cache is a wrong
/// answer. The hidden rows are the logits: 5 for the scripted token, 1 for the one after it, 0 for the others.
pub(crate) struct FakeModel {
    pub vocabulary: usize,
    pub limit: Option<usize>,
    pub script: Script,
    pub seen: Mutex<Vec<Seen>>,
    /// Called in the middle of each forward.
    pub during: Mutex<Option<Box<dyn Fn() + Send>>>,
    states: Vec<StateSpec>,
}

impl FakeModel {
    pub(crate) fn new(vocabulary: usize, script: impl Fn(&[u32]) -> u32 + Send + Sync + 'static) -> Self {
        let states =
            vec![StateSpec::PerToken { name: "tokens".to_owned(), heads: 1, head_dim: 1, window: None }];
        let (seen, during) = (Mutex::new(Vec::new()), Mutex::new(None));
        Self { vocabulary, limit: None, script: Box::new(script), seen, during, states }
    }

    /// Answers with these tokens, one after the other, from the position `start` on.
    pub(crate) fn saying(vocabulary: usize, start: usize, answer: &[u32]) -> Self {
        let answer = answer.to_vec();
        Self::new(vocabulary, move |history| {
            let said = history.len().checked_sub(start);
            said.and_then(|said| answer.get(said)).copied().unwrap_or(0)
        })
    }

    pub(crate) fn with_limit(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// A state that cannot be truncated, beside the tokens.
    pub(crate) fn recurrent(mut self) -> Self {
        self.states.push(StateSpec::PerSequence { name: "count".to_owned(), shape: vec![1] });
        self
    }

    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// An engine on this model.
    pub(crate) fn engine(model: &Arc<Self>, context: usize, chunk: usize) -> Engine {
        let cpu = Cpu::new(Some(1)).unwrap();
        Engine {
            model: Arc::clone(model) as Arc<dyn LanguageModel>,
            compute: Compute::cpu(cpu, Arithmetic::Exact),
            kv_type: KvType::F32,
            context,
            chunk,
            file: None,
        }
    }

    fn row(&self, history: &[u32]) -> Vec<f32> {
        let next = (self.script)(history) as usize;
        let mut row = vec![0.0; self.vocabulary];
        row[(next + 1) % self.vocabulary] = 1.0;
        row[next] = 5.0;
        row
    }
}

impl Model for FakeModel {
    fn device(&self) -> &Device {
        &Device::Cpu
    }
}

impl TokenEmbedding for FakeModel {
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn embed(&self, tokens: &[u32], _positions: &[u32], _compute: &Compute) -> Result<Tensor> {
        Ok(Tensor::zeros((tokens.len(), self.vocabulary), candle_core::DType::F32, &Device::Cpu)?)
    }
}

impl LayerStack for FakeModel {
    fn layers(&self) -> Range<usize> {
        0..1
    }

    fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn transform(&self, _hidden: Tensor, context: &mut TransformContext) -> Result<Tensor> {
        context.states.prepare(context.layout)?;
        let mut rows = Vec::new();
        for sequence in context.layout.sequences() {
            let tokens = &context.tokens[sequence.rows.clone()];
            self.seen.lock().unwrap().push(Seen {
                step: sequence.step,
                tokens: tokens.to_vec(),
                regime: sequence.regime,
                logits: sequence.logits.len(),
            });
            let values: Vec<f32> = tokens.iter().map(|&id| id as f32).collect();
            context.states.write_rows(StateId(0), sequence.sequence, sequence.first_position, &values)?;
            if self.states.len() > 1 {
                self.count(context.states, sequence)?;
            }
            if let Some(during) = &*self.during.lock().unwrap() {
                during();
            }
            context.check_cancelled()?;
            let held = context.states.rows(StateId(0), sequence.sequence)?;
            let ids: Vec<u32> = held
                .bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]) as u32)
                .collect();
            for row in 0..tokens.len() {
                rows.extend(self.row(&ids[..sequence.first_position + row + 1]));
            }
        }
        Ok(Tensor::from_vec(rows, (context.layout.rows(), self.vocabulary), &Device::Cpu)?)
    }
}

impl FakeModel {
    /// The recurrent state counts tokens: a step must begin where the count is.
    fn count(
        &self,
        states: &mut menagerie_model::StateStore,
        sequence: &menagerie_model::SequenceRows,
    ) -> Result<()> {
        let count = states.get_mut(StateId(1), sequence.sequence)?;
        if count[0] != sequence.first_position as f32 {
            return Err(ModelError::State(format!("count {} at {}", count[0], sequence.first_position)));
        }
        count[0] += sequence.rows.len() as f32;
        Ok(())
    }
}

impl OutputHead for FakeModel {
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn norm(&self, hidden: &Tensor, _compute: &Compute) -> Result<Tensor> {
        Ok(hidden.clone())
    }

    fn logits(&self, normed: &Tensor, _compute: &Compute) -> Result<Tensor> {
        Ok(normed.clone())
    }
}

impl TransformerModel for FakeModel {
    fn n_layers(&self) -> usize {
        1
    }

    fn max_seq_len(&self) -> Option<usize> {
        None
    }

    fn embedding_length(&self) -> usize {
        self.vocabulary
    }

    fn rope_regime_limit(&self) -> Option<usize> {
        self.limit
    }

    fn stack(&self) -> &dyn LayerStack {
        self
    }
}

impl LanguageModel for FakeModel {
    fn embedding(&self) -> &dyn TokenEmbedding {
        self
    }

    fn head(&self) -> &dyn OutputHead {
        self
    }
}
