//! Sampling of several requests in parallel, on the threads of the device's host, with the masks of their constraints.
//! Each request has its own chain and seed, so the result does not depend on the order.

use super::{Queue, RunningRequest};
use crate::generation::TokenDraw;
use crate::output::StepResults;
use menagerie_model::{Backend, Part, SpanKey};
use std::sync::{Mutex, PoisonError};

/// The fewest logits for which several threads are faster than one.
const MIN_LOGITS: usize = 1 << 16;

impl Queue {
    /// Samples the next token of each request of a step in parallel; [`Self::advance`] then finds it. Requests with
    /// samplers of other crates, which may rely on one thread, sample when it is their turn.
    pub(crate) fn sample(&mut self, step: &StepResults) {
        let Self { running, scheduler, .. } = self;
        let trace = scheduler.hooks().trace.as_ref();
        let backend = &*scheduler.engine().compute.backend;
        step.last_rows(&mut |rows| {
            let mut left = rows;
            let mut draws = Vec::with_capacity(rows.len());
            for (index, RunningRequest { generation, sequence, .. }) in running.iter_mut().enumerate() {
                let Some(((_, row), rest)) = left.split_first().filter(|((at, _), _)| *at == index) else {
                    continue;
                };
                left = rest;
                draws.extend(generation.draw(row, sequence));
            }
            let logits: usize = draws.iter().map(TokenDraw::width).sum();
            let constrained = draws.iter().filter(|draw| draw.is_constrained()).count();
            if draws.len() < 2 || (logits < MIN_LOGITS && constrained < 2) {
                return;
            }
            let count = draws.len() as u32;
            let span = trace.map(|trace| trace.begin());
            sample_all(backend, draws);
            if let Some((trace, span)) = trace.zip(span) {
                trace.end(span, SpanKey { part: Part::Sampling, layer: None, decodes: true, rows: count });
            }
        });
    }
}

/// Samples each token, on any thread. If one panics there, its request samples again in its turn and panics itself.
fn sample_all(backend: &dyn Backend, draws: Vec<TokenDraw>) {
    let draws: Vec<Mutex<TokenDraw>> = draws.into_iter().map(Mutex::new).collect();
    let result = backend.parallel(draws.len(), &|index| {
        if let Some(draw) = draws.get(index) {
            draw.lock().unwrap_or_else(PoisonError::into_inner).sample();
        }
    });
    if let Err(error) = result {
        tracing::warn!(%error, "tokens are sampled one after the other");
    }
}
