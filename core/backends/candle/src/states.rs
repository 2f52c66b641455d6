//! [`CandleStates`]: memory of states on the device.

use crate::backend::CandleBackend;
use crate::tensors::TensorResult;
use candle_core::{DType, Device, Tensor};
use menagerie_model::{
    KvType, ModelError, Pages, Result, RowRun, StateBacking, StateId, StatePlan, StateRoom, StateSpec,
};
use std::ops::Range;

/// Pages of token rows and blocks per sequence, a tensor per state.
pub(crate) struct CandleStates {
    /// The backend's name, for errors.
    device: String,
    page_len: usize,
    states: Vec<StateTensor>,
}

enum StateTensor {
    /// `[heads, slots, head_dim]` of f32 or f16; a page is `page_len` consecutive slots.
    Slots(Tensor),
    /// `[blocks, elements]` of f32.
    Blocks(Tensor),
}

impl CandleStates {
    /// Room for everything in the plan.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] for a cache type that is not supported here; errors of the device.
    pub(crate) fn new(backend: &CandleBackend, plan: &StatePlan) -> Result<Self> {
        let rooms = plan.rooms.iter().zip(&plan.specs);
        let states = rooms.map(|(room, spec)| state(backend, spec, room, plan.page_len));
        let states = states.collect::<Result<_>>()?;
        Ok(Self { device: backend.name.clone(), page_len: plan.page_len, states })
    }

    fn failed(&self, error: candle_core::Error) -> ModelError {
        ModelError::backend(&self.device, error)
    }

    fn slots(&self, state: StateId) -> Result<&Tensor> {
        match self.states.get(state.0) {
            Some(StateTensor::Slots(tensor)) => Ok(tensor),
            _ => Err(ModelError::State(format!("state {} has no rows per token", state.0))),
        }
    }

    fn blocks(&self, state: StateId) -> Result<&Tensor> {
        match self.states.get(state.0) {
            Some(StateTensor::Blocks(tensor)) => Ok(tensor),
            _ => Err(ModelError::State(format!("state {} has no block per sequence", state.0))),
        }
    }

    /// Writes rows `[n, heads * head_dim]` to the positions from `first` on.
    ///
    /// # Errors
    /// Positions without a page; errors of the device.
    pub(crate) fn write(&self, state: StateId, pages: Pages, first: usize, rows: &Tensor) -> Result<()> {
        let slots = self.slots(state)?;
        let count = rows.dim(0).map_err(|error| self.failed(error))?;
        let runs = slots_of(pages, first..first + count)?;
        write_runs(slots, &runs, rows).map_err(|error| self.failed(error))
    }

    /// Rows of a range of positions as f32, `[heads, positions, head_dim]`; a view if they are in one piece of f32.
    ///
    /// # Errors
    /// Positions without a page; errors of the device.
    pub(crate) fn rows(&self, state: StateId, pages: Pages, positions: Range<usize>) -> Result<Tensor> {
        let slots = self.slots(state)?;
        let runs = slots_of(pages, positions)?;
        let made =
            runs.iter().map(|run| slots.narrow(1, run.start, run.len())).collect::<TensorResult<Vec<_>>>();
        let made = made.and_then(|parts| Tensor::cat(&parts, 1)?.to_dtype(DType::F32));
        made.map_err(|error| self.failed(error))
    }

    /// A block, `[1, elements]`, in a tensor of its own.
    ///
    /// # Errors
    /// A block that does not exist; errors of the device.
    pub(crate) fn block(&self, state: StateId, block: u32) -> Result<Tensor> {
        let blocks = self.blocks(state)?;
        let made = blocks.narrow(0, block as usize, 1).and_then(|block| block.force_contiguous());
        made.map_err(|error| self.failed(error))
    }

    /// Puts a block `[1, elements]` in place.
    ///
    /// # Errors
    /// A block that does not exist; errors of the device.
    pub(crate) fn set_block(&self, state: StateId, block: u32, values: &Tensor) -> Result<()> {
        self.blocks(state)?.slice_set(values, 0, block as usize).map_err(|error| self.failed(error))
    }
}

fn state(
    backend: &CandleBackend,
    spec: &StateSpec,
    room: &StateRoom,
    page_len: usize,
) -> Result<StateTensor> {
    let zeros = |shape: &[usize], dtype| {
        let made = Tensor::zeros(shape, dtype, &backend.device);
        made.map_err(|error| ModelError::backend(&format!("{}: state {}", backend.name, spec.name()), error))
    };
    match *room {
        StateRoom::Pages { dtype, heads, head_dim, pages } => {
            let dtype = match dtype {
                KvType::F32 => DType::F32,
                KvType::F16 => DType::F16,
                KvType::Q8_0 => {
                    return Err(ModelError::Unsupported(format!(
                        "{}: device {} has no {} KV cache; choose f16 or f32",
                        spec.name(),
                        backend.name,
                        dtype.name()
                    )));
                }
            };
            zeros(&[heads, pages * page_len, head_dim], dtype).map(StateTensor::Slots)
        }
        StateRoom::Blocks { elements, blocks } => {
            zeros(&[blocks, elements], DType::F32).map(StateTensor::Blocks)
        }
    }
}

/// Slots of a range of positions; consecutive pages are combined.
fn slots_of(pages: Pages, positions: Range<usize>) -> Result<Vec<Range<usize>>> {
    let mut slots: Vec<Range<usize>> = Vec::new();
    for run in pages.runs(positions)? {
        match slots.last_mut() {
            Some(last) if last.end == run.row => last.end += run.len,
            _ => slots.push(run.row..run.row + run.len),
        }
    }
    Ok(slots)
}

fn write_runs(slots: &Tensor, runs: &[Range<usize>], rows: &Tensor) -> TensorResult<()> {
    let (heads, _, head_dim) = slots.dims3()?;
    let rows = rows.reshape((rows.dim(0)?, heads, head_dim))?.transpose(0, 1)?;
    let rows = rows.to_dtype(slots.dtype())?.contiguous()?;
    let mut done = 0;
    for run in runs {
        let part = rows.narrow(1, done, run.len())?.contiguous()?;
        slots.slice_set(&part, 1, run.start)?;
        done += run.len();
    }
    Ok(())
}

/// Rows `[n, heads, head_dim]` as bytes of their type.
fn stored(slots: &Tensor, run: RowRun) -> TensorResult<Vec<u8>> {
    let rows = slots.narrow(1, run.row, run.len)?.transpose(0, 1)?.flatten_all()?;
    Ok(match slots.dtype() {
        DType::F16 => rows.to_vec1::<half::f16>()?.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        _ => rows.to_vec1::<f32>()?.iter().flat_map(|value| value.to_ne_bytes()).collect(),
    })
}

/// The result of [`stored`], as rows `[n, heads * head_dim]`.
fn from_stored(slots: &Tensor, count: usize, bytes: &[u8]) -> TensorResult<Tensor> {
    let (heads, _, head_dim) = slots.dims3()?;
    let shape = (count, heads * head_dim);
    match slots.dtype() {
        DType::F16 => {
            let (pairs, _) = bytes.as_chunks::<2>();
            let values: Vec<half::f16> = pairs.iter().map(|pair| half::f16::from_ne_bytes(*pair)).collect();
            Tensor::from_vec(values, shape, slots.device())
        }
        _ => {
            let (fours, _) = bytes.as_chunks::<4>();
            let values: Vec<f32> = fours.iter().map(|four| f32::from_ne_bytes(*four)).collect();
            Tensor::from_vec(values, shape, slots.device())
        }
    }
}

/// Copies `count` entries of dimension `dim` from one place to another.
fn copy_within(tensor: &Tensor, dim: usize, [from, to]: [u32; 2], count: usize) -> TensorResult<()> {
    let source = tensor.narrow(dim, from as usize * count, count)?.force_contiguous()?;
    tensor.slice_set(&source, dim, to as usize * count)
}

impl StateBacking for CandleStates {
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        let copied = copy_within(self.slots(state)?, 1, [from, to], self.page_len);
        copied.map_err(|error| self.failed(error))
    }

    fn read_rows(&self, state: StateId, run: RowRun) -> Result<Vec<u8>> {
        stored(self.slots(state)?, run).map_err(|error| self.failed(error))
    }

    fn write_rows(&mut self, state: StateId, run: RowRun, bytes: &[u8]) -> Result<()> {
        let slots = self.slots(state)?;
        let rows = from_stored(slots, run.len, bytes);
        let place = run.row..run.row + run.len;
        let written = rows.and_then(|rows| write_runs(slots, std::slice::from_ref(&place), &rows));
        written.map_err(|error| self.failed(error))
    }

    fn clear_block(&mut self, state: StateId, block: u32) -> Result<()> {
        let blocks = self.blocks(state)?;
        let zeros =
            blocks.dim(1).and_then(|elements| Tensor::zeros((1, elements), DType::F32, blocks.device()));
        let zeros = zeros.map_err(|error| self.failed(error))?;
        self.set_block(state, block, &zeros)
    }

    fn copy_block(&mut self, state: StateId, from: u32, to: u32) -> Result<()> {
        copy_within(self.blocks(state)?, 0, [from, to], 1).map_err(|error| self.failed(error))
    }

    fn read_block(&self, state: StateId, block: u32) -> Result<Vec<f32>> {
        let values = self.block(state, block)?.flatten_all().and_then(|block| block.to_vec1());
        values.map_err(|error| self.failed(error))
    }

    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<()> {
        let device: &Device = self.blocks(state)?.device();
        let values =
            Tensor::from_slice(values, (1, values.len()), device).map_err(|error| self.failed(error))?;
        self.set_block(state, block, &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_follow_each_other_are_one_run() {
        let pages = Pages { first_page: 2, pages: &[3, 4, 9, 8], page_len: 10 };
        assert_eq!(slots_of(pages, 20..60).unwrap(), [30..50, 90..100, 80..90]);
        assert_eq!(slots_of(pages, 25..41).unwrap(), [35..50, 90..91]);
        assert!(slots_of(pages, 30..30).unwrap().is_empty());
        for outside in [19..21, 59..61] {
            assert!(slots_of(pages, outside).is_err());
        }
    }
}
