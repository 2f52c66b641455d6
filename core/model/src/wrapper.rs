//! [`LinearWrapper`]: what is put around linears when a model is assembled.

use crate::experts::ExpertLinear;
use crate::linear::Linear;
use std::ops::Range;

/// Where a linear stands in its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearSite {
    /// Role of the stored weight (`attn_q`, `ffn_up_exps`, `output`; `token_embd` for a tied head).
    pub role: String,
    /// The block, or none for the whole model.
    pub layer: Option<usize>,
    /// Rows of the stored weight: a part of it where the file holds several linears as one (`attn_qkv`).
    pub rows: Range<usize>,
}

/// Puts something around linears: adapters, another quantisation. Called once for each when the model is assembled.
pub trait LinearWrapper: Send + Sync {
    /// The linear to use at this place.
    fn linear(&self, site: &LinearSite, linear: Box<dyn Linear>) -> Box<dyn Linear>;

    /// The stack of linears to use at this place.
    fn experts(&self, site: &LinearSite, experts: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear>;
}
