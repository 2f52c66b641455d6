//! The heads that predict further tokens.

use crate::config::NextnConfig;
use crate::kind::{OptionResolver, RecordedFault};
use crate::language::nextn::NextnOptions;
use crate::language::resolver::Resolver;
use crate::text::source::SourceFormat;
use std::sync::Arc;

impl Resolver<'_> {
    /// The heads for further tokens, if they are requested; their blocks have the indices from `first` on. Those whose
    /// tensors are there count, at most as many as the keys state.
    pub(super) fn nextn(&mut self, first: usize) -> Result<Vec<NextnConfig>, RecordedFault> {
        let mut heads = Vec::new();
        while self.input.nextn {
            match self.nextn_head(first, heads.len())? {
                Some(head) => heads.push(head),
                None => break,
            }
        }
        Ok(heads)
    }

    /// A head, after `before` others; `None` if there are no more.
    fn nextn_head(&mut self, first: usize, before: usize) -> Result<Option<NextnConfig>, RecordedFault> {
        let layer = first + before;
        let Some(table) = self.spec.body.nextn.clone() else {
            let message = format!(
                "spec {} describes no head that predicts further tokens (section [nextn]); leave out --draft heads",
                self.spec.id()
            );
            return Err(self.file_fault(None, "draft heads".into(), message));
        };
        let NextnOptions {
            count,
            embedding_norm,
            hidden_norm,
            projection,
            order,
            hidden,
            repeats,
            embedding,
            norm,
            head,
        } = self.options(Arc::clone(&table), Some(layer))?;
        // A folder has no key for it whose value is the same in all of them: the tensors decide.
        let stated = count > before || self.input.source == SourceFormat::Hf;
        let has_tensors = self.input.roles.has(&projection, Some(layer));
        if before > 0 && !(stated && has_tensors) {
            return Ok(None);
        }
        if !stated || !has_tensors {
            let missing = if has_tensors { "its keys state 0" } else { "there is no such tensor" };
            let message = format!(
                "no head that predicts further tokens (block {layer}, tensor {projection}): {missing}; leave out --draft heads, \
                 or use a file with the head"
            );
            return Err(self.file_fault(None, "draft heads".into(), message));
        }
        let roles = self.input.roles;
        let has = |role: &String| roles.has(role, Some(layer));
        Ok(Some(NextnConfig {
            block: self.layer(layer)?,
            embedding_norm: embedding_norm.0,
            hidden_norm: hidden_norm.0,
            projection,
            order,
            hidden,
            repeats,
            embedding: embedding.filter(has),
            norm: norm.0.filter(|site| has(&site.role)),
            head: head.filter(has),
        }))
    }
}
