//! [`Session`]: feeds tokens to a model, a step at a time.

use crate::tiny::cpu_backend;
use menagerie_model::{
    AdapterSet, Arithmetic, Cancellation, Compute, Executor, Hooks, InferenceStep, KvType, ModelError,
    PoolOptions, Result, RopeRegime, Scalings, SequenceId, SequenceLayout, SequenceRows, StatePool,
    StepInput, TransformContext,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A model, its states and compute settings.
pub struct Session<'a> {
    /// The model.
    pub model: &'a dyn Executor,
    /// The compute settings.
    pub compute: Compute,
    /// The state of its sequences.
    pub states: StatePool,
    /// Hooks of every step.
    pub hooks: Hooks,
    /// Adapter sets, for every step.
    pub adapters: Vec<Arc<AdapterSet>>,
    /// Weights of adapters, for every step.
    pub scalings: Option<Scalings>,
    /// Cancels a step if set.
    pub cancelled: AtomicBool,
}

/// Tokens of one sequence in a step.
pub struct Feed<'a> {
    /// The sequence.
    pub sequence: SequenceId,
    /// Its next tokens.
    pub tokens: &'a [u32],
    /// Tokens of its whole prompt; decides the rope regime.
    pub total: usize,
    /// Its adapter set.
    pub adapters: Option<usize>,
}

impl<'a> Session<'a> {
    /// Exact arithmetic on `threads` threads, f32 state, room for eight sequences of `capacity` tokens in pages of
    /// `page_len`.
    ///
    /// # Errors
    /// Errors of the pool or the store.
    pub fn exact(model: &'a dyn Executor, threads: usize, capacity: usize, page_len: usize) -> Result<Self> {
        let compute = Compute::new(cpu_backend(threads)?, Arithmetic::Exact);
        let options = PoolOptions::sequences(KvType::F32, 8, capacity).with_page_len(page_len);
        let states = StatePool::new(&*compute.backend, model.states().to_vec(), options)?;
        let cancelled = AtomicBool::new(false);
        Ok(Self {
            model,
            compute,
            states,
            hooks: Hooks::default(),
            adapters: Vec::new(),
            scalings: None,
            cancelled,
        })
    }

    /// Feeds tokens to one sequence and gives the logits after each of them.
    ///
    /// # Errors
    /// Errors of the model.
    pub fn feed(&mut self, sequence: SequenceId, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let total = self.states.len(sequence)? + tokens.len();
        self.feed_part(sequence, tokens, total)
    }

    /// The same for a part of a prompt of `total` tokens.
    ///
    /// # Errors
    /// Errors of the model.
    pub fn feed_part(&mut self, sequence: SequenceId, tokens: &[u32], total: usize) -> Result<Vec<Vec<f32>>> {
        let mut all = self.step(&[Feed { sequence, tokens, total, adapters: None }])?;
        all.pop().ok_or_else(|| ModelError::Layout("no sequence".to_owned()))
    }

    /// One step of several sequences: logits after each token of each, in order.
    ///
    /// # Errors
    /// Errors of the model.
    pub fn step(&mut self, feeds: &[Feed]) -> Result<Vec<Vec<Vec<f32>>>> {
        let mut rows = Vec::new();
        let mut tokens = Vec::new();
        for feed in feeds {
            let first = self.states.len(feed.sequence)?;
            let start = tokens.len();
            tokens.extend_from_slice(feed.tokens);
            rows.push(SequenceRows {
                sequence: feed.sequence,
                rows: start..tokens.len(),
                first_position: first,
                step: InferenceStep::Prefill {
                    chunk_tokens: feed.tokens.len(),
                    chunk_start_position: first,
                    total_prompt_tokens: feed.total,
                    is_final_chunk: first + feed.tokens.len() == feed.total,
                },
                regime: RopeRegime::for_length(feed.total, self.model.shape().rope_regime_limit),
                logits: 0..feed.tokens.len(),
                adapters: feed.adapters,
            });
        }
        let layout = SequenceLayout::new(rows)?;
        let flags = [&self.cancelled];
        let mut context =
            TransformContext::new(&self.compute, &layout, StepInput::Tokens(&tokens), &mut self.states);
        context.adapters = &self.adapters;
        context.scalings = self.scalings.as_ref();
        context.hooks = &self.hooks;
        context.cancelled = Cancellation::by_all(&flags);
        let logits = self.model.execute(&mut context)?;
        let values = self.compute.backend.read(&logits)?;
        let mut each = values.chunks_exact(self.model.logits_width()).map(<[f32]>::to_vec);
        let out = feeds.iter().map(|feed| each.by_ref().take(feed.tokens.len()).collect()).collect();
        drop(each);
        for feed in feeds {
            self.states.advance(feed.sequence, feed.tokens.len())?;
        }
        Ok(out)
    }
}
