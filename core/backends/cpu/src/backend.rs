//! [`CpuBackend`]: the operations of a forward over the kernels.

use crate::attention;
use crate::buffers::{HostRows, RowBuffers, values};
use crate::device::HALF_PROMPTS;
use crate::matrix::{self, CpuMatrix};
use crate::names::{NAME, block_type, failed};
use crate::state::CpuStates;
use gguf_file::GgmlType;
use menagerie_kernels::{self as kernels, Cpu, HalfPrompts};
use menagerie_model::{
    Activation, Arithmetic, AttentionBiases, AttentionShape, AttentionStates, Backend, ExpertPlan, Gating,
    HostOperand, LinearAttentionInputs, LinearAttentionShape, LinearInput, LowRankSum, ModelError, Operation,
    Packing, Param, Product, Result, RopeTable, Rotation, RouterApply, Rows, SelectiveScanInputs, SequenceId,
    StateBacking, StateId, StateMemory, StatePlan, StatePool, StateStep, Weight, WeightShape,
};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The CPU: kernels for its instruction set, a pool of threads, and the scratch of steps. Cheap to clone.
#[derive(Clone)]
pub struct CpuBackend {
    pub(crate) cpu: Cpu,
    pub(crate) buffers: Arc<RowBuffers>,
    /// Whether a matrix of F16 weights was loaded.
    takes_f16: Arc<AtomicBool>,
}

impl CpuBackend {
    /// A backend with these kernels and threads.
    pub fn new(cpu: Cpu) -> Self {
        Self { cpu, buffers: Arc::default(), takes_f16: Arc::default() }
    }

    /// The kernels and their threads.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Changes rows in place.
    fn update(
        &self,
        mut x: Rows,
        change: impl FnOnce(&Cpu, &mut [f32]) -> Result<(), kernels::KernelError>,
    ) -> Result<Rows> {
        change(&self.cpu, x.data_mut::<HostRows>()?.values_mut()).map_err(failed)?;
        Ok(x)
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn free_memory(&self) -> Option<u64> {
        None
    }

    fn supports(&self, operation: Operation) -> Result<()> {
        match operation {
            Operation::LookAhead
            | Operation::Sinks
            | Operation::ShortConv
            | Operation::StoredAttention
            | Operation::LatentAttention
            | Operation::LinearAttention
            | Operation::SelectiveScan => Ok(()),
        }
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        match self.cpu.half_prompts() {
            HalfPrompts::Float32 => Vec::new(),
            HalfPrompts::BFloat16 => vec![(HALF_PROMPTS, "bf16".to_owned())],
        }
    }

    fn notes(&self) -> Vec<String> {
        let has_effect =
            self.cpu.half_prompts() == HalfPrompts::Float32 || self.takes_f16.load(Ordering::Relaxed);
        let note =
            || format!("device option {HALF_PROMPTS}=bf16 has no effect: the model has no F16 weights");
        if has_effect { Vec::new() } else { vec![note()] }
    }

    fn matrix(&self, weight: &Weight, _arithmetic: Arithmetic) -> Result<Param> {
        if weight.block() == GgmlType::F16 {
            self.takes_f16.store(true, Ordering::Relaxed);
        }
        CpuMatrix::param(weight)
    }

    fn vector(&self, name: &str, values: Vec<f32>) -> Result<Param> {
        Ok(matrix::vector(name, values))
    }

    fn values(&self, weight: &Weight) -> Result<Vec<f32>> {
        let WeightShape { count, rows, cols } = weight.shape();
        let block = block_type(weight.name(), weight.block())?;
        let mut values = vec![0.0; count * rows * cols];
        for (index, values) in values.chunks_exact_mut((rows * cols).max(1)).enumerate() {
            kernels::dequantize(block, weight.matrix(index)?, values).map_err(failed)?;
        }
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
        let rows = values.len() / cols;
        Ok(HostRows::of(&self.buffers, values).into_rows(rows, cols))
    }

    fn written(
        &self,
        rows: usize,
        cols: usize,
        write: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<Rows> {
        let mut out = HostRows::unwritten(&self.buffers, rows * cols);
        write(out.values_mut())?;
        Ok(out.into_rows(rows, cols))
    }

    fn host_threads(&self) -> usize {
        self.cpu.pool().threads()
    }

    fn parallel(&self, tasks: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        self.cpu.pool().run(tasks, job).map_err(failed)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    /// Products of halves as bfloat16 may differ between one row and several.
    fn has_one_answer(&self) -> bool {
        self.cpu.half_prompts() == HalfPrompts::Float32
    }

    fn read<'a>(&self, rows: &'a Rows) -> Result<Cow<'a, [f32]>> {
        values(rows).map(Cow::Borrowed)
    }

    fn take(&self, mut rows: Rows) -> Result<Vec<f32>> {
        Ok(rows.data_mut::<HostRows>()?.taken())
    }

    fn copy(&self, rows: &Rows) -> Result<Rows> {
        let source = values(rows)?;
        let mut out = HostRows::unwritten(&self.buffers, source.len());
        out.values_mut().copy_from_slice(source);
        Ok(out.into_rows(rows.rows(), rows.cols()))
    }

    fn select(&self, x: &Rows, rows: &[u32]) -> Result<Rows> {
        let (width, source) = (x.cols(), values(x)?);
        let mut out = HostRows::unwritten(&self.buffers, rows.len() * width);
        for (&row, out) in rows.iter().zip(out.values_mut().chunks_exact_mut(width.max(1))) {
            let at = row as usize * width;
            let found = source.get(at..at + width).ok_or_else(|| ModelError::Shape {
                what: "rows to select from".to_owned(),
                expected: format!("more than {row} rows"),
                found: format!("{} rows", x.rows()),
            })?;
            out.copy_from_slice(found);
        }
        Ok(out.into_rows(rows.len(), width))
    }

    fn columns(&self, x: &Rows, columns: Range<usize>) -> Result<Rows> {
        x.expect_columns(&columns)?;
        let (width, source) = (columns.len(), values(x)?);
        let mut out = HostRows::unwritten(&self.buffers, x.rows() * width);
        let rows = source.chunks_exact(x.cols().max(1));
        for (from, to) in rows.zip(out.values_mut().chunks_exact_mut(width.max(1))) {
            to.copy_from_slice(&from[columns.clone()]);
        }
        Ok(out.into_rows(x.rows(), width))
    }

    fn lookup(&self, table: &Param, ids: &[u32]) -> Result<Rows> {
        // The matrices of a stack are rows one after the other.
        let WeightShape { count, rows, cols } = table.shape();
        let block = table.data::<CpuMatrix>()?.block();
        let mut out = HostRows::unwritten(&self.buffers, ids.len() * cols);
        for (&id, out) in ids.iter().zip(out.values_mut().chunks_exact_mut(cols.max(1))) {
            let row = id as usize;
            if row >= rows * count {
                return Err(ModelError::TokenOutOfRange { id, vocabulary: rows * count });
            }
            let matrix = matrix::matrix(table, row / rows)?;
            kernels::dequantize(block, matrix.row(row % rows), out).map_err(failed)?;
        }
        Ok(out.into_rows(ids.len(), cols))
    }

    fn products(&self, products: &[Product], x: &LinearInput, arithmetic: Arithmetic) -> Result<Vec<Rows>> {
        self.multiply_all(products, x, arithmetic)
    }

    fn low_rank_up(&self, turned: &Weight) -> Result<Option<Param>> {
        let plain = match turned.block() {
            GgmlType::F32 | GgmlType::F16 => turned.clone(),
            _ => Weight::from_f32(turned.name(), &self.values(turned)?, turned.shape())?,
        };
        CpuMatrix::param(&plain).map(Some)
    }

    fn add_low_rank(&self, ys: Vec<Rows>, sums: &[LowRankSum], _arithmetic: Arithmetic) -> Result<Vec<Rows>> {
        self.sum_low_rank(ys, sums)
    }

    fn product_between(
        &self,
        product: &Product,
        x: HostOperand<'_>,
        y: &mut [f32],
        arithmetic: Arithmetic,
    ) -> Result<()> {
        self.multiply_between(product, x, y, arithmetic)
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
        let source = values(x)?;
        let mut out = HostRows::unwritten(&self.buffers, source.len());
        let weight = weight.map(matrix::values).transpose()?;
        kernels::rms_norm(&self.cpu, source, weight, eps, x.cols(), out.values_mut()).map_err(failed)?;
        Ok(out.into_rows(x.rows(), x.cols()))
    }

    fn layer_norm(&self, x: &Rows, weight: Option<&Param>, bias: Option<&Param>, eps: f32) -> Result<Rows> {
        let source = values(x)?;
        let mut out = HostRows::unwritten(&self.buffers, source.len());
        let weight = weight.map(matrix::values).transpose()?;
        let bias = bias.map(matrix::values).transpose()?;
        let norm = kernels::LayerNorm { weight, bias, eps };
        kernels::layer_norm(&self.cpu, &norm, source, x.cols(), out.values_mut()).map_err(failed)?;
        Ok(out.into_rows(x.rows(), x.cols()))
    }

    fn rope_table(&self, positions: &[u32], frequencies: &[f32], magnitude: f32) -> Result<RopeTable> {
        Ok(RopeTable(Arc::new(kernels::RopeTable::new(positions, frequencies, magnitude))))
    }

    fn rotate(&self, mut x: Rows, rotation: Rotation) -> Result<Rows> {
        let (rows, width) = (x.rows(), x.cols());
        let covered = rotation.tables.last().map_or(0, |(rows, _)| rows.end);
        if covered != rows {
            return Err(ModelError::Shape {
                what: "rows to rotate".to_owned(),
                expected: format!("{covered} rows, as the step has positions"),
                found: format!("{rows} rows"),
            });
        }
        let values = x.data_mut::<HostRows>()?.values_mut();
        for (rows, table) in rotation.tables {
            let table = table
                .0
                .downcast_ref::<kernels::RopeTable>()
                .ok_or_else(|| ModelError::Unsupported("a rope table of another backend".to_owned()))?;
            let part = &mut values[rows.start * width..rows.end * width];
            kernels::rope_with(&self.cpu, table, rotation.pairs, rotation.head_dim, part).map_err(failed)?;
        }
        Ok(x)
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

    fn store(&self, state: StateId, rows: &Rows, step: StateStep) -> Result<()> {
        attention::store(step.states, step.layout, state, rows)
    }

    fn stored(
        &self,
        state: StateId,
        sequence: SequenceId,
        positions: Range<usize>,
        states: &StatePool,
    ) -> Result<Rows> {
        self.read_stored(state, sequence, positions, states)
    }

    fn attend_stored(
        &self,
        shape: &AttentionShape,
        states: AttentionStates,
        query: &Rows,
        sinks: Option<&Param>,
        step: StateStep,
    ) -> Result<Rows> {
        self.attend_to_stored(shape, states, query, sinks, step)
    }

    fn split(&self, x: &Rows, widths: [usize; 2]) -> Result<[Rows; 2]> {
        self.cut(x, widths)
    }

    fn join(&self, parts: [&Rows; 2]) -> Result<Rows> {
        self.put_together(parts)
    }

    fn linear_attention(
        &self,
        shape: &LinearAttentionShape,
        inputs: &LinearAttentionInputs,
        state: StateId,
        step: StateStep,
    ) -> Result<Rows> {
        self.attend_linearly(shape, inputs, state, step)
    }

    fn selective_scan(&self, inputs: &SelectiveScanInputs, state: StateId, step: StateStep) -> Result<Rows> {
        self.scan(inputs, state, step)
    }

    fn add(&self, x: Rows, y: &Rows) -> Result<Rows> {
        let y = values(y)?;
        self.update(x, |cpu, x| kernels::add(cpu, x, y))
    }

    fn add_rows(&self, mut x: Rows, rows: &[u32], y: &Rows) -> Result<Rows> {
        let (width, count) = (x.cols(), x.rows());
        y.expect_shape(rows.len(), width, "rows to add")?;
        let values_of_x = x.data_mut::<HostRows>()?.values_mut();
        for (&row, more) in rows.iter().zip(values(y)?.chunks_exact(width.max(1))) {
            let at = row as usize * width;
            let own = values_of_x.get_mut(at..at + width).ok_or_else(|| ModelError::Shape {
                what: "rows to add to".to_owned(),
                expected: format!("more than {row} rows"),
                found: format!("{count} rows"),
            })?;
            own.iter_mut().zip(more).for_each(|(x, y)| *x += y);
        }
        Ok(x)
    }

    fn multiply(&self, x: Rows, y: &Rows) -> Result<Rows> {
        let y = values(y)?;
        self.update(x, |cpu, x| kernels::multiply(cpu, x, y))
    }

    fn add_vector(&self, x: Rows, row: &Param) -> Result<Rows> {
        row.expect_len(x.cols(), "row to add")?;
        let row = matrix::values(row)?;
        self.update(x, |cpu, x| kernels::add_bias(cpu, x, row))
    }

    fn multiply_vector(&self, x: Rows, row: &Param) -> Result<Rows> {
        row.expect_len(x.cols(), "row to multiply by")?;
        let row = matrix::values(row)?;
        self.update(x, |_, x| {
            for x in x.chunks_exact_mut(row.len().max(1)) {
                x.iter_mut().zip(row).for_each(|(x, y)| *x *= y);
            }
            Ok(())
        })
    }

    fn scale(&self, x: Rows, factor: f32) -> Result<Rows> {
        self.update(x, |cpu, x| kernels::scale(cpu, x, factor))
    }

    fn scale_rows(&self, x: Rows, factors: &[f32]) -> Result<Rows> {
        let width = x.cols();
        self.update(x, |cpu, x| kernels::scale_rows(cpu, x, factors, width))
    }

    fn gate_rows(&self, x: Rows, gate: &Rows, activation: Activation) -> Result<Rows> {
        gate.expect_shape(x.rows(), 1, "gates of rows")?;
        let mut factors = values(gate)?.to_vec();
        kernels::activate(&self.cpu, activation, &mut factors).map_err(failed)?;
        self.scale_rows(x, &factors)
    }

    fn clamp(&self, x: Rows, limit: f32) -> Result<Rows> {
        self.update(x, |_, x| {
            // NaN stays NaN, which `max` and `min` would not preserve.
            for x in x {
                *x = if *x > limit {
                    limit
                } else if *x < -limit {
                    -limit
                } else {
                    *x
                };
            }
            Ok(())
        })
    }

    fn softcap(&self, x: Rows, cap: f32) -> Result<Rows> {
        self.update(x, |cpu, x| kernels::softcap(cpu, cap, x))
    }

    fn activate(&self, x: Rows, activation: Activation) -> Result<Rows> {
        self.update(x, |cpu, x| kernels::activate(cpu, activation, x))
    }

    fn gated(&self, gate: Rows, up: &Rows, gating: Gating) -> Result<Rows> {
        let (rows, cols) = (gate.rows(), gate.cols());
        up.expect_shape(rows, cols, "up projection of a feed-forward")?;
        let mut out = HostRows::unwritten(&self.buffers, rows * cols);
        let (gate, up) = (values(&gate)?, values(up)?);
        kernels::gated(&self.cpu, gating, gate, up, out.values_mut()).map_err(failed)?;
        Ok(out.into_rows(rows, cols))
    }
}

impl StateMemory for CpuBackend {
    fn state_backing(&self, plan: &StatePlan) -> Result<Box<dyn StateBacking>> {
        Ok(Box::new(CpuStates::new(plan)?))
    }
}
