//! [`Memory`]: states of one number per token, readable without a kernel.

use crate::layout::{SequenceLayout, SequenceRows};
use crate::state::{
    PoolOptions, RowRun, SequenceId, StateBacking, StateId, StatePlan, StatePool, StateRoom, StateSpec,
};
use crate::step::{InferenceStep, RopeRegime};
use crate::{ModelError, Result};
use menagerie_formulas::KvType;

/// Pages of numbers, and blocks.
pub(super) struct Memory {
    /// By state: one number per row, or the elements of all blocks.
    values: Vec<Vec<f32>>,
    /// By state: rows of a page, or elements of a block.
    unit: Vec<usize>,
}

pub(super) fn rows(name: &str, window: Option<usize>) -> StateSpec {
    StateSpec::PerToken { name: name.to_owned(), dtype: None, heads: 1, head_dim: 1, window }
}

pub(super) fn recurrent(name: &str) -> StateSpec {
    StateSpec::PerSequence { name: name.to_owned(), shape: vec![3] }
}

pub(super) fn pool(specs: Vec<StateSpec>, options: PoolOptions) -> StatePool {
    StatePool::with_backing(specs, options, |plan| Ok(Box::new(Memory::new(plan)))).unwrap()
}

impl Memory {
    fn new(plan: &StatePlan) -> Self {
        let size = |room: &StateRoom| match *room {
            StateRoom::Pages { dtype, heads, head_dim, pages } => {
                assert_eq!((dtype, heads, head_dim), (KvType::F32, 1, 1));
                (plan.page_len, pages)
            }
            StateRoom::Blocks { elements, blocks } => (elements, blocks),
        };
        let sizes: Vec<(usize, usize)> = plan.rooms.iter().map(size).collect();
        Self {
            values: sizes.iter().map(|(unit, count)| vec![0.0; unit * count]).collect(),
            unit: sizes.iter().map(|(unit, _)| *unit).collect(),
        }
    }

    pub(super) fn fill(&mut self, state: StateId, block: u32, value: f32) {
        self.block(state, block).fill(value);
    }

    fn block(&mut self, state: StateId, block: u32) -> &mut [f32] {
        let unit = self.unit[state.0];
        &mut self.values[state.0][block as usize * unit..][..unit]
    }

    fn copy(&mut self, state: StateId, from: u32, to: u32) {
        let unit = self.unit[state.0];
        let from = from as usize * unit;
        self.values[state.0].copy_within(from..from + unit, to as usize * unit);
    }
}

impl StateBacking for Memory {
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        self.copy(state, from, to);
        Ok(())
    }

    fn read_rows(&self, state: StateId, run: RowRun) -> Result<Vec<u8>> {
        let width = 1;
        let rows = &self.values[state.0][run.row * width..(run.row + run.len) * width];
        Ok(rows.iter().flat_map(|value| value.to_ne_bytes()).collect())
    }

    fn write_rows(&mut self, state: StateId, run: RowRun, bytes: &[u8]) -> Result<()> {
        let width = 1;
        let rows = &mut self.values[state.0][run.row * width..(run.row + run.len) * width];
        let (values, _) = bytes.as_chunks::<4>();
        rows.iter_mut().zip(values).for_each(|(row, value)| *row = f32::from_ne_bytes(*value));
        Ok(())
    }

    fn clear_block(&mut self, state: StateId, block: u32) -> Result<()> {
        self.fill(state, block, 0.0);
        Ok(())
    }

    fn copy_block(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        self.copy(state, from, to);
        Ok(())
    }

    fn read_block(&self, state: StateId, block: u32) -> Result<Vec<f32>> {
        let unit = self.unit[state.0];
        Ok(self.values[state.0][block as usize * unit..][..unit].to_vec())
    }

    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<()> {
        self.block(state, block).copy_from_slice(values);
        Ok(())
    }
}

/// A layout of one sequence per part: where it begins, and rows.
pub(super) fn layout(parts: &[(SequenceId, usize, usize)]) -> SequenceLayout {
    let mut next = 0;
    let sequences = parts.iter().map(|&(sequence, first_position, rows)| {
        next += rows;
        SequenceRows {
            sequence,
            rows: next - rows..next,
            first_position,
            step: InferenceStep::Decode { current_position: first_position },
            regime: RopeRegime::Short,
            logits: 0..0,
            adapters: None,
        }
    });
    SequenceLayout::new(sequences.collect()).unwrap()
}

/// Writes `values` to every per-token state, from `position` on, as a backend does.
pub(super) fn store(
    pool: &mut StatePool,
    sequence: SequenceId,
    position: usize,
    values: &[f32],
) -> Result<()> {
    let states = pool.specs().len();
    let (tables, memory) = pool.parts_mut::<Memory>()?;
    for state in (0..states).map(StateId).filter(|state| tables.dtype(*state).is_ok()) {
        let mut rest = values;
        for run in tables.pages(state, sequence)?.runs(position..position + values.len())? {
            let (now, later) = rest.split_at(run.len);
            memory.values[state.0][run.row..run.row + run.len].copy_from_slice(now);
            rest = later;
        }
    }
    Ok(())
}

/// One whole step of one sequence.
pub(super) fn step(pool: &mut StatePool, sequence: SequenceId, values: &[f32]) -> Result<()> {
    let at = pool.len(sequence)?;
    pool.prepare(&layout(&[(sequence, at, values.len())]))?;
    store(pool, sequence, at, values)?;
    pool.advance(sequence, values.len())
}

/// The rows of a sequence from `from` on.
pub(super) fn visible(pool: &StatePool, state: StateId, sequence: SequenceId, from: usize) -> Vec<f32> {
    let read = || {
        let (tables, memory) = pool.parts::<Memory>()?;
        let runs = tables.pages(state, sequence)?.runs(from..pool.len(sequence)?)?;
        let values = runs.flat_map(|run| memory.values[state.0][run.row..run.row + run.len].to_vec());
        Ok::<_, ModelError>(values.collect())
    };
    read().unwrap()
}

/// All rows of a sequence.
pub(super) fn read(pool: &StatePool, state: StateId, sequence: SequenceId) -> Vec<f32> {
    visible(pool, state, sequence, 0)
}
