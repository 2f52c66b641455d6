//! [`FakeModel`]: a model whose next token can be told without arithmetic, for tests of what surrounds a model.
//!
//! Its logits depend on every token so far, in order, and it gets the earlier ones from the state store: a wrong
//! position, a forgotten advance or a mixed-up sequence gives another token.

use candle_core::{Device, Tensor};
use menagerie_model::state::KvType;
use menagerie_model::{
    Compute, LanguageModel, LayerStack, Model, ModelError, OutputHead, Result, StateId, StateSpec,
    TokenEmbedding, TransformContext, TransformerModel,
};
use std::ops::Range;

/// Elements of the state row: one block of any cache type.
const STATE_WIDTH: usize = 32;
/// Logit of the token that comes next; the others get less, in steps.
const HIGHEST: f32 = 8.0;

/// Predicts `(sum of (i + 1) * token_i) % vocabulary`.
pub struct FakeModel {
    vocabulary: usize,
    limit: Option<usize>,
    context: Option<usize>,
    states: Vec<StateSpec>,
}

impl FakeModel {
    /// A model of so many tokens; at most 2048, which every cache type but `q8_0` holds exactly.
    pub fn new(vocabulary: usize) -> Self {
        assert!((1..=2048).contains(&vocabulary), "a fake model has 1 to 2048 tokens");
        let state = StateSpec::PerToken {
            name: "fake.tokens".to_owned(),
            heads: 1,
            head_dim: STATE_WIDTH,
            window: None,
        };
        Self { vocabulary, limit: None, context: None, states: vec![state] }
    }

    /// The same with a limit at which the rope regime changes.
    pub fn with_regime_limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The same with a trained context.
    pub fn with_context(mut self, context: usize) -> Self {
        self.context = Some(context);
        self
    }

    /// The token that comes after these.
    pub fn next_token(&self, tokens: &[u32]) -> u32 {
        let sum: u64 = tokens.iter().zip(1u64..).map(|(token, weight)| u64::from(*token) * weight).sum();
        (sum % self.vocabulary as u64) as u32
    }

    /// Logits in which `token` leads.
    pub fn logits_for(&self, token: u32) -> Vec<f32> {
        let away = |id: usize| (id + self.vocabulary - token as usize) % self.vocabulary;
        (0..self.vocabulary).map(|id| HIGHEST - away(id) as f32 * HIGHEST / self.vocabulary as f32).collect()
    }

    /// The tokens the store holds for a sequence, up to `count`.
    fn stored_tokens(&self, context: &TransformContext, index: usize, count: usize) -> Result<Vec<u32>> {
        let rows = context.states.rows(StateId(0), context.layout.sequences()[index].sequence)?;
        let element = |position: usize| {
            let row =
                rows.pages[position / rows.page_len] as usize * rows.page_len + position % rows.page_len;
            let at = row * rows.row_bytes()?;
            let bytes = &rows.bytes[at..at + 4];
            match rows.kind {
                KvType::F32 => Ok(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
                KvType::F16 => Ok(half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()),
                KvType::Q8_0 => Err(ModelError::Unsupported("a fake model keeps f32 or f16".to_owned())),
            }
        };
        (0..count).map(|position| Ok(element(position)? as u32)).collect()
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
        if let Some(&id) = tokens.iter().find(|id| **id as usize >= self.vocabulary) {
            return Err(ModelError::TokenOutOfRange { id, vocabulary: self.vocabulary });
        }
        let values = tokens.iter().map(|id| *id as f32).collect();
        menagerie_model::ops::tensor(values, tokens.len(), 1)
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
        context.check_cancelled()?;
        context.states.prepare(context.layout)?;
        let mut out = Vec::new();
        for (index, part) in context.layout.sequences().iter().enumerate() {
            for (offset, row) in part.rows.clone().enumerate() {
                let values = [context.tokens[row] as f32; STATE_WIDTH];
                let position = part.first_position + offset;
                context.states.write_rows(StateId(0), part.sequence, position, &values)?;
                let seen = self.stored_tokens(context, index, position + 1)?;
                out.push(self.next_token(&seen) as f32);
            }
        }
        let rows = out.len();
        menagerie_model::ops::tensor(out, rows, 1)
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
        let tokens = menagerie_model::ops::values(normed)?.to_vec();
        let logits = tokens.iter().flat_map(|token| self.logits_for(*token as u32)).collect();
        menagerie_model::ops::tensor(logits, tokens.len(), self.vocabulary)
    }
}

impl TransformerModel for FakeModel {
    fn n_layers(&self) -> usize {
        1
    }

    fn max_seq_len(&self) -> Option<usize> {
        self.context
    }

    fn embedding_length(&self) -> usize {
        1
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Session, argmax};

    #[test]
    fn the_next_token_is_the_one_foretold_however_tokens_are_fed() {
        let model = FakeModel::new(97);
        let tokens = [5, 90, 3, 3, 41, 0, 8];
        for (sizes, page_len) in [(vec![7], 16), (vec![3, 4], 16), (vec![1; 7], 2)] {
            let mut session = Session::exact(&model, 1, 16, page_len).unwrap();
            let sequence = session.states.create().unwrap();
            let mut start = 0;
            for size in sizes {
                let rows = session.feed(sequence, &tokens[start..start + size]).unwrap();
                for (offset, row) in rows.iter().enumerate() {
                    assert_eq!(argmax(row) as u32, model.next_token(&tokens[..start + offset + 1]));
                }
                start += size;
            }
        }
    }
}
