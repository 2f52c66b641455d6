//! Products of experts: a step's rows packed by expert, and added up again.

use crate::backend::CandleBackend;
use crate::matrix::{CandleMatrix, RowForms, own_rows};
use crate::products::{matrices, matrix};
use crate::tensors::{TensorResult, column, indices};
use candle_core::Tensor;
use menagerie_model::{
    Arithmetic, ExpertPlan, LinearInput, ModelError, Packing, Product, Result, RouterApply, Rows,
};

/// A stack's matrices by group of the plan, and the biases of all experts.
struct Stack<'a> {
    matrices: Vec<&'a CandleMatrix>,
    bias: Option<&'a Tensor>,
    out: usize,
}

impl CandleBackend {
    /// See [`menagerie_model::Backend::expert_products`].
    pub(crate) fn multiply_experts(
        &self,
        stacks: &[Product],
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        arithmetic: Arithmetic,
    ) -> Result<Vec<Rows>> {
        let rows = plan.input_rows(packing);
        check_rows(rows, x.rows().rows())?;
        let cols = x.rows().cols();
        let stacks = stacks
            .iter()
            .map(|stack| self.stack(stack, plan, cols, arithmetic))
            .collect::<Result<Vec<_>>>()?;
        let Some(x) = self.tensor(x.rows())?.filter(|_| !rows.is_empty()) else {
            return Ok(stacks.iter().map(|stack| Self::empty(rows.len(), stack.out)).collect());
        };
        let packed = match packing {
            Packing::Packed => Ok(x),
            Packing::Tokens => indices(rows, &self.device).and_then(|rows| x.index_select(&rows, 0)),
        };
        let made = packed.and_then(|packed| multiply(&stacks, &packed, plan));
        let made = made.map_err(|error| self.failed(error))?;
        made.into_iter().map(|made| self.rows(Ok(made))).collect()
    }

    fn stack<'a>(
        &self,
        stack: &Product<'a>,
        plan: &ExpertPlan,
        cols: usize,
        arithmetic: Arithmetic,
    ) -> Result<Stack<'a>> {
        let held = matrices(stack.weight, cols, arithmetic)?;
        let groups = plan.groups().iter().map(|(expert, _)| matrix(stack.weight, held, *expert));
        let shape = stack.weight.shape();
        let biases = shape.count * shape.rows;
        let bias = stack.bias.map(|bias| self.vector_of(bias, biases, "bias of experts")).transpose()?;
        Ok(Stack { matrices: groups.collect::<Result<_>>()?, bias, out: shape.rows })
    }

    /// See [`menagerie_model::Backend::pack_weighted`].
    pub(crate) fn pack(&self, x: &Rows, plan: &ExpertPlan) -> Result<Rows> {
        check_rows(plan.tokens(), x.rows())?;
        if plan.packed_rows() == 0 {
            return Ok(Self::empty(0, x.cols()));
        }
        self.map(x, x.cols(), |x| {
            let picked = x.index_select(&indices(plan.tokens(), &self.device)?, 0)?;
            picked.broadcast_mul(&column(plan.weights(), &self.device)?)
        })
    }

    /// See [`menagerie_model::Backend::combine`].
    pub(crate) fn sum_experts(&self, packed: &Rows, plan: &ExpertPlan, apply: RouterApply) -> Result<Rows> {
        packed.expect_shape(plan.packed_rows(), packed.cols(), "outputs of experts")?;
        let cols = packed.cols();
        match self.tensor(packed)? {
            None => Ok(Self::empty(plan.packed_rows() / plan.top_k().max(1), cols)),
            Some(packed) => self.rows(self.sum(&packed, plan, apply)),
        }
    }

    /// Choice by choice, best first, so that a token's sum has one order.
    fn sum(&self, packed: &Tensor, plan: &ExpertPlan, apply: RouterApply) -> TensorResult {
        let scaled = match apply {
            RouterApply::ToInput => packed.clone(),
            RouterApply::ToOutput => packed.broadcast_mul(&column(plan.weights(), &self.device)?)?,
        };
        let choice = |k: usize| {
            let slots: Vec<u32> = plan.slots().iter().skip(k).step_by(plan.top_k()).copied().collect();
            scaled.index_select(&indices(&slots, &self.device)?, 0)
        };
        let mut sum = choice(0)?;
        for k in 1..plan.top_k() {
            sum = (sum + choice(k)?)?;
        }
        Ok(sum)
    }
}

/// Packed outputs of every stack; `packed` holds the inputs in the order of the plan.
fn multiply(stacks: &[Stack], packed: &Tensor, plan: &ExpertPlan) -> TensorResult<Vec<Tensor>> {
    let mut parts: Vec<Vec<Tensor>> =
        stacks.iter().map(|_| Vec::with_capacity(plan.groups().len())).collect();
    for (group, (expert, range)) in plan.groups().iter().enumerate() {
        let rows = own_rows(packed, range.start, range.len())?;
        let prepared = RowForms::default();
        for (stack, parts) in stacks.iter().zip(&mut parts) {
            let y = stack.matrices[group].product(&rows, &prepared)?;
            parts.push(match stack.bias {
                Some(bias) => y.broadcast_add(&bias.narrow(0, expert * stack.out, stack.out)?)?,
                None => y,
            });
        }
    }
    parts.iter().map(|parts| Tensor::cat(parts, 0)).collect()
}

/// GPUs do not check indices.
fn check_rows(rows: &[u32], found: usize) -> Result<()> {
    match rows.iter().max() {
        Some(&most) if most as usize >= found => Err(ModelError::Shape {
            what: "input of experts".to_owned(),
            expected: format!("more than {most} rows, as were routed"),
            found: format!("{found} rows"),
        }),
        _ => Ok(()),
    }
}
