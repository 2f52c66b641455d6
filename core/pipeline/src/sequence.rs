//! [`Sequence`]: one token sequence and its state; prefill, decode, rewind.
//!
//! The only place that advances a state store, and the only place that decides about the rope regime.

use crate::engine::Engine;
use crate::error::GenerateError;
use menagerie_model::{
    InferenceStep, LayerHook, ModelError, RopeRegime, SequenceId, SequenceLayout, SequenceRows, StateSpec,
    StateStore, TransformContext,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which rows of a prompt want logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The last one.
    Last,
    /// All of them; the prompt is computed from its beginning.
    All,
}

/// A token sequence and its state.
pub struct Sequence {
    engine: Arc<Engine>,
    hooks: Vec<Arc<dyn LayerHook>>,
    states: StateStore,
    id: SequenceId,
    tokens: Vec<u32>,
    regime: RopeRegime,
    reprefills: usize,
}

/// What a prefill gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefilled {
    /// Rows of logits, one after the other, `[T', V]`: the last one, or all.
    pub logits: Vec<f32>,
    /// Tokens of the prompt that were in the cache already.
    pub cached: usize,
}

/// What a call listens to and reports.
pub struct Progress<'a> {
    /// Set from outside to stop at the next chunk or layer.
    pub cancel: Option<&'a AtomicBool>,
    /// Called after each chunk: tokens done, tokens in all, tokens from the cache.
    pub on_chunk: &'a mut dyn FnMut(usize, usize, usize),
}

impl Sequence {
    /// An empty sequence with room for the engine's context.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn new(engine: Arc<Engine>, hooks: Vec<Arc<dyn LayerHook>>) -> Result<Self, GenerateError> {
        let mut states = engine.new_states(engine.context)?;
        let id = states.create()?;
        Ok(Self { engine, hooks, states, id, tokens: Vec::new(), regime: RopeRegime::Short, reprefills: 0 })
    }

    /// The engine it runs on.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Tokens whose state is held.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The rope regime of the cached keys.
    pub fn regime(&self) -> RopeRegime {
        self.regime
    }

    /// Times the sequence was prefilled again because the regime changed.
    pub fn reprefills(&self) -> usize {
        self.reprefills
    }

    /// Bytes of state held now.
    pub fn state_bytes(&self) -> usize {
        self.states.bytes()
    }

    /// Forgets every token.
    ///
    /// # Errors
    /// What the store returns.
    pub fn reset(&mut self) -> Result<(), GenerateError> {
        self.rewind(0)
    }

    /// Makes the sequence be `prompt`, computing only what the cache does not hold, in chunks.
    ///
    /// The rope regime is that of the whole prompt; a cached prefix of another regime is dropped. Logits of at least
    /// the last token are computed.
    ///
    /// # Errors
    /// An empty prompt, one that does not fit, a token past the vocabulary, cancellation, or what the model returns.
    /// Chunks that were finished stay cached.
    pub fn prefill(
        &mut self,
        prompt: &[u32],
        wanted: Wanted,
        progress: &mut Progress,
    ) -> Result<Prefilled, GenerateError> {
        self.prefill_in_chunks(prompt, wanted, self.engine.chunk, progress)
    }

    /// [`Self::prefill`] with chunks of `chunk` tokens.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub fn prefill_in_chunks(
        &mut self,
        prompt: &[u32],
        wanted: Wanted,
        chunk: usize,
        progress: &mut Progress,
    ) -> Result<Prefilled, GenerateError> {
        self.engine.check_prompt(prompt)?;
        let regime = self.regime_of(prompt.len());
        let cached =
            if wanted == Wanted::All || regime != self.regime { 0 } else { self.common_prefix(prompt) };
        self.rewind(cached)?;
        self.regime = regime;
        let cached = self.tokens.len();
        let mut logits = Vec::new();
        for tokens in prompt[cached..].chunks(chunk.max(1)) {
            let start = self.tokens.len();
            let is_final_chunk = start + tokens.len() == prompt.len();
            let step = InferenceStep::Prefill {
                chunk_tokens: tokens.len(),
                chunk_start_position: start,
                total_prompt_tokens: prompt.len(),
                is_final_chunk,
            };
            let from = match wanted {
                Wanted::All => 0,
                Wanted::Last if is_final_chunk => tokens.len() - 1,
                Wanted::Last => tokens.len(),
            };
            logits.extend(self.step(tokens, step, from, progress.cancel)?);
            (progress.on_chunk)(self.tokens.len(), prompt.len(), cached);
        }
        Ok(Prefilled { logits, cached })
    }

    /// Feeds one token back; logits `[V]` after it.
    ///
    /// Where the token takes the sequence over the limit of the short rope regime, everything is computed again with
    /// the long one, as HF transformers does.
    ///
    /// # Errors
    /// A full context, a token past the vocabulary, cancellation, or what the model returns.
    pub fn decode(&mut self, token: u32, cancel: Option<&AtomicBool>) -> Result<Vec<f32>, GenerateError> {
        let position = self.tokens.len();
        self.engine.check_tokens(&[token])?;
        if position + 1 > self.engine.context {
            return Err(GenerateError::PromptTooLong { tokens: position + 1, context: self.engine.context });
        }
        let regime = self.regime_of(position + 1);
        if position == 0 {
            self.regime = regime;
        } else if regime != self.regime {
            let mut all = self.tokens.clone();
            all.push(token);
            self.reprefills += 1;
            let mut progress = Progress { cancel, on_chunk: &mut |_, _, _| {} };
            return Ok(self.prefill(&all, Wanted::Last, &mut progress)?.logits);
        }
        self.step(&[token], InferenceStep::Decode { current_position: position }, 0, cancel)
    }

    /// One forward over `tokens` at the end of the sequence; logits of its rows from `logits_from` on.
    fn step(
        &mut self,
        tokens: &[u32],
        step: InferenceStep,
        logits_from: usize,
        cancel: Option<&AtomicBool>,
    ) -> Result<Vec<f32>, GenerateError> {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(GenerateError::Cancelled);
        }
        let rows = SequenceRows {
            sequence: self.id,
            rows: 0..tokens.len(),
            first_position: self.tokens.len(),
            step,
            regime: self.regime,
            logits: logits_from..tokens.len(),
            adapters: None,
        };
        let layout = SequenceLayout::new(vec![rows])?;
        let result = self.forward(tokens, &layout, cancel);
        // Pages that vanished under the mapping read as zeros: say so before anything computed from them is used.
        if let Some(file) = &self.engine.file {
            file.check_alive()?;
        }
        match result {
            Ok(logits) => {
                self.states.advance(self.id, tokens.len())?;
                self.tokens.extend_from_slice(tokens);
                Ok(logits)
            }
            Err(error) => {
                self.recover()?;
                Err(error.into())
            }
        }
    }

    fn forward(
        &mut self,
        tokens: &[u32],
        layout: &SequenceLayout,
        cancel: Option<&AtomicBool>,
    ) -> Result<Vec<f32>, ModelError> {
        let mut context = TransformContext::new(&self.engine.compute, layout, tokens, &mut self.states);
        context.hooks = &self.hooks;
        context.cancelled = cancel;
        if layout.logit_rows().is_empty() {
            let hidden =
                self.engine.model.embedding().embed(tokens, layout.positions(), &self.engine.compute)?;
            self.engine.model.stack().transform(hidden, &mut context)?;
            return Ok(Vec::new());
        }
        let logits = self.engine.model.forward(&mut context)?;
        Ok(logits.flatten_all()?.to_vec1::<f32>()?)
    }

    /// After a failed step: token rows past the length do not count, but a recurrent state has been written over.
    fn recover(&mut self) -> Result<(), GenerateError> {
        if self.is_recurrent() { self.reset() } else { Ok(()) }
    }

    fn is_recurrent(&self) -> bool {
        self.states.specs().iter().any(|spec| matches!(spec, StateSpec::PerSequence { .. }))
    }

    fn regime_of(&self, total: usize) -> RopeRegime {
        RopeRegime::for_length(total, self.engine.model.rope_regime_limit())
    }

    /// Tokens of `prompt` that need not be computed again; never all of it, since its last row wants logits.
    fn common_prefix(&self, prompt: &[u32]) -> usize {
        let common = self.tokens.iter().zip(prompt).take_while(|(held, new)| held == new).count();
        let kept = common.min(prompt.len().saturating_sub(1));
        if self.is_recurrent() && kept != self.tokens.len() { 0 } else { kept }
    }

    fn rewind(&mut self, len: usize) -> Result<(), GenerateError> {
        if len < self.tokens.len() || len == 0 {
            self.states.truncate(self.id, len)?;
            self.tokens.truncate(len);
        }
        Ok(())
    }
}
