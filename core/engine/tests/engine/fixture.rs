//! Engines, sessions and lone sequences on a fake model.

use crate::byte_text::Bytes;
use menagerie_engine::{Engine, GenerateError, LogitRows, Scheduler, SchedulerOptions, Sequence, Session};
use menagerie_model::KvType;
use menagerie_testkit::FakeModel;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An engine on this model.
pub(crate) fn engine(model: &Arc<FakeModel>, context: usize, chunk: usize) -> Arc<Engine> {
    Arc::new(Engine {
        model: Arc::clone(model) as _,
        compute: FakeModel::compute(),
        kv_type: KvType::F32,
        context,
        learned_positions: None,
        chunk,
        guard: None,
        adapters: None,
    })
}

/// Eight sequences that share 1,024 tokens, without cached prefixes, in steps of 64 rows.
pub(crate) fn eight_sequences() -> SchedulerOptions {
    SchedulerOptions::default()
        .with_sequences(8)
        .with_prefixes(0)
        .with_capacity_tokens(1024)
        .with_step_tokens(64)
}

/// A session over bytes.
pub(crate) fn session(model: &Arc<FakeModel>, context: usize) -> Session {
    let scheduler = Scheduler::for_one(engine(model, context, 16), Vec::new()).unwrap();
    Session::new(scheduler, Some(Arc::new(Bytes))).unwrap()
}

/// A scheduler of one sequence.
pub(crate) struct Lone {
    pub(crate) scheduler: Scheduler,
    pub(crate) sequence: Sequence,
}

impl Lone {
    pub(crate) fn new(model: &Arc<FakeModel>, context: usize, chunk: usize) -> Self {
        let mut scheduler = Scheduler::for_one(engine(model, context, chunk), Vec::new()).unwrap();
        let sequence = scheduler.create().unwrap();
        Self { scheduler, sequence }
    }

    /// Logits after the prompt, and tokens that were held before.
    pub(crate) fn prefill(&mut self, prompt: &[u32]) -> Result<(Vec<f32>, usize), GenerateError> {
        self.scheduler.begin(&mut self.sequence, prompt, LogitRows::Last)?;
        Ok((self.feed(None)?, self.sequence.cached()))
    }

    pub(crate) fn decode(
        &mut self,
        token: u32,
        cancel: Option<&AtomicBool>,
    ) -> Result<Vec<f32>, GenerateError> {
        self.scheduler.push(&mut self.sequence, token)?;
        self.feed(cancel)
    }

    fn feed(&mut self, cancel: Option<&AtomicBool>) -> Result<Vec<f32>, GenerateError> {
        let mut logits = Vec::new();
        self.scheduler.feed(&mut self.sequence, cancel, &mut |_, output| {
            logits.extend_from_slice(output.logits()?);
            Ok(())
        })?;
        Ok(logits)
    }
}

/// The next token depends on every token before it.
pub(crate) fn mixing(history: &[u32]) -> u32 {
    history.iter().enumerate().fold(7, |sum: u32, (index, id)| (sum * 3 + id + index as u32) % 50)
}

/// The token of the highest logit.
pub(crate) fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32
}
