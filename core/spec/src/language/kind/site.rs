//! [`NormSite`], [`BiasRule`] and [`Role`]: where a component's tensors are.

use super::Component;
use crate::names;

/// A role: the GGUF tensor name without `blk.N.` and suffix, e.g. `attn_q`. A role written with its suffix
/// (`exp_probs_b.bias`) names exactly that tensor.
pub type Role = String;

/// A place where a norm is applied, with everything it needs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct NormSite {
    /// Role of the weight (and bias); the site's name even where there is no weight.
    pub role: Role,
    /// The norm.
    pub norm: Component,
}

names! {
    /// Whether a linear has a bias.
    pub enum BiasRule {
        /// A bias in the file is an unclaimed tensor.
        None = "none",
        /// Taken where the file has it.
        IfPresent = "if-present",
        /// Missing is an error.
        Required = "required",
    }
}
