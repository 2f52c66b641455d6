//! The two ends of a model: embedding and head.

use crate::assembler::{Assembler, Site};
use crate::dims::{free, of};
use menagerie_model::components::{LinearHead, TableEmbedding};
use menagerie_model::{Norm, OutputHead, Param, Pooling, TokenEmbedding};
use menagerie_registry::{NormPlace, Part, where_given};
use menagerie_spec::config::{self, EmbeddingConfig, HeadKind, NormSite, OutputConfig};

/// A tensor of the whole model.
fn whole(role: &str) -> Site<'_> {
    Site { role, layer: None }
}

impl Assembler<'_> {
    /// A norm over rows of the residual stream; the outer `None` is a fault.
    #[allow(clippy::option_option)]
    pub(crate) fn site_norm(
        &mut self,
        site: Option<&NormSite>,
        layer: Option<usize>,
    ) -> Option<Option<Box<dyn Norm>>> {
        let Some(NormSite { role, norm }) = site else { return Some(None) };
        let width = self.width();
        self.norm(norm, layer, &NormPlace { role, width }).map(Some)
    }

    /// The embedding, and its table for a head that shares it.
    pub(crate) fn embedding(&mut self) -> Option<Box<dyn TokenEmbedding>> {
        let EmbeddingConfig { scale, norm, positions, token_types } = &self.config.embedding;
        let table = self.token_table();
        let positions = where_given(positions.as_ref().map(|role| self.table(whole(role), "context")));
        let token_type = where_given(token_types.as_ref().map(|role| self.first_row(whole(role))));
        let norm = self.site_norm(norm.as_ref(), None);
        Some(Box::new(TableEmbedding {
            table: table?,
            scale: *scale,
            positions: positions?,
            token_type: token_type?,
            norm: norm?,
        }))
    }

    /// A matrix `[rows, D]` taken in by the backend.
    fn table(&mut self, site: Site, rows: &'static str) -> Option<Param> {
        let weight = self.take(site, Part::Main, &[of("D", self.width()), free(rows)])?;
        self.param(None, &weight)
    }

    /// The token embedding; taken in once, though the head may share it.
    fn token_table(&mut self) -> Option<Param> {
        if let Some(known) = &self.token_table {
            return Some(known.clone());
        }
        let table = self.table(whole("token_embd"), "V")?;
        self.token_table = Some(table.clone());
        Some(table)
    }

    /// The first row of a table, `[D]`.
    fn first_row(&mut self, site: Site) -> Option<Param> {
        let rows = self.values(site, Part::Main, &[of("D", self.width()), free("types")])?;
        self.vector(site, rows.get(..self.width())?.to_vec())
    }

    /// The head; a model without one is an encoder.
    pub(crate) fn head(&mut self) -> Option<Box<dyn OutputHead>> {
        let OutputConfig { norm, head, bias, scale, softcap, pooling: _ } = &self.config.output;
        let own = self.has(whole("output"), Part::Main);
        let (role, weight) = match (head, own) {
            (HeadKind::Own, _) | (HeadKind::OwnOrTied, true) => ("output", self.table(whole("output"), "V")),
            (HeadKind::Tied, _) | (HeadKind::OwnOrTied, false) => ("token_embd", self.token_table()),
            (HeadKind::None, _) => {
                self.fault(None, "output: a model without a head gives no logits; open it as an encoder");
                return None;
            }
        };
        let rows = weight.as_ref().map_or(free("V"), |weight| of("V", weight.shape().rows));
        let bias = self.bias(whole("output"), *bias, &[rows]);
        let norm = self.site_norm(norm.as_ref(), None);
        let weight = weight?;
        let rows = 0..weight.shape().rows;
        let product = self.linear(whole(role), rows, weight, bias?)?;
        Some(Box::new(LinearHead { norm: norm?, product, scale: *scale, softcap: *softcap }))
    }

    /// Norm and pooling of an encoder.
    #[allow(clippy::option_option)]
    pub(crate) fn pooling(&mut self) -> Option<(Option<Box<dyn Norm>>, Pooling)> {
        let OutputConfig { norm, head: _, bias: _, scale: _, softcap: _, pooling } = &self.config.output;
        let pooling = match pooling {
            config::Pooling::None => Pooling::None,
            config::Pooling::Mean => Pooling::Mean,
            config::Pooling::First => Pooling::Cls,
            config::Pooling::Last => Pooling::Last,
        };
        Some((self.site_norm(norm.as_ref(), None)?, pooling))
    }
}
