//! The head that predicts further tokens.

use super::dims::{free, of};
use super::{Assembler, TensorSite};
use menagerie_model::components::TableEmbedding;
use menagerie_model::{Linear, NextnHead, OutputHead, StateSpec, StoredTable, TokenEmbedding};
use menagerie_registry::{BuildResult, TensorPart};
use menagerie_spec::config::{NextnConfig, NormSite};

impl Assembler<'_> {
    /// The head for further tokens. Adapters do not act on it: it only guesses.
    pub(crate) fn nextn(&mut self, config: &NextnConfig) -> BuildResult<NextnHead> {
        let wrapper = self.wrapper.take();
        let made = self.bare_nextn(config);
        self.wrapper = wrapper;
        made
    }

    fn bare_nextn(&mut self, config: &NextnConfig) -> BuildResult<NextnHead> {
        let NextnConfig {
            block,
            embedding_norm,
            hidden_norm,
            projection,
            order,
            hidden,
            repeats,
            embedding,
            norm,
            head,
        } = config;
        let layer = block.index;
        let at = Some(layer);
        let before = self.states.specs().len();
        let built = self.block(block);
        let is_per_token = |spec: &StateSpec| matches!(spec, StateSpec::PerToken { .. });
        if !self.states.specs().iter().skip(before).all(is_per_token) {
            let text = "the block of the head for further tokens has a recurrent state, which takes no guess back; leave out \
                        --draft heads";
            return Err(self.fault(at, text));
        }
        let embedding_norm = self.site_norm(embedding_norm.as_ref(), at);
        let hidden_norm = self.site_norm(hidden_norm.as_ref(), at);
        let projection = self.nextn_projection(projection, layer);
        let embedding = embedding.as_ref().map(|role| self.nextn_embedding(role, layer)).transpose();
        let head = self.nextn_logits(norm.as_ref(), head.as_deref(), layer);
        Ok(NextnHead {
            layer,
            embedding: embedding?,
            embedding_norm: embedding_norm?,
            hidden_norm: hidden_norm?,
            order: *order,
            projection: projection?,
            block: Box::new(built?),
            hidden: *hidden,
            repeats: *repeats,
            head: head?,
        })
    }

    fn nextn_projection(&mut self, role: &str, layer: usize) -> BuildResult<Box<dyn Linear>> {
        let site = TensorSite { role, layer: Some(layer) };
        let width = self.width();
        let weight = self.take(site, TensorPart::Main, &[of("2*D", 2 * width), of("D", width)])?;
        let weight = self.param(site.layer, &weight)?;
        self.linear(site, 0..width, weight, None)
    }

    /// Its own token embedding; like the model's, it multiplies the rows by the factor of the spec.
    fn nextn_embedding(&mut self, role: &str, layer: usize) -> BuildResult<Box<dyn TokenEmbedding>> {
        let site = TensorSite { role, layer: Some(layer) };
        let table = self.table(site, "V")?;
        let own = self.table_scale(site)?.unwrap_or(1.0);
        let scale = self.config.embedding.scale * own;
        let table = Box::new(StoredTable(table));
        Ok(Box::new(TableEmbedding { table, scale, positions: None, token_types: None, norm: None }))
    }

    /// Norm and logits, with the tensors of the head or else those of the model.
    fn nextn_logits(
        &mut self,
        norm: Option<&NormSite>,
        role: Option<&str>,
        layer: usize,
    ) -> BuildResult<Box<dyn OutputHead>> {
        let config = self.config;
        let norm = match norm {
            Some(own) => self.site_norm(Some(own), Some(layer)),
            None => self.site_norm(config.output.norm.as_ref(), None),
        };
        let Some(role) = role else {
            let (role, weight) = self.head_table()?;
            return self.head_over(norm, TensorSite { role, layer: None }, weight);
        };
        let site = TensorSite { role, layer: Some(layer) };
        let weight = self.take(site, TensorPart::Main, &[of("D", self.width()), free("V")])?;
        let weight = self.param(site.layer, &weight)?;
        self.head_over(norm, site, weight)
    }
}
