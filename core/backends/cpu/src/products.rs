//! Products: several over the same rows in one parallel region, and those of experts.

use crate::backend::CpuBackend;
use crate::buffers::{HostRows, values};
use crate::matrix::{CpuMatrix, matrix, values as vector};
use crate::names::failed;
use menagerie_kernels::{
    self as kernels, ActivationCache, Activations, ExpertRows, Gemv, Matrix, matmul_each, matmul_experts,
};
use menagerie_model::{
    Arithmetic, ExpertPlan, HostOperand, LinearInput, LowRankSum, ModelError, Packing, Product, RouterApply,
    Rows, WeightShape,
};
use std::sync::{Mutex, PoisonError};

/// The kernels' view of rows that go into products.
fn activations<'a>(x: &'a LinearInput) -> Result<Activations<'a>, ModelError> {
    let cache = x.prepared::<ActivationCache>()?;
    Activations::new(values(x.rows())?, x.rows().rows(), x.rows().cols(), cache).map_err(failed)
}

fn expect_inputs(product: &Product, x: &LinearInput) -> Result<(), ModelError> {
    let cols = product.weight.shape().cols;
    if cols == x.rows().cols() {
        return Ok(());
    }
    Err(ModelError::Shape {
        what: format!("tensor \"{}\"", product.weight.name()),
        expected: format!("{} columns, as the rows it multiplies", x.rows().cols()),
        found: format!("{cols} columns"),
    })
}

impl CpuBackend {
    /// See [`menagerie_model::Backend::products`].
    pub(crate) fn multiply_all(
        &self,
        products: &[Product],
        x: &LinearInput,
        precision: Arithmetic,
    ) -> Result<Vec<Rows>, ModelError> {
        let rows = x.rows().rows();
        let mut matrices: Vec<Matrix> = Vec::with_capacity(products.len());
        let mut outputs: Vec<HostRows> = Vec::with_capacity(products.len());
        for product in products {
            expect_inputs(product, x)?;
            matrices.push(matrix(product.weight, 0)?);
            outputs.push(HostRows::unwritten(&self.buffers, rows * product.weight.shape().rows));
        }
        let x = activations(x)?;
        let done = match (matrices.as_slice(), outputs.as_mut_slice()) {
            ([matrix], [output]) => kernels::matmul(&self.cpu, precision, matrix, &x, output.values_mut()),
            _ => {
                let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(HostRows::values_mut).collect();
                kernels::matmul_many(&self.cpu, precision, &matrices, &x, &mut slices)
            }
        };
        done.map_err(failed)?;
        let mut made = Vec::with_capacity(products.len());
        for (mut output, product) in outputs.into_iter().zip(products) {
            if let Some(bias) = product.bias {
                kernels::add_bias(&self.cpu, output.values_mut(), vector(bias)?).map_err(failed)?;
            }
            made.push(output.into_rows(rows, product.weight.shape().rows));
        }
        Ok(made)
    }

    /// See [`menagerie_model::Backend::add_low_rank`].
    pub(crate) fn sum_low_rank(
        &self,
        mut ys: Vec<Rows>,
        sums: &[LowRankSum],
    ) -> Result<Vec<Rows>, ModelError> {
        let mut parts = Vec::with_capacity(ys.len());
        for (at, y) in ys.iter_mut().enumerate() {
            let own = sums.iter().filter(|sum| sum.to == at);
            let terms = own.map(|sum| {
                let up = sum.pair.up.as_ref().ok_or_else(|| {
                    ModelError::Layout(format!(
                        "\"{}\" was not prepared for low-rank sums",
                        sum.pair.b.name()
                    ))
                })?;
                let (narrow, up) = (values(sum.narrow)?, matrix(up, 0)?);
                Ok(kernels::LowRankTerm { narrow, up, rows: sum.rows })
            });
            let terms = terms.collect::<Result<Vec<_>, ModelError>>()?;
            let width = y.cols();
            if !terms.is_empty() {
                parts.push(kernels::LowRankSum { y: y.data_mut::<HostRows>()?.values_mut(), width, terms });
            }
        }
        kernels::add_low_rank(&self.cpu, &mut parts).map_err(failed)?;
        drop(parts);
        Ok(ys)
    }

    /// See [`menagerie_model::Backend::product_between`].
    pub(crate) fn multiply_between(
        &self,
        product: &Product,
        x: HostOperand<'_>,
        y: &mut [f32],
        precision: Arithmetic,
    ) -> Result<(), ModelError> {
        let matrix = matrix(product.weight, 0)?;
        let own = ActivationCache::default();
        let x = match x {
            HostOperand::Rows(x) => {
                expect_inputs(product, x)?;
                activations(x)?
            }
            HostOperand::Values(values) => {
                let cols = product.weight.shape().cols;
                Activations::new(values, values.len() / cols.max(1), cols, &own).map_err(failed)?
            }
        };
        kernels::matmul(&self.cpu, precision, &matrix, &x, y).map_err(failed)?;
        match product.bias {
            Some(bias) => kernels::add_bias(&self.cpu, y, vector(bias)?).map_err(failed),
            None => Ok(()),
        }
    }

    /// See [`menagerie_model::Backend::expert_products`].
    pub(crate) fn multiply_experts(
        &self,
        stacks: &[Product],
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        precision: Arithmetic,
    ) -> Result<Vec<Rows>, ModelError> {
        let (rows, rows_of_x) = (plan.packed_rows(), plan.input_rows(packing));
        let mut parts: Vec<Vec<ExpertRows>> = Vec::with_capacity(stacks.len());
        let mut outputs: Vec<HostRows> = Vec::with_capacity(stacks.len());
        for stack in stacks {
            expect_inputs(stack, x)?;
            let experts = stack.weight.data::<CpuMatrix>()?;
            let part = plan.groups().iter().map(|(expert, range)| {
                Ok(ExpertRows { matrix: experts.get(*expert)?, rows: &rows_of_x[range.clone()] })
            });
            parts.push(part.collect::<Result<_, ModelError>>()?);
            outputs.push(HostRows::unwritten(&self.buffers, rows * stack.weight.shape().rows));
        }
        let x = activations(x)?;
        // One token: each of its experts has one row, and the kernels for one row read weights fastest.
        if packing == Packing::Packed && rows == plan.top_k() {
            for (part, output) in parts.iter().zip(&mut outputs) {
                self.each_row(part, &x, precision, output.values_mut())?;
            }
        } else {
            let parts: Vec<&[ExpertRows]> = parts.iter().map(Vec::as_slice).collect();
            let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(HostRows::values_mut).collect();
            matmul_experts(&self.cpu, precision, &parts, &x, &mut slices).map_err(failed)?;
        }
        let mut made = Vec::with_capacity(stacks.len());
        for (mut output, stack) in outputs.into_iter().zip(stacks) {
            add_expert_bias(output.values_mut(), stack, plan)?;
            made.push(output.into_rows(rows, stack.weight.shape().rows));
        }
        Ok(made)
    }

    fn each_row(
        &self,
        parts: &[ExpertRows],
        x: &Activations,
        precision: Arithmetic,
        y: &mut [f32],
    ) -> Result<(), ModelError> {
        let caches: Vec<ActivationCache> = (0..x.rows).map(|_| ActivationCache::default()).collect();
        let rows: Vec<&[f32]> = x.values.chunks_exact(x.cols.max(1)).collect();
        let mut products = Vec::with_capacity(parts.len());
        for part in parts {
            for &row in part.rows {
                let row = row as usize;
                let x = Activations { values: rows[row], rows: 1, cols: x.cols, cache: &caches[row] };
                products.push(Gemv { matrix: part.matrix, x });
            }
        }
        matmul_each(&self.cpu, precision, &products, y).map_err(failed)
    }

    /// See [`menagerie_model::Backend::pack_weighted`].
    pub(crate) fn pack(&self, x: &Rows, plan: &ExpertPlan) -> Result<Rows, ModelError> {
        let (width, source) = (x.cols(), values(x)?);
        let mut out = HostRows::unwritten(&self.buffers, plan.packed_rows() * width);
        let rows = out.values_mut().chunks_exact_mut(width.max(1));
        for ((row, &token), &weight) in rows.zip(plan.tokens()).zip(plan.weights()) {
            let at = token as usize * width;
            let found = source.get(at..at + width).ok_or_else(|| too_few_rows(x.rows()))?;
            row.iter_mut().zip(found).for_each(|(y, x)| *y = x * weight);
        }
        Ok(out.into_rows(plan.packed_rows(), width))
    }

    /// See [`menagerie_model::Backend::combine`].
    pub(crate) fn sum_experts(
        &self,
        packed: &Rows,
        plan: &ExpertPlan,
        apply: RouterApply,
    ) -> Result<Rows, ModelError> {
        let width = packed.cols();
        if packed.rows() != plan.packed_rows() {
            return Err(too_few_rows(packed.rows()));
        }
        let top_k = plan.top_k();
        let tokens = plan.slots().len() / top_k.max(1);
        let mut out = HostRows::of(&self.buffers, vec![0.0; tokens * width]);
        let packed = values(packed)?;
        self.for_row_chunks(out.values_mut(), width, |first, chunk| {
            let slots = plan.slots()[first * top_k..].chunks_exact(top_k);
            for (row, slots) in chunk.chunks_exact_mut(width).zip(slots) {
                for &slot in slots {
                    let slot = slot as usize;
                    let factor = match apply {
                        RouterApply::ToOutput => plan.weights()[slot],
                        RouterApply::ToInput => 1.0,
                    };
                    let source = &packed[slot * width..(slot + 1) * width];
                    row.iter_mut().zip(source).for_each(|(y, x)| *y += factor * x);
                }
            }
        })?;
        Ok(out.into_rows(tokens, width))
    }

    /// Runs `job(first row, rows)` over chunks of rows, in parallel where there are several.
    pub(crate) fn for_row_chunks(
        &self,
        out: &mut [f32],
        width: usize,
        job: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Result<(), ModelError> {
        /// Rows of a task.
        const ROWS: usize = 16;
        if width == 0 || out.len() <= ROWS * width {
            job(0, out);
            return Ok(());
        }
        // Each lock is taken once, by the task that owns the chunk.
        let chunks: Vec<Mutex<&mut [f32]>> = out.chunks_mut(ROWS * width).map(Mutex::new).collect();
        let run = self.cpu.pool().run(chunks.len(), &|index| {
            let mut chunk = chunks[index].lock().unwrap_or_else(PoisonError::into_inner);
            job(index * ROWS, &mut chunk);
        });
        run.map_err(failed)
    }
}

fn add_expert_bias(y: &mut [f32], stack: &Product, plan: &ExpertPlan) -> Result<(), ModelError> {
    let Some(bias) = stack.bias else { return Ok(()) };
    let WeightShape { count, rows: out, .. } = stack.weight.shape();
    bias.expect_len(count * out, "bias of experts")?;
    let bias = vector(bias)?;
    for (expert, range) in plan.groups() {
        let bias = &bias[expert * out..(expert + 1) * out];
        for row in y[range.start * out..range.end * out].chunks_exact_mut(out.max(1)) {
            row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
    }
    Ok(())
}

fn too_few_rows(found: usize) -> ModelError {
    ModelError::Shape {
        what: "rows of experts".to_owned(),
        expected: "as many rows as were routed".to_owned(),
        found: format!("{found} rows"),
    }
}
