//! [`LinearWrapper`]: wraps linears and tables when a model is assembled; [`FeedForwardWrapper`] wraps feed-forwards.

use crate::Result;
use crate::experts::ExpertLinear;
use crate::linear::Linear;
use crate::table::Table;
use crate::traits::FeedForward;
use std::ops::Range;

/// How the weight of a site was derived from the stored one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SiteForm {
    /// It is rows of it.
    #[default]
    Stored,
    /// Some rows of every head (latent attention): a matrix for each head in a stack, or consecutive rows in a linear.
    HeadRows(HeadRows),
    /// The same, with each head's matrix transposed.
    TurnedHeads(HeadRows),
}

/// Rows of every head of a weight `[heads * rows of a head, in]` (`attn_kv_b`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadRows {
    /// Heads.
    pub heads: usize,
    /// Rows of each.
    pub rows: Range<usize>,
}

/// Where a linear or a table is in its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearSite {
    /// Role of the stored weight (`attn_q`, `ffn_up_exps`, `output`; `token_embd` for a tied head).
    pub role: String,
    /// The block, or none for the whole model.
    pub layer: Option<usize>,
    /// Rows of the stored weight: a part of it if the file stores several linears as one (`attn_qkv`).
    pub rows: Range<usize>,
    /// How its weight was derived from the stored one.
    pub form: SiteForm,
}

/// Wraps linears: adapters, another quantization. Called once for each when the model is assembled.
pub trait LinearWrapper: Send + Sync {
    /// The linear to use at this place.
    fn linear(&self, site: &LinearSite, linear: Box<dyn Linear>) -> Box<dyn Linear>;

    /// The stack of linears to use at this place.
    fn experts(&self, site: &LinearSite, experts: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear>;

    /// The table of tokens to use; unchanged by default.
    fn table(&self, _site: &LinearSite, table: Box<dyn Table>) -> Box<dyn Table> {
        table
    }
}

/// Wraps the feed-forwards of layers: adds other experts, for example.
pub trait FeedForwardWrapper: Send + Sync {
    /// Whether it changes the feed-forward of a layer; a [`LinearWrapper`] then does not act on its linears.
    fn changes(&self, layer: usize) -> bool;

    /// The feed-forward to use in a layer.
    ///
    /// # Errors
    /// The wrapper does not fit the feed-forward.
    fn feed_forward(&self, layer: usize, part: Box<dyn FeedForward>) -> Result<Box<dyn FeedForward>>;
}
