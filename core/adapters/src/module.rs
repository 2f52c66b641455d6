//! [`AdapterModule`]: what an adapter does to one module.

use crate::adapter_tensor::AdapterTensor;

/// What an adapter does to one module.
#[derive(Clone, Debug)]
pub struct AdapterModule {
    /// The name of the module in the file: `model.layers.0.self_attn.q_proj`, or `blk.0.attn_q`.
    pub name: String,
    /// The change.
    pub change: ModuleChange,
}

/// Two low-rank matrices, and the factor of their product.
#[derive(Clone, Debug)]
pub struct LowRankPair {
    /// A, `[rank, in]`; for a table `[V, rank]`; for stacked experts `[E, rank, in]`.
    pub a: AdapterTensor,
    /// B, `[out, rank]`; for stacked experts `[E, out, rank]`.
    pub b: AdapterTensor,
    /// The factor of the product.
    pub scaling: f32,
}

/// The change of a module.
#[derive(Clone, Debug)]
pub enum ModuleChange {
    /// A product that is added to that of a linear.
    Linear {
        /// The matrices; absent if only a bias was trained.
        pair: Option<LowRankPair>,
        /// The magnitudes of DoRA, `[out]`.
        magnitude: Option<AdapterTensor>,
        /// A trained bias that replaces that of the model, `[out]`.
        bias: Option<AdapterTensor>,
    },
    /// Rows that are added to those of a table.
    Table(LowRankPair),
    /// A product that is added to that of a parameter with all experts.
    Parameter {
        /// The parameter of the module (`gate_up_proj`).
        parameter: String,
        /// The matrices of all experts: `[E, rank, in]` and `[E, out, rank]`.
        pair: LowRankPair,
    },
    /// A weight, and a bias, that replace those of the model.
    Whole {
        /// `[out, in]`, or `[V, D]`.
        weight: AdapterTensor,
        /// `[out]`.
        bias: Option<AdapterTensor>,
    },
}
