//! [`Body`]: the sections of a spec as written.

use crate::expression::Expression;
use crate::kind::Role;
use crate::kind::written::{Cases, Scalar, WrittenTable};
use crate::text::tree::SourcePlace;
use std::sync::Arc;

/// A spec without its names and its Hugging Face sections.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) lets: Vec<Let>,
    pub(crate) layers: Arc<WrittenTable>,
    pub(crate) embedding: Arc<WrittenTable>,
    pub(crate) block: Arc<WrittenTable>,
    pub(crate) mixer: Cases,
    pub(crate) feed_forward: Cases,
    pub(crate) beside: Cases,
    pub(crate) last: Cases,
    pub(crate) output: Arc<WrittenTable>,
    /// A head that predicts further tokens, if the spec describes one.
    pub(crate) nextn: Option<Arc<WrittenTable>>,
    pub(crate) checks: Vec<Check>,
    pub(crate) gguf: Gguf,
    pub(crate) adapter_order: Vec<Role>,
    pub(crate) pre: Option<String>,
    pub(crate) end: Vec<String>,
    pub(crate) chat_fallback: Option<String>,
}

impl Body {
    /// Every table of options, as written.
    pub(crate) fn tables(&self) -> Vec<Arc<WrittenTable>> {
        let sections = [&self.layers, &self.embedding, &self.block, &self.output];
        let cases = self.components().into_iter().flat_map(|cases| &cases.cases).map(|case| &case.table);
        sections.into_iter().chain(&self.nextn).chain(cases).cloned().collect()
    }

    /// The components of a block.
    pub(crate) fn components(&self) -> [&Cases; 4] {
        [&self.mixer, &self.feed_forward, &self.beside, &self.last]
    }
}

/// A named expression.
#[derive(Clone, Debug)]
pub(crate) struct Let {
    pub(crate) name: String,
    pub(crate) place: SourcePlace,
    pub(crate) value: Scalar,
}

/// One line of `[check]`.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) place: SourcePlace,
    pub(crate) expression: Arc<Expression>,
    pub(crate) message: String,
}

/// `[gguf]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gguf {
    /// Prefix of a block's tensors, with `{layer}`; absent = `blk.{layer}`.
    pub(crate) layer: Option<String>,
    /// Role and the name it is stored under.
    pub(crate) tensors: Vec<(Role, String)>,
    /// Roles of fused matrices that are separate tensors in files.
    pub(crate) apart: Vec<String>,
    /// Globs and reasons.
    pub(crate) ignore_tensors: Vec<(String, String)>,
    /// Globs and reasons.
    pub(crate) ignore_keys: Vec<(String, String)>,
}
