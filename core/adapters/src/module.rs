//! [`AdapterModule`]: what an adapter file says of one module.

use crate::tensor::Tensor;

/// What an adapter does to one module.
#[derive(Clone, Debug)]
pub struct AdapterModule {
    /// The module, as the file's format calls it: `model.layers.0.self_attn.q_proj`, or `blk.0.attn_q`.
    pub name: String,
    /// What is done to it.
    pub change: ModuleChange,
}

/// Two narrow matrices, and what multiplies their product.
#[derive(Clone, Debug)]
pub struct LowRankPair {
    /// A, `[rank, in]`; of a table `[V, rank]`; of stacked experts `[E, rank, in]`.
    pub a: Tensor,
    /// B, `[out, rank]`; of stacked experts `[E, out, rank]`.
    pub b: Tensor,
    /// Multiplies the product.
    pub scaling: f32,
}

/// What is done to a module.
#[derive(Clone, Debug)]
pub enum ModuleChange {
    /// A product beside that of a linear.
    Linear {
        /// The matrices; absent where only a bias was trained.
        pair: Option<LowRankPair>,
        /// DoRA's lengths of the rows, `[out]`.
        magnitude: Option<Tensor>,
        /// A trained bias in place of the model's, `[out]`.
        bias: Option<Tensor>,
    },
    /// Rows beside those of a table.
    Table(LowRankPair),
    /// A product beside that of a parameter that holds experts.
    Parameter {
        /// Which parameter of the module (`gate_up_proj`).
        parameter: String,
        /// The matrices of all experts: `[E, rank, in]` and `[E, out, rank]`.
        pair: LowRankPair,
    },
    /// A weight in the model's place, and a bias.
    Whole {
        /// `[out, in]`, or `[V, D]`.
        weight: Tensor,
        /// `[out]`.
        bias: Option<Tensor>,
    },
}
