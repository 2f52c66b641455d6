//! [`Backend`]: where a forward computes; one method per operation.

use crate::attention_biases::AttentionBiases;
use crate::expert_plan::{ExpertPlan, Packing};
use crate::layout::SequenceLayout;
use crate::linear_input::LinearInput;
use crate::low_rank::LowRank;
use crate::param::Param;
use crate::recurrence::{LinearAttentionInputs, SelectiveScanInputs};
use crate::rows::Rows;
use crate::sequence_id::SequenceId;
use crate::state::{StateId, StateMemory, StatePool};
use crate::weight::Weight;
use crate::{ModelError, Result};
use gguf_file::GgmlType;
use menagerie_formulas::{
    Activation, Arithmetic, AttentionShape, Gating, LinearAttentionShape, RopePairs, RouterApply,
};
use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A stored weight and the bias of its outputs.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// `[out, in]`, or a stack `[E, out, in]`.
    pub weight: &'a Param,
    /// `[out]`, or `[E, out]`.
    pub bias: Option<&'a Param>,
}

/// The second product of a low-rank pair, to be added to rows.
#[derive(Clone, Copy, Debug)]
pub struct LowRankSum<'a> {
    /// Which row of the batch it is added to.
    pub to: usize,
    /// The first product, `[T, rank]`, times its factors.
    pub narrow: &'a Rows,
    /// The pair.
    pub pair: &'a LowRank,
    /// The row that each narrow row is added to; no row occurs twice. Absent: the row with the same index.
    pub rows: Option<&'a [u32]>,
}

/// An operand of [`Backend::product_between`].
#[derive(Clone, Copy)]
pub enum HostOperand<'a> {
    /// Rows of the backend.
    Rows(&'a LinearInput<'a>),
    /// Rows in host memory, one after the other.
    Values(&'a [f32]),
}

/// Where keys and values of an attention are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionStates {
    /// Keys, `[kv_heads, key_dim]` per token.
    pub keys: StateId,
    /// Values, `[kv_heads, value_dim]` per token.
    pub values: StateId,
}

/// Cosines and sines of the positions of some rows, as a backend keeps them; cheap to clone.
#[derive(Clone)]
pub struct RopeTable(pub Arc<dyn Any + Send + Sync>);

/// The rotation of rows: a table for each run of rows, and how elements form pairs.
#[derive(Clone, Copy)]
pub struct Rotation<'a> {
    /// Tables of consecutive runs of rows that cover all of them: rope regimes differ between sequences.
    pub tables: &'a [(Range<usize>, RopeTable)],
    /// Which elements of a head form a pair.
    pub pairs: RopePairs,
    /// Elements of a head; as many leading ones rotate as the table has pairs for, the others stay unchanged.
    pub head_dim: usize,
}

/// Where a forward computes: the CPU with this project's kernels, or a device through a tensor library.
///
/// Activations are [`Rows`] of f32, owned and unique: a method that takes them by value may change them in place. What
/// a device does not support (a block type, a recurrence) is refused when the model is assembled, by
/// [`Backend::matrix`] and [`Backend::supports`]; no operation is silently computed elsewhere.
///
/// # Errors
/// All methods may return [`crate::ModelError::Shape`] for operands that do not fit and [`crate::ModelError::Backend`]
/// for errors of the device; a method documents only other errors.
pub trait Backend: StateMemory + Send + Sync {
    /// `cpu`, `candle`, `cuda:0` ...: its name in `--device`.
    fn name(&self) -> String;

    /// Bytes of memory that are free for weights and states now, if known.
    fn free_memory(&self) -> Option<u64>;

    /// Bytes of this device's memory that `elements` elements of a type take once they are loaded; 0 if the bytes of
    /// the file are read in place.
    fn bytes_taken(&self, _block: GgmlType, _elements: u64, _arithmetic: Arithmetic) -> u64 {
        0
    }

    /// Options of the device that change results and differ from their defaults, each with its name and its value.
    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Notes on the weights loaded so far: weights in another form than the file's, and options without an effect on
    /// them.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns an error for an operation that this backend does not support, with its name (`short-conv`).
    ///
    /// # Errors
    /// [`crate::ModelError::Unsupported`] names the operation and the device.
    fn supports(&self, operation: Operation) -> Result<()>;

    // Weights.

    /// Loads a matrix or a stack of matrices, for products or look-ups.
    ///
    /// # Errors
    /// [`crate::ModelError::Unsupported`] names a block type that the backend does not support.
    fn matrix(&self, weight: &Weight, arithmetic: Arithmetic) -> Result<Param>;

    /// Loads a vector.
    ///
    /// # Errors
    /// The device has no room.
    fn vector(&self, name: &str, values: Vec<f32>) -> Result<Param>;

    /// Every value of a stored weight as f32, in the order of the file; for vectors and values that are computed at
    /// assembly.
    ///
    /// # Errors
    /// [`crate::ModelError::Unsupported`] names a block type that cannot be dequantized; [`crate::ModelError::Weights`]
    /// a value that is NaN or infinite ([`Weight::expect_finite`]).
    fn values(&self, weight: &Weight) -> Result<Vec<f32>>;

    // Rows in and out.

    /// `[values.len() / cols, cols]` rows with these values.
    fn upload(&self, values: Vec<f32>, cols: usize) -> Result<Rows>;

    /// Rows `[rows, cols]` whose values `write` sets, all of them; their previous values are undefined.
    ///
    /// # Errors
    /// What `write` returns.
    fn written(
        &self,
        rows: usize,
        cols: usize,
        write: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<Rows> {
        let mut values = vec![0.0; rows * cols];
        write(&mut values)?;
        self.upload(values, cols)
    }

    /// The values of rows, row after row; borrowed if they are in host memory.
    fn read<'a>(&self, rows: &'a Rows) -> Result<Cow<'a, [f32]>>;

    /// The values of rows, row after row; consumes the rows, so that values in host memory are moved and not copied.
    fn take(&self, rows: Rows) -> Result<Vec<f32>> {
        self.read(&rows).map(Cow::into_owned)
    }

    /// Whether rows are read in place, at no cost.
    fn reads_in_place(&self) -> bool {
        false
    }

    /// Whether the bits of a row depend only on the rows before it in its sequence: not on the other rows of a step, and
    /// not on the step that computes it.
    fn has_one_answer(&self) -> bool {
        false
    }

    /// The same values again.
    fn copy(&self, rows: &Rows) -> Result<Rows>;

    /// Rows of `x` by index, `[rows.len(), D]`.
    fn select(&self, x: &Rows, rows: &[u32]) -> Result<Rows>;

    /// Some columns of every row of `x`, `[T, columns.len()]`.
    fn columns(&self, x: &Rows, columns: Range<usize>) -> Result<Rows>;

    // Products.

    /// Rows of a table by index, `[ids.len(), cols]`; of a stack, if the device supports it, rows of all its matrices.
    ///
    /// # Errors
    /// [`crate::ModelError::TokenOutOfRange`] for an index past the table.
    fn lookup(&self, table: &Param, ids: &[u32]) -> Result<Rows>;

    /// `y_i = W_i x + b_i` over the same rows, `[T, out_i]` each.
    fn products(&self, products: &[Product], x: &LinearInput, arithmetic: Arithmetic) -> Result<Vec<Rows>>;

    /// Loads the second matrix of a low-rank pair in the form that [`Backend::add_low_rank`] prefers, if it has one;
    /// `turned` is the transposed matrix, `[rank, out]`, of plain floats.
    fn low_rank_up(&self, _turned: &Weight) -> Result<Option<Param>> {
        Ok(None)
    }

    /// `ys` plus the second products of low-rank pairs, sum after sum.
    fn add_low_rank(&self, ys: Vec<Rows>, sums: &[LowRankSum], arithmetic: Arithmetic) -> Result<Vec<Rows>> {
        let mut ys: Vec<Option<Rows>> = ys.into_iter().map(Some).collect();
        for sum in sums {
            let up = Product { weight: &sum.pair.b, bias: None };
            let made = self.products(&[up], &LinearInput::new(sum.narrow), arithmetic)?;
            let (Some(y), Some(more)) = (ys.get_mut(sum.to), made.first()) else { continue };
            *y = match (y.take(), sum.rows) {
                (Some(y), None) => Some(self.add(y, more)?),
                (Some(y), Some(rows)) => Some(self.add_rows(y, rows, more)?),
                (None, _) => None,
            };
        }
        Ok(ys.into_iter().flatten().collect())
    }

    /// Products of several stacks of equal shape with the rows of their experts, packed, `[packed rows, out]` each.
    fn expert_products(
        &self,
        stacks: &[Product],
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        arithmetic: Arithmetic,
    ) -> Result<Vec<Rows>>;

    /// The rows of `x` `[T, D]` packed by expert, each times its router weight, `[packed rows, D]`.
    fn pack_weighted(&self, x: &Rows, plan: &ExpertPlan) -> Result<Rows>;

    /// Adds the packed outputs `[packed rows, D]` of every token, best choice first, `[T, D]`.
    fn combine(&self, packed: &Rows, plan: &ExpertPlan, apply: RouterApply) -> Result<Rows>;

    /// `y = W x + b` for consecutive rows in host memory, into `y` with the same number of rows. `x` are rows of this
    /// backend if they exist: their prepared form is then computed once for all products.
    fn product_between(
        &self,
        product: &Product,
        x: HostOperand<'_>,
        y: &mut [f32],
        arithmetic: Arithmetic,
    ) -> Result<()> {
        let uploaded;
        let activated;
        let x = match x {
            HostOperand::Rows(x) => x,
            HostOperand::Values(values) => {
                uploaded = self.upload(values.to_vec(), product.weight.shape().cols)?;
                activated = LinearInput::new(&uploaded);
                &activated
            }
        };
        let [rows] = exactly(self.products(&[*product], x, arithmetic)?)?;
        let values = self.read(&rows)?;
        if values.len() != y.len() {
            let [expected, found] = [values.len(), y.len()].map(|len| format!("{len} values"));
            return Err(ModelError::Shape { what: "where a product is written".to_owned(), expected, found });
        }
        y.copy_from_slice(&values);
        Ok(())
    }

    // Norms.

    /// `x / sqrt(mean(x^2) + eps) * weight` per row (Zhang and Sennrich, 2019).
    fn rms_norm(&self, x: &Rows, weight: Option<&Param>, eps: f32) -> Result<Rows>;

    /// `(x - mean) / sqrt(variance + eps) * weight + bias` per row (Ba et al., 2016).
    fn layer_norm(&self, x: &Rows, weight: Option<&Param>, bias: Option<&Param>, eps: f32) -> Result<Rows>;

    // Positions and attention.

    /// Cosines and sines of `positions`, times `magnitude`: one pair per frequency (radians per position).
    fn rope_table(&self, positions: &[u32], frequencies: &[f32], magnitude: f32) -> Result<RopeTable>;

    /// Rotates the heads of rows `[T, heads * head_dim]` (Su et al., 2021).
    fn rotate(&self, x: Rows, rotation: Rotation) -> Result<Rows>;

    /// Stores the step's keys and values, then attends with its queries `[T, heads * key_dim]` to all stored positions
    /// that the mask shows; returns `[T, heads * value_dim]`.
    fn attention(
        &self,
        shape: &AttentionShape,
        states: AttentionStates,
        query_key_value: [&Rows; 3],
        biases: AttentionBiases,
        step: StateStep,
    ) -> Result<Rows>;

    /// Stores rows of the step in a per-token state, for [`Backend::attend_stored`].
    fn store(&self, _state: StateId, _rows: &Rows, _step: StateStep) -> Result<()> {
        Err(self.lacks(Operation::LatentAttention))
    }

    /// The rows of a state at these positions of a sequence, `[positions, heads * head_dim]`, as they were stored.
    fn stored(
        &self,
        _state: StateId,
        _sequence: SequenceId,
        _positions: Range<usize>,
        _states: &StatePool,
    ) -> Result<Rows> {
        Err(self.lacks(Operation::LatentAttention))
    }

    /// Like [`Backend::attention`], over keys and values that are stored already, the step's own rows included: by
    /// another layer, or by [`Backend::store`]. A state of one head may serve as keys and as values, which are then its
    /// first `value_dim` elements.
    fn attend_stored(
        &self,
        _shape: &AttentionShape,
        _states: AttentionStates,
        _query: &Rows,
        _sinks: Option<&Param>,
        _step: StateStep,
    ) -> Result<Rows> {
        Err(self.lacks(Operation::StoredAttention))
    }

    /// The error of an operation that [`Backend::supports`] refuses but that is called anyway.
    fn lacks(&self, operation: Operation) -> ModelError {
        match self.supports(operation) {
            Err(error) => error,
            Ok(()) => ModelError::Unsupported(format!(
                "{}: {operation:?} is reported as supported but not implemented (a defect: please report it)",
                self.name()
            )),
        }
    }

    /// Depthwise causal convolution over each sequence: `y[t, d] = sum_j taps[j, d] * x[t - L + 1 + j, d]` with the
    /// last
    /// `L - 1` inputs carried in `state` (LFM2; Mamba's first step). `taps` is a vector `[L * D]`.
    fn short_conv(&self, x: &Rows, taps: &Param, state: StateId, step: StateStep) -> Result<Rows>;

    /// Attention without softmax over each sequence: every head accumulates keys and values in a state that decays, and
    /// reads it with the row's query; returns `[T, heads * value_dim]`. `state` is `[heads, key_dim, value_dim]`.
    fn linear_attention(
        &self,
        _shape: &LinearAttentionShape,
        _inputs: &LinearAttentionInputs,
        _state: StateId,
        _step: StateStep,
    ) -> Result<Rows> {
        Err(self.lacks(Operation::LinearAttention))
    }

    /// The selective scan over each sequence (Gu and Dao, 2023): `h[n, d] = exp(dt_d a[n, d]) h[n, d] + dt_d x_d b_n`,
    /// then
    /// `y_d = sum_n c_n h[n, d] + skip_d x_d`; returns `[T, C]`. `state` is `h`, `[N, C]`.
    fn selective_scan(
        &self,
        _inputs: &SelectiveScanInputs,
        _state: StateId,
        _step: StateStep,
    ) -> Result<Rows> {
        Err(self.lacks(Operation::SelectiveScan))
    }

    // Columns.

    /// Splits rows `[T, a + b]` into `[T, a]` and `[T, b]`.
    fn split(&self, x: &Rows, widths: [usize; 2]) -> Result<[Rows; 2]>;

    /// Concatenates rows `[T, a]` and `[T, b]` to `[T, a + b]`.
    fn join(&self, parts: [&Rows; 2]) -> Result<Rows>;

    // Element by element.

    /// `x + y`.
    fn add(&self, x: Rows, y: &Rows) -> Result<Rows>;

    /// `x` with row `i` of `y` added to its row `rows[i]`; no row twice.
    fn add_rows(&self, x: Rows, rows: &[u32], y: &Rows) -> Result<Rows>;

    /// `x * y`.
    fn multiply(&self, x: Rows, y: &Rows) -> Result<Rows>;

    /// `x + row` for every row.
    fn add_vector(&self, x: Rows, row: &Param) -> Result<Rows>;

    /// `x * row` for every row.
    fn multiply_vector(&self, x: Rows, row: &Param) -> Result<Rows>;

    /// `x * factor`.
    fn scale(&self, x: Rows, factor: f32) -> Result<Rows>;

    /// Every row times its own factor `[T]`.
    fn scale_rows(&self, x: Rows, factors: &[f32]) -> Result<Rows>;

    /// Every row of `x` `[T, D]` times the activation of the single element of the same row of `gate` `[T, 1]`.
    fn gate_rows(&self, x: Rows, gate: &Rows, activation: Activation) -> Result<Rows>;

    /// `min(max(x, -limit), limit)`.
    fn clamp(&self, x: Rows, limit: f32) -> Result<Rows>;

    /// `cap * tanh(x / cap)`.
    fn softcap(&self, x: Rows, cap: f32) -> Result<Rows>;

    /// The activation of every element.
    fn activate(&self, x: Rows, activation: Activation) -> Result<Rows>;

    /// Combines a gate and an up projection.
    fn gated(&self, gate: Rows, up: &Rows, gating: Gating) -> Result<Rows>;

    // Work on the host.

    /// Threads of [`Backend::parallel`], at least 1.
    fn host_threads(&self) -> usize {
        1
    }

    /// Calls `job(i)` for every `i` below `tasks` on the threads that this backend has on the host; within a job it
    /// runs inline.
    ///
    /// # Errors
    /// A job that panicked.
    fn parallel(&self, tasks: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        (0..tasks).for_each(job);
        Ok(())
    }
}

/// Operations that not every backend supports; they are requested when a component is assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Backend::attention`] that looks ahead (encoders).
    LookAhead,
    /// [`Backend::attention`] with sinks.
    Sinks,
    /// [`Backend::short_conv`].
    ShortConv,
    /// [`Backend::attend_stored`].
    StoredAttention,
    /// [`Backend::store`] and [`Backend::stored`].
    LatentAttention,
    /// [`Backend::linear_attention`].
    LinearAttention,
    /// [`Backend::selective_scan`].
    SelectiveScan,
}

/// The context of operations over state, besides their operands.
pub struct StateStep<'a> {
    /// Which rows belong to which sequence.
    pub layout: &'a SequenceLayout,
    /// The states of the sequences.
    pub states: &'a mut StatePool,
}

/// As many products as were requested.
pub(crate) fn exactly<const N: usize>(made: Vec<Rows>) -> Result<[Rows; N]> {
    <[Rows; N]>::try_from(made).map_err(|found| {
        ModelError::Layout(format!("the backend returned {} products instead of {N}", found.len()))
    })
}
