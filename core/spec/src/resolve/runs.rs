//! [`Runs`]: which blocks run, in which order, and how often.

use crate::config::{EntryConfig, HeldStream, LayerConfig, NormSite};
use crate::kind::{OptionResolver, Optional, Options, Positive, RecordedFault, ResolveContext};
use crate::language::resolver::{MOST_BLOCKS, Resolver};
use crate::language::sections::{CycleOptions, LayersOptions};
use std::sync::Arc;

/// Which blocks run, and how often.
pub(super) struct Runs {
    pub(super) count: usize,
    order: Order,
    norm: Option<NormSite>,
}

/// In which order.
enum Order {
    /// All of them, repeated.
    Loops(usize),
    /// Two stacks that alternate.
    Cycles(CycleOptions),
}

impl Resolver<'_> {
    /// Which blocks run, and how often.
    pub(super) fn runs(&mut self) -> Result<Runs, RecordedFault> {
        let blocks = self.standard_count("block_count", None)?;
        if blocks == 0 || blocks > MOST_BLOCKS {
            let message = format!("{blocks}; expected 1 to {MOST_BLOCKS} blocks");
            return Err(self.key_fault(None, "block_count", message));
        }
        let table = Arc::clone(&self.spec.body.layers);
        let mut at = ResolveContext::new(self, table, None);
        let options = LayersOptions::read(&mut at)?;
        let LayersOptions { count, loops: Positive(loops), loop_norm, cycles: Optional(cycles) } = options;
        if count == 0 || count > blocks {
            return at.fault("count", format!("{count} blocks to run; the file has {blocks}"));
        }
        let (order, runs) = match cycles.map(|cycles| cycles.options) {
            None => (Order::Loops(loops), count.saturating_mul(loops)),
            Some(cycles) => {
                let CycleOptions {
                    blocks: Positive(each),
                    low: Positive(low),
                    high: Positive(high),
                    start: _,
                } = cycles;
                if count != each.saturating_mul(2) || loops != 1 {
                    let message =
                        format!("two stacks of {each} blocks, and {count} blocks run {loops} times");
                    return at.fault("cycles", message);
                }
                let runs = each.saturating_mul(high).saturating_mul(low.saturating_add(1));
                (Order::Cycles(cycles), runs)
            }
        };
        if runs > MOST_BLOCKS {
            let message = format!("{runs} runs of {count} blocks; at most {MOST_BLOCKS} runs are supported");
            return at.fault("loops", message);
        }
        Ok(Runs { count, order, norm: loop_norm.0 })
    }
}

impl Runs {
    /// The blocks in the order in which they run, with the norm between two runs and the start of each run.
    pub(super) fn of(self, blocks: Vec<LayerConfig>) -> Vec<LayerConfig> {
        match self.order {
            Order::Loops(loops) => looped(&blocks, loops, self.norm.as_ref()),
            Order::Cycles(cycles) => cycled(&blocks, cycles, self.norm.as_ref()),
        }
    }
}

fn looped(blocks: &[LayerConfig], loops: usize, norm: Option<&NormSite>) -> Vec<LayerConfig> {
    let mut layers = Vec::with_capacity(blocks.len().saturating_mul(loops));
    for run in 1..=loops {
        layers.extend(blocks.iter().cloned());
        if let Some(last) = layers.last_mut().filter(|_| run < loops) {
            last.loop_norm = norm.cloned();
        }
    }
    layers
}

fn cycled(blocks: &[LayerConfig], cycles: CycleOptions, norm: Option<&NormSite>) -> Vec<LayerConfig> {
    let CycleOptions { blocks: Positive(each), low: Positive(low), high: Positive(high), start } = cycles;
    let (first, second) = blocks.split_at(each.min(blocks.len()));
    let mut start = Some(start);
    let mut layers = Vec::new();
    for run in 0..high * (low + 1) {
        let within = run % (low + 1);
        // The first stack follows itself, except after the second one, which always follows the first.
        let holds = if within == 0 || within == low { HeldStream::Current } else { HeldStream::Held };
        let mut stack = if within == low { second.to_vec() } else { first.to_vec() };
        if let Some(begins) = stack.first_mut() {
            begins.entry = Some(EntryConfig { holds, start: start.take() });
        }
        if let Some(ends) = stack.last_mut() {
            ends.loop_norm = norm.cloned();
        }
        layers.extend(stack);
    }
    layers
}
