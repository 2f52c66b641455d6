//! [`NormSite`], [`BiasRule`] and [`Role`]: where a component's tensors are.

use super::Component;
use crate::names;

/// A role: the GGUF tensor name without `blk.N.` and suffix, e.g. `attn_q`. A role written with its suffix
/// (`exp_probs_b.bias`) names exactly that tensor.
pub type Role = String;

/// A norm and the role of its tensors.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct NormSite {
    /// Role of the weight (and bias); also the name of a site without a weight.
    pub role: Role,
    /// The norm.
    pub norm: Component,
}

names! {
    /// Whether a linear has a bias.
    pub enum BiasRule {
        /// A bias in the file is an unclaimed tensor.
        None = "none",
        /// Used if the file has it.
        IfPresent = "if-present",
        /// A missing bias is an error.
        Required = "required",
    }
}
