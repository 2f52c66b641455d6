//! [`FakeBackend`]: a backend for [`crate::FakeModel`], with rows and states in plain vectors and without operations.

use crate::operations::operations;
use menagerie_model::{
    Activation, Arithmetic, AttentionBiases, AttentionShape, AttentionStates, Backend, ExpertPlan, Gating,
    LinearAttentionInputs, LinearAttentionShape, LinearInput, ModelError, Operation, Packing, Pages, Param,
    Product, Result, RopeTable, Rotation, RouterApply, Rows, SelectiveScanInputs, StateBacking, StateId,
    StateMemory, StatePlan, StateRoom, StateStep, Weight,
};
use std::borrow::Cow;

/// A backend that stores rows and states, but does not compute.
#[derive(Clone, Copy, Debug, Default)]
pub struct FakeBackend;

/// States in f32, independent of the requested type.
pub struct FakeStates {
    values: Vec<Vec<f32>>,
    /// The elements of a page or block, by state.
    units: Vec<usize>,
    /// The elements of a token's row, by state.
    widths: Vec<usize>,
}

impl FakeStates {
    fn new(plan: &StatePlan) -> Self {
        let sizes: Vec<(usize, usize, usize)> = plan
            .rooms
            .iter()
            .map(|room| match *room {
                StateRoom::Pages { heads, head_dim, pages, .. } => {
                    (heads * head_dim * plan.page_len, pages, heads * head_dim)
                }
                StateRoom::Blocks { elements, blocks } => (elements, blocks, 0),
            })
            .collect();
        Self {
            values: sizes.iter().map(|(unit, count, _)| vec![0.0; unit * count]).collect(),
            units: sizes.iter().map(|(unit, ..)| *unit).collect(),
            widths: sizes.iter().map(|(.., width)| *width).collect(),
        }
    }

    /// Stores rows of the positions from `position` on.
    ///
    /// # Errors
    /// Rows that were not prepared.
    pub fn write(&mut self, state: StateId, pages: Pages<'_>, position: usize, values: &[f32]) -> Result<()> {
        let width = self.widths[state.0];
        let mut rest = values;
        for run in pages.runs(position..position + values.len() / width)? {
            let (now, later) = rest.split_at(run.len * width);
            self.values[state.0][run.row * width..(run.row + run.len) * width].copy_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    /// The rows of `positions`, one after the other.
    ///
    /// # Errors
    /// Rows that have left the window.
    pub fn read(
        &self,
        state: StateId,
        pages: Pages<'_>,
        positions: std::ops::Range<usize>,
    ) -> Result<Vec<f32>> {
        let width = self.widths[state.0];
        let rows = |run: menagerie_model::RowRun| {
            &self.values[state.0][run.row * width..(run.row + run.len) * width]
        };
        Ok(pages.runs(positions)?.flat_map(rows).copied().collect())
    }

    /// The block of a per-sequence state.
    pub fn block_mut(&mut self, state: StateId, block: u32) -> &mut [f32] {
        let unit = self.units[state.0];
        &mut self.values[state.0][block as usize * unit..][..unit]
    }

    fn copy(&mut self, state: StateId, from: u32, to: u32) {
        let unit = self.units[state.0];
        let from = from as usize * unit;
        self.values[state.0].copy_within(from..from + unit, to as usize * unit);
    }
}

impl StateBacking for FakeStates {
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        self.copy(state, from, to);
        Ok(())
    }

    fn read_rows(&self, state: StateId, run: menagerie_model::RowRun) -> Result<Vec<u8>> {
        let width = self.widths[state.0];
        let rows = &self.values[state.0][run.row * width..(run.row + run.len) * width];
        Ok(rows.iter().flat_map(|value| value.to_ne_bytes()).collect())
    }

    fn write_rows(&mut self, state: StateId, run: menagerie_model::RowRun, bytes: &[u8]) -> Result<()> {
        let width = self.widths[state.0];
        let rows = &mut self.values[state.0][run.row * width..(run.row + run.len) * width];
        let (values, _) = bytes.as_chunks::<4>();
        rows.iter_mut().zip(values).for_each(|(row, value)| *row = f32::from_ne_bytes(*value));
        Ok(())
    }

    fn clear_block(&mut self, state: StateId, block: u32) -> Result<()> {
        self.block_mut(state, block).fill(0.0);
        Ok(())
    }

    fn copy_block(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        self.copy(state, from, to);
        Ok(())
    }

    fn read_block(&self, state: StateId, block: u32) -> Result<Vec<f32>> {
        let unit = self.units[state.0];
        Ok(self.values[state.0][block as usize * unit..][..unit].to_vec())
    }

    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<()> {
        self.block_mut(state, block).copy_from_slice(values);
        Ok(())
    }
}

fn no_form(operation: &str) -> ModelError {
    ModelError::Unsupported(format!("the fake backend has no {operation}"))
}

/// Operations that return an error with their name.
macro_rules! refused {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $kind),*) -> Result<$out> {
            let _ = ($($arg,)*);
            Err(no_form(stringify!($name)))
        })*
    };
}

impl Backend for FakeBackend {
    fn name(&self) -> String {
        "fake".to_owned()
    }

    fn free_memory(&self) -> Option<u64> {
        None
    }

    fn vector(&self, name: &str, values: Vec<f32>) -> Result<Param> {
        let shape = menagerie_model::WeightShape { count: 1, rows: 1, cols: values.len() };
        Ok(Param::new(name, shape, std::sync::Arc::new(values)))
    }

    fn upload(&self, values: Vec<f32>, cols: usize) -> Result<Rows> {
        let rows = values.len() / cols.max(1);
        Ok(Rows::new(Box::new(values), rows, cols))
    }

    fn read<'a>(&self, rows: &'a Rows) -> Result<Cow<'a, [f32]>> {
        rows.data::<Vec<f32>>().map(|values| Cow::Borrowed(values.as_slice()))
    }

    fn has_one_answer(&self) -> bool {
        true
    }

    fn copy(&self, rows: &Rows) -> Result<Rows> {
        self.upload(rows.data::<Vec<f32>>()?.clone(), rows.cols())
    }

    fn select(&self, x: &Rows, rows: &[u32]) -> Result<Rows> {
        let (values, width) = (x.data::<Vec<f32>>()?, x.cols());
        let row = |row: &u32| &values[*row as usize * width..(*row as usize + 1) * width];
        self.upload(rows.iter().flat_map(row).copied().collect(), width)
    }

    /// Uses a thread for each task, to find code that cannot run in parallel.
    fn parallel(&self, tasks: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        std::thread::scope(|scope| (0..tasks).for_each(|index| drop(scope.spawn(move || job(index)))));
        Ok(())
    }

    operations!(refused);
}

impl StateMemory for FakeBackend {
    fn state_backing(&self, plan: &StatePlan) -> Result<Box<dyn StateBacking>> {
        Ok(Box::new(FakeStates::new(plan)))
    }
}
