//! [`LinearWrapper`]: what is put around linears and tables when a model is assembled; [`FeedForwardWrapper`]: around
//! feed-forwards.

use crate::Result;
use crate::experts::ExpertLinear;
use crate::linear::Linear;
use crate::table::Table;
use crate::traits::FeedForward;
use std::ops::Range;

/// How the weight of a site was made of the stored one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SiteForm {
    /// It is rows of it.
    #[default]
    Stored,
    /// Some rows of every head (latent attention): a matrix for each head in a stack, one after the other in a linear.
    HeadRows(HeadRows),
    /// The same, each head's matrix turned.
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

/// Where a linear or a table stands in its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearSite {
    /// Role of the stored weight (`attn_q`, `ffn_up_exps`, `output`; `token_embd` for a tied head).
    pub role: String,
    /// The block, or none for the whole model.
    pub layer: Option<usize>,
    /// Rows of the stored weight: a part of it where the file holds several linears as one (`attn_qkv`).
    pub rows: Range<usize>,
    /// How its weight was made of the stored one.
    pub form: SiteForm,
}

/// Puts something around linears: adapters, another quantization. Called once for each when the model is assembled.
pub trait LinearWrapper: Send + Sync {
    /// The linear to use at this place.
    fn linear(&self, site: &LinearSite, linear: Box<dyn Linear>) -> Box<dyn Linear>;

    /// The stack of linears to use at this place.
    fn experts(&self, site: &LinearSite, experts: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear>;

    /// The table of tokens to use; as it is, unless the wrapper cares.
    fn table(&self, _site: &LinearSite, table: Box<dyn Table>) -> Box<dyn Table> {
        table
    }
}

/// Puts something around the feed-forwards of layers: other experts beside them.
pub trait FeedForwardWrapper: Send + Sync {
    /// Whether it changes that of a layer, on whose linears a [`LinearWrapper`] then does not act.
    fn changes(&self, layer: usize) -> bool;

    /// The feed-forward to use in a layer.
    ///
    /// # Errors
    /// What is put around does not fit.
    fn feed_forward(&self, layer: usize, part: Box<dyn FeedForward>) -> Result<Box<dyn FeedForward>>;
}
