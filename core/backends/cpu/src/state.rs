//! [`CpuStates`]: the memory of states as the kernels read and write it.

use menagerie_kernels::{KvRows, Zeroed, store_rows};
use menagerie_model::{
    KvType, ModelError, Pages, Result, RowRun, StateBacking, StateId, StatePlan, StateRoom,
};
use std::ops::Range;

/// Pages and blocks in host memory, which the system returns zeroed: memory that was never written to costs nothing.
pub(crate) struct CpuStates {
    states: Vec<Memory>,
    page_len: usize,
}

enum Memory {
    Rows { bytes: Zeroed<u8>, kind: KvType, heads: usize, head_dim: usize, row_bytes: usize },
    Blocks { values: Zeroed<f32>, elements: usize },
}

impl CpuStates {
    /// Memory for a plan.
    ///
    /// # Errors
    /// [`ModelError::State`] names a state for which the system has no memory.
    pub(crate) fn new(plan: &StatePlan) -> Result<Self> {
        let rooms = plan.specs.iter().zip(&plan.rooms);
        let states = rooms.map(|(spec, room)| memory(spec.name(), room, plan.page_len));
        Ok(Self { states: states.collect::<Result<_>>()?, page_len: plan.page_len })
    }

    /// Token rows of a state, in the form that attention reads.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence.
    pub(crate) fn rows<'a>(&'a self, state: StateId, pages: Pages<'a>) -> Result<KvRows<'a>> {
        let Some(Memory::Rows { bytes, kind, heads, head_dim, .. }) = self.states.get(state.0) else {
            return Err(other_kind(state));
        };
        let Pages { first_page, pages, page_len } = pages;
        Ok(KvRows { kind: *kind, heads: *heads, head_dim: *head_dim, bytes, page_len, first_page, pages })
    }

    /// Stores rows `[rows, heads * head_dim]` of the positions from `position` on.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence or the rows were not prepared; [`ModelError::Shape`] if the
    /// values are not whole rows.
    pub(crate) fn write(
        &mut self,
        state: StateId,
        pages: Pages<'_>,
        position: usize,
        values: &[f32],
    ) -> Result<()> {
        let Some(Memory::Rows { bytes, kind, heads, head_dim, row_bytes }) = self.states.get_mut(state.0)
        else {
            return Err(other_kind(state));
        };
        let elements = *heads * *head_dim;
        if elements == 0 || !values.len().is_multiple_of(elements) {
            return Err(ModelError::Shape {
                what: format!("rows of state {}", state.0),
                expected: format!("[T, {elements}]"),
                found: format!("{} values", values.len()),
            });
        }
        let mut rest = values;
        for run in pages.runs(position..position + values.len() / elements)? {
            let (now, later) = rest.split_at(run.len * elements);
            let place = &mut bytes[run.row * *row_bytes..(run.row + run.len) * *row_bytes];
            store_rows(*kind, now, place).map_err(|error| ModelError::backend("cpu", error))?;
            rest = later;
        }
        Ok(())
    }

    /// The block of a per-sequence state.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per token.
    pub(crate) fn block_mut(&mut self, state: StateId, block: u32) -> Result<&mut [f32]> {
        let Some(Memory::Blocks { values, elements }) = self.states.get_mut(state.0) else {
            return Err(other_kind(state));
        };
        Ok(&mut values[place(block, *elements)])
    }

    fn blocks(&mut self, state: StateId) -> Result<(&mut [f32], usize)> {
        match self.states.get_mut(state.0) {
            Some(Memory::Blocks { values, elements }) => Ok((values, *elements)),
            _ => Err(other_kind(state)),
        }
    }
}

impl StateBacking for CpuStates {
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        let page_len = self.page_len;
        let Some(Memory::Rows { bytes, row_bytes, .. }) = self.states.get_mut(state.0) else {
            return Err(other_kind(state));
        };
        let page = page_len * *row_bytes;
        bytes.copy_within(place(from, page), to as usize * page);
        Ok(())
    }

    fn read_rows(&self, state: StateId, run: RowRun) -> Result<Vec<u8>> {
        let Some(Memory::Rows { bytes, row_bytes, .. }) = self.states.get(state.0) else {
            return Err(other_kind(state));
        };
        let stored = bytes.get(run.row * row_bytes..(run.row + run.len) * row_bytes);
        stored.map(<[u8]>::to_vec).ok_or_else(|| no_such_rows(state, run))
    }

    fn write_rows(&mut self, state: StateId, run: RowRun, stored: &[u8]) -> Result<()> {
        let Some(Memory::Rows { bytes, row_bytes, .. }) = self.states.get_mut(state.0) else {
            return Err(other_kind(state));
        };
        let place = bytes.get_mut(run.row * *row_bytes..(run.row + run.len) * *row_bytes);
        let place = place.filter(|place| place.len() == stored.len());
        place.ok_or_else(|| no_such_rows(state, run))?.copy_from_slice(stored);
        Ok(())
    }

    fn clear_block(&mut self, state: StateId, block: u32) -> Result<()> {
        self.block_mut(state, block)?.fill(0.0);
        Ok(())
    }

    fn copy_block(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        let (values, elements) = self.blocks(state)?;
        values.copy_within(place(from, elements), to as usize * elements);
        Ok(())
    }

    fn read_block(&self, state: StateId, block: u32) -> Result<Vec<f32>> {
        match self.states.get(state.0) {
            Some(Memory::Blocks { values, elements }) => Ok(values[place(block, *elements)].to_vec()),
            _ => Err(other_kind(state)),
        }
    }

    fn host_blocks(&mut self, state: StateId) -> Result<Option<&mut [f32]>> {
        self.blocks(state).map(|(values, _)| Some(values))
    }

    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<()> {
        let held = self.block_mut(state, block)?;
        if held.len() != values.len() {
            return Err(ModelError::Shape {
                what: format!("a block of state {}", state.0),
                expected: format!("[{}]", held.len()),
                found: format!("[{}]", values.len()),
            });
        }
        held.copy_from_slice(values);
        Ok(())
    }
}

fn place(index: u32, len: usize) -> Range<usize> {
    index as usize * len..(index as usize + 1) * len
}

fn memory(name: &str, room: &StateRoom, page_len: usize) -> Result<Memory> {
    match *room {
        StateRoom::Pages { dtype, heads, head_dim, pages } => {
            let too_large = || no_room(name, usize::MAX);
            let head = dtype.row_bytes(head_dim).ok_or_else(too_large)?;
            let row_bytes = head.checked_mul(heads).ok_or_else(too_large)?;
            let size = row_bytes.checked_mul(page_len).and_then(|page| page.checked_mul(pages));
            let size = size.ok_or_else(too_large)?;
            let bytes = Zeroed::new(size).ok_or_else(|| no_room(name, size))?;
            Ok(Memory::Rows { bytes, kind: dtype, heads, head_dim, row_bytes })
        }
        StateRoom::Blocks { elements, blocks } => {
            let size = elements.checked_mul(blocks).ok_or_else(|| no_room(name, usize::MAX))?;
            let values =
                Zeroed::new(size).ok_or_else(|| no_room(name, size.saturating_mul(size_of::<f32>())))?;
            Ok(Memory::Blocks { values, elements })
        }
    }
}

fn no_room(name: &str, bytes: usize) -> ModelError {
    ModelError::State(format!(
        "{name}: the system has no {bytes} bytes of free memory; use a smaller context, fewer sequences, or a smaller cache \
         type"
    ))
}

fn no_such_rows(state: StateId, run: RowRun) -> ModelError {
    ModelError::State(format!(
        "state {}: {} rows from {} on do not exist, or have another size",
        state.0, run.len, run.row
    ))
}

fn other_kind(state: StateId) -> ModelError {
    ModelError::State(format!(
        "state {} is of the other kind (rows per token instead of a block per sequence, or the reverse)",
        state.0
    ))
}
