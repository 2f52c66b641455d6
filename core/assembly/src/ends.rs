//! The two ends of a model: embedding and head.

use crate::assembler::{Assembler, Site};
use crate::dims::Dim;
use crate::source::Part;
use menagerie_model::components::{LinearHead, TableEmbedding};
use menagerie_model::{DenseLinear, OutputHead, TokenEmbedding, Weight};
use menagerie_spec::config::HeadKind;

/// A tensor of the whole model.
fn whole(role: &str) -> Site<'_> {
    Site { role, layer: None }
}

impl Assembler<'_> {
    /// The embedding.
    pub(crate) fn embedding(&mut self) -> Option<Box<dyn TokenEmbedding>> {
        let config = &self.config.embedding;
        let width = Dim::of("D", self.width());
        let table = self.token_table();
        let positions =
            config.positions.as_ref().map(|role| self.weight(whole(role), &[width, Dim::free("context")]));
        let token_type = config.token_types.as_ref().map(|role| {
            let rows = self.values(whole(role), Part::Main, &[width, Dim::free("types")])?;
            Some(rows.get(..self.width())?.to_vec())
        });
        let norm = self.optional_norm(config.norm.as_ref(), None);
        let positions = match positions {
            Some(positions) => Some(positions?),
            None => None,
        };
        let token_type = match token_type {
            Some(token_type) => Some(token_type?),
            None => None,
        };
        let (table, norm) = (table?, norm?);
        Some(Box::new(TableEmbedding { table, scale: config.scale, positions, token_type, norm }))
    }

    fn token_table(&mut self) -> Option<Weight> {
        self.weight(whole("token_embd"), &[Dim::of("D", self.width()), Dim::free("V")])
    }

    /// The head.
    pub(crate) fn head(&mut self) -> Option<Box<dyn OutputHead>> {
        let config = &self.config.output;
        let own = self.has("output", None);
        let width = Dim::of("D", self.width());
        let weight = match (config.head, own) {
            (HeadKind::Own, _) | (HeadKind::OwnOrTied, true) => {
                self.weight(whole("output"), &[width, Dim::free("V")])
            }
            (HeadKind::Tied, _) | (HeadKind::OwnOrTied, false) => self.token_table(),
            (HeadKind::None, _) => {
                self.fault(
                    None,
                    "output: a model without a head gives no logits; encoders are not supported yet",
                );
                None
            }
        };
        let rows = weight.as_ref().map_or(Dim::free("V"), |weight| Dim::of("V", weight.rows()));
        let bias = self.bias(whole("output"), config.bias, &[rows]);
        let norm = self.optional_norm(config.norm.as_ref(), None);
        let product = DenseLinear::new(weight?, bias?);
        let product = self.ok(None, product)?;
        Some(Box::new(LinearHead { norm: norm?, product, scale: config.scale, softcap: config.softcap }))
    }
}
