//! [`CandleBackend`]: the operations of a forward over candle.

use crate::device;
use crate::masks::Masks;
use crate::matrix::CandleMatrices;
use crate::rope::{self, RopeAngles};
use crate::states::CandleStates;
use crate::tensors::{column, indices};
use crate::weights::{self, Changed};
use crate::{norms, pointwise, products};
use candle_core::{Device, Tensor};
use gguf_file::GgmlType;
use menagerie_model::{
    Activation, Arithmetic, AttentionBiases, AttentionShape, AttentionStates, Backend, ExpertPlan, Gating,
    LinearInput, ModelError, Operation, Packing, Param, Product, Result, RopeTable, Rotation, RouterApply,
    Rows, StateBacking, StateId, StateMemory, StatePlan, StateStep, Weight,
};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names of operations that are not supported here.
const STORED_ATTENTION: &str = "attention over keys and values of another layer";
const LATENT_ATTENTION: &str = "latent attention";
const LINEAR_ATTENTION: &str = "linear attention";
const SELECTIVE_SCAN: &str = "selective scans";

/// A device through candle.
pub struct CandleBackend {
    pub(crate) device: Device,
    pub(crate) name: String,
    pub(crate) masks: Masks,
    changed: Mutex<Changed>,
}

impl CandleBackend {
    /// The device with this name: `candle` (its CPU form), `cuda`, `cuda:N` or `metal`.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] for an unknown name, a feature that is not compiled in or a device that does not
    /// exist; [`ModelError::Backend`] for errors of the driver.
    pub fn open(name: &str) -> Result<Self> {
        let (device, name) = device::open(name)?;
        Ok(Self { device, name, masks: Masks::default(), changed: Mutex::default() })
    }

    /// The refusal of an operation that is not supported here.
    fn no_form_of(&self, operation: &str) -> ModelError {
        ModelError::Unsupported(format!(
            "device \"{}\" does not support {operation}; run the model with --device cpu",
            self.name
        ))
    }

    pub(crate) fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rope tables of a rotation as one.
    fn angles(&self, rows: usize, rotation: &Rotation) -> Result<Arc<RopeAngles>> {
        let mut next = 0;
        let mut runs = Vec::with_capacity(rotation.tables.len());
        for (range, table) in rotation.tables {
            let table = Arc::clone(&table.0).downcast::<RopeAngles>();
            let table =
                table.map_err(|_| ModelError::Unsupported("a rope table of another backend".to_owned()))?;
            let fits =
                range.start == next && range.len() == table.rows && 2 * table.pairs <= rotation.head_dim;
            if !fits || runs.first().is_some_and(|first: &Arc<RopeAngles>| first.pairs != table.pairs) {
                return Err(uncovered(rows, format!("{range:?} of {} rows", table.rows)));
            }
            next = range.end;
            runs.push(table);
        }
        if next != rows || runs.is_empty() {
            return Err(uncovered(rows, format!("{next} rows")));
        }
        if runs.len() == 1 {
            return Ok(runs.swap_remove(0));
        }
        let runs: Vec<&RopeAngles> = runs.iter().map(|run| &**run).collect();
        RopeAngles::join(&runs).map(Arc::new).map_err(|error| self.failed(error))
    }
}

fn uncovered(rows: usize, found: String) -> ModelError {
    ModelError::Shape {
        what: "tables to rotate rows with".to_owned(),
        expected: format!("runs of one number of pairs that cover {rows} rows"),
        found,
    }
}

impl Backend for CandleBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn free_memory(&self) -> Option<u64> {
        device::free_memory(&self.device)
    }

    fn bytes_taken(&self, block: GgmlType, elements: u64, arithmetic: Arithmetic) -> u64 {
        weights::bytes(block, elements, arithmetic)
    }

    fn notes(&self) -> Vec<String> {
        let name = &self.name;
        let changed = self.changed();
        let notes = changed.iter().map(|((block, lack, form), count)| {
            format!(
                "{name}: {count} matrices of type {block} are {form}: candle does not compute with {lack}"
            )
        });
        notes.collect()
    }

    fn supports(&self, operation: Operation) -> Result<()> {
        match operation {
            Operation::LookAhead | Operation::Sinks | Operation::ShortConv => Ok(()),
            Operation::StoredAttention => Err(self.no_form_of(STORED_ATTENTION)),
            Operation::LatentAttention => Err(self.no_form_of(LATENT_ATTENTION)),
            Operation::LinearAttention => Err(self.no_form_of(LINEAR_ATTENTION)),
            Operation::SelectiveScan => Err(self.no_form_of(SELECTIVE_SCAN)),
        }
    }

    fn matrix(&self, weight: &Weight, arithmetic: Arithmetic) -> Result<Param> {
        self.take_in(weight, arithmetic)
    }

    fn vector(&self, name: &str, values: Vec<f32>) -> Result<Param> {
        weights::vector(self, name, values)
    }

    fn values(&self, weight: &Weight) -> Result<Vec<f32>> {
        let values = self.dequantized(weight)?;
        weight.expect_finite(&values)?;
        Ok(values)
    }

    fn upload(&self, values: Vec<f32>, cols: usize) -> Result<Rows> {
        if cols == 0 || !values.len().is_multiple_of(cols) {
            return Err(ModelError::Shape {
                what: "values for rows".to_owned(),
                expected: format!("whole rows of {cols}"),
                found: format!("{} values", values.len()),
            });
        }
        if values.is_empty() {
            return Ok(Self::empty(0, cols));
        }
        let rows = values.len() / cols;
        self.rows(Tensor::from_vec(values, (rows, cols), &self.device))
    }

    fn read<'a>(&self, rows: &'a Rows) -> Result<Cow<'a, [f32]>> {
        let values = match self.tensor(rows)? {
            None => Vec::new(),
            Some(tensor) => {
                let values = tensor.flatten_all().and_then(|tensor| tensor.to_vec1());
                values.map_err(|error| self.failed(error))?
            }
        };
        Ok(Cow::Owned(values))
    }

    fn copy(&self, rows: &Rows) -> Result<Rows> {
        // No operation here changes a tensor of rows in place: two rows may share one.
        self.map(rows, rows.cols(), |tensor| Ok(tensor.clone()))
    }

    fn select(&self, x: &Rows, rows: &[u32]) -> Result<Rows> {
        if let Some(row) = rows.iter().find(|row| **row as usize >= x.rows()) {
            return Err(ModelError::Shape {
                what: "rows to select from".to_owned(),
                expected: format!("more than {row} rows"),
                found: format!("{} rows", x.rows()),
            });
        }
        if rows.is_empty() {
            return Ok(Self::empty(0, x.cols()));
        }
        match self.tensor(x)? {
            None => Ok(Self::empty(rows.len(), x.cols())),
            Some(x) => self.rows(indices(rows, &self.device).and_then(|rows| x.index_select(&rows, 0))),
        }
    }

    fn columns(&self, x: &Rows, columns: Range<usize>) -> Result<Rows> {
        x.expect_columns(&columns)?;
        self.map(x, columns.len(), |x| x.narrow(1, columns.start, columns.len())?.contiguous())
    }

    fn lookup(&self, table: &Param, ids: &[u32]) -> Result<Rows> {
        let shape = table.shape();
        if let Some(&id) = ids.iter().find(|id| **id as usize >= shape.rows) {
            return Err(ModelError::TokenOutOfRange { id, vocabulary: shape.rows });
        }
        if ids.is_empty() {
            return Ok(Self::empty(0, shape.cols));
        }
        let matrix = products::matrix(table, table.data::<CandleMatrices>()?, 0)?;
        self.rows(indices(ids, &self.device).and_then(|ids| matrix.lookup(&ids)))
    }

    fn products(&self, products: &[Product], x: &LinearInput, arithmetic: Arithmetic) -> Result<Vec<Rows>> {
        self.multiply_all(products, x, arithmetic)
    }

    fn expert_products(
        &self,
        stacks: &[Product],
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        arithmetic: Arithmetic,
    ) -> Result<Vec<Rows>> {
        self.multiply_experts(stacks, x, plan, packing, arithmetic)
    }

    fn pack_weighted(&self, x: &Rows, plan: &ExpertPlan) -> Result<Rows> {
        self.pack(x, plan)
    }

    fn combine(&self, packed: &Rows, plan: &ExpertPlan, apply: RouterApply) -> Result<Rows> {
        self.sum_experts(packed, plan, apply)
    }

    fn rms_norm(&self, x: &Rows, weight: Option<&Param>, eps: f32) -> Result<Rows> {
        let weight = weight.map(|weight| self.vector_of(weight, x.cols(), "weight of a norm")).transpose()?;
        self.map(x, x.cols(), |x| norms::rms_norm(x, weight, eps))
    }

    fn layer_norm(&self, x: &Rows, weight: Option<&Param>, bias: Option<&Param>, eps: f32) -> Result<Rows> {
        let weight = weight.map(|weight| self.vector_of(weight, x.cols(), "weight of a norm")).transpose()?;
        let bias = bias.map(|bias| self.vector_of(bias, x.cols(), "bias of a norm")).transpose()?;
        self.map(x, x.cols(), |x| norms::layer_norm(x, weight, bias, eps))
    }

    fn rope_table(&self, positions: &[u32], frequencies: &[f32], magnitude: f32) -> Result<RopeTable> {
        let angles = RopeAngles::new(positions, frequencies, magnitude, &self.device);
        angles.map(|angles| RopeTable(Arc::new(angles))).map_err(|error| self.failed(error))
    }

    fn rotate(&self, x: Rows, rotation: Rotation) -> Result<Rows> {
        let (angles, dim) = (self.angles(x.rows(), &rotation)?, rotation.head_dim);
        if dim == 0 || !x.cols().is_multiple_of(dim) {
            return Err(ModelError::Shape {
                what: "rows to rotate".to_owned(),
                expected: format!("a multiple of {dim} columns, as whole heads"),
                found: format!("[{}, {}]", x.rows(), x.cols()),
            });
        }
        if angles.pairs == 0 {
            return Ok(x);
        }
        self.map(&x, x.cols(), |x| rope::rotate(x, &angles, rotation.pairs, dim))
    }

    fn attention(
        &self,
        shape: &AttentionShape,
        states: AttentionStates,
        query_key_value: [&Rows; 3],
        biases: AttentionBiases,
        step: StateStep,
    ) -> Result<Rows> {
        self.attend(shape, states, query_key_value, biases, step)
    }

    fn short_conv(&self, x: &Rows, taps: &Param, state: StateId, step: StateStep) -> Result<Rows> {
        self.convolve(x, taps, state, step)
    }

    fn split(&self, x: &Rows, widths: [usize; 2]) -> Result<[Rows; 2]> {
        let [left, right] = widths;
        x.expect_cols(left + right, "rows to cut")?;
        Ok([self.map(x, left, |x| x.narrow(1, 0, left))?, self.map(x, right, |x| x.narrow(1, left, right))?])
    }

    fn join(&self, [left, right]: [&Rows; 2]) -> Result<Rows> {
        let cols = left.cols() + right.cols();
        match self.tensor(right)? {
            Some(right) => self.map(left, cols, |left| Tensor::cat(&[left, &right], 1)),
            None => Ok(Self::empty(left.rows(), cols)),
        }
    }

    fn add(&self, x: Rows, y: &Rows) -> Result<Rows> {
        self.zip(&x, y, |x, y| x + y)
    }

    fn add_rows(&self, x: Rows, rows: &[u32], y: &Rows) -> Result<Rows> {
        y.expect_shape(rows.len(), x.cols(), "rows to add")?;
        if let Some(row) = rows.iter().find(|row| **row as usize >= x.rows()) {
            return Err(ModelError::Shape {
                what: "rows to add to".to_owned(),
                expected: format!("more than {row} rows"),
                found: format!("{} rows", x.rows()),
            });
        }
        let Some(more) = self.tensor(y)?.filter(|_| !rows.is_empty()) else { return Ok(x) };
        self.map(&x, x.cols(), |x| x.index_add(&indices(rows, &self.device)?, &more, 0))
    }

    fn multiply(&self, x: Rows, y: &Rows) -> Result<Rows> {
        self.zip(&x, y, |x, y| x * y)
    }

    fn add_vector(&self, x: Rows, row: &Param) -> Result<Rows> {
        let row = self.vector_of(row, x.cols(), "row to add")?;
        self.map(&x, x.cols(), |x| x.broadcast_add(row))
    }

    fn multiply_vector(&self, x: Rows, row: &Param) -> Result<Rows> {
        let row = self.vector_of(row, x.cols(), "row to multiply by")?;
        self.map(&x, x.cols(), |x| x.broadcast_mul(row))
    }

    fn scale(&self, x: Rows, factor: f32) -> Result<Rows> {
        if factor == 1.0 {
            return Ok(x);
        }
        self.map(&x, x.cols(), |x| x.affine(f64::from(factor), 0.0))
    }

    fn scale_rows(&self, x: Rows, factors: &[f32]) -> Result<Rows> {
        if factors.len() != x.rows() {
            return Err(ModelError::Shape {
                what: "factors of rows".to_owned(),
                expected: format!("one for each of {} rows", x.rows()),
                found: factors.len().to_string(),
            });
        }
        self.map(&x, x.cols(), |x| x.broadcast_mul(&column(factors, &self.device)?))
    }

    fn gate_rows(&self, x: Rows, gate: &Rows, activation: Activation) -> Result<Rows> {
        gate.expect_shape(x.rows(), 1, "gates of rows")?;
        let Some(gate) = self.tensor(gate)? else { return Ok(x) };
        self.map(&x, x.cols(), |x| x.broadcast_mul(&pointwise::activate(&gate, activation)?))
    }

    fn clamp(&self, x: Rows, limit: f32) -> Result<Rows> {
        self.map(&x, x.cols(), |x| pointwise::clamp(x, limit))
    }

    fn softcap(&self, x: Rows, cap: f32) -> Result<Rows> {
        self.map(&x, x.cols(), |x| pointwise::softcap(x, cap))
    }

    fn activate(&self, x: Rows, activation: Activation) -> Result<Rows> {
        self.map(&x, x.cols(), |x| pointwise::activate(x, activation))
    }

    fn gated(&self, gate: Rows, up: &Rows, gating: Gating) -> Result<Rows> {
        self.zip(&gate, up, |gate, up| pointwise::gated(gate, up, gating))
    }
}

impl StateMemory for CandleBackend {
    fn state_backing(&self, plan: &StatePlan) -> Result<Box<dyn StateBacking>> {
        Ok(Box::new(CandleStates::new(self, plan)?))
    }
}
