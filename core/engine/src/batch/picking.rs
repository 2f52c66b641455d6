//! The tokens after a step, chosen over the threads of the device's host: each run has a chain and a seed of its own, so that
//! nothing changes.

use super::Queue;
use crate::generation::Drawing;
use crate::output::Step;
use menagerie_model::{Backend, Part, SpanKey};
use std::sync::{Mutex, PoisonError};

/// Fewest logits that are worth waking the threads for.
const LEAST: usize = 1 << 16;

impl Queue<'_> {
    /// Lets the runs of a step choose their tokens side by side, which they then find; those with samplers of others, which may
    /// count on one thread, choose when it is their turn.
    pub(crate) fn pick(&mut self, step: &Step) {
        let Self { running, scheduler, .. } = self;
        let trace = scheduler.hooks().trace.as_ref();
        let backend = &*scheduler.engine().compute.backend;
        step.last_rows(&mut |rows| {
            let mut left = rows;
            let mut drawings = Vec::with_capacity(rows.len());
            for (index, run) in running.iter_mut().enumerate() {
                let Some(((_, row), rest)) = left.split_first().filter(|((at, _), _)| *at == index) else {
                    continue;
                };
                left = rest;
                drawings.extend(run.generation.drawing(row, &run.sequence));
            }
            let logits: usize = drawings.iter().map(Drawing::width).sum();
            if drawings.len() < 2 || logits < LEAST {
                return;
            }
            let count = drawings.len() as u32;
            let begun = trace.map(|trace| trace.begin());
            draw(backend, drawings);
            if let Some((trace, begun)) = trace.zip(begun) {
                trace.end(begun, SpanKey { part: Part::Sampling, layer: None, decodes: true, rows: count });
            }
        });
    }
}

/// Draws each, on whichever thread. Of one that panicked nothing is found, and its run draws again and panics on its own.
fn draw(backend: &dyn Backend, drawings: Vec<Drawing>) {
    let drawings: Vec<Mutex<Drawing>> = drawings.into_iter().map(Mutex::new).collect();
    let drawn = backend.parallel(drawings.len(), &|index| {
        if let Some(drawing) = drawings.get(index) {
            drawing.lock().unwrap_or_else(PoisonError::into_inner).draw();
        }
    });
    if let Err(error) = drawn {
        tracing::warn!(%error, "tokens are chosen one after the other");
    }
}
