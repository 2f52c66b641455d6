//! Norm sites to norms.

use crate::assembler::{Assembler, Site};
use crate::dims::Dim;
use crate::source::Part;
use menagerie_model::Norm;
use menagerie_model::components::{LayerNorm, QkNorm, QkNormPlace, RmsNorm};
use menagerie_model::ops::HeadNorm;
use menagerie_spec::config::{
    AttentionConfig, NormConfig, NormKind, NormSite, QkNormAt, QkNormConfig, QkNormOver,
};

impl Assembler<'_> {
    /// A norm over rows of the residual stream; the outer `None` is a fault.
    #[allow(clippy::option_option)]
    pub(crate) fn optional_norm(
        &mut self,
        site: Option<&NormSite>,
        layer: Option<usize>,
    ) -> Option<Option<Box<dyn Norm>>> {
        match site {
            None => Some(None),
            Some(site) => self.norm(site, layer).map(Some),
        }
    }

    fn norm(&mut self, site: &NormSite, layer: Option<usize>) -> Option<Box<dyn Norm>> {
        let at = Site { role: &site.role, layer };
        let (weight, bias) = self.norm_values(at, &site.norm, &[Dim::of("D", self.width())])?;
        let eps = site.norm.eps;
        Some(match site.norm.kind {
            NormKind::Layer => Box::new(LayerNorm { weight, bias, eps }),
            NormKind::Rms if bias.is_none() => Box::new(RmsNorm { weight, eps }),
            NormKind::Rms => {
                self.fault(
                    layer,
                    &format!("norm \"{}\": an RMS norm with a bias is not supported", site.role),
                );
                return None;
            }
        })
    }

    /// Weight (with the offset added) and bias, where the norm has them.
    #[allow(clippy::type_complexity)]
    fn norm_values(
        &mut self,
        site: Site,
        norm: &NormConfig,
        expected: &[Dim],
    ) -> Option<(Option<Vec<f32>>, Option<Vec<f32>>)> {
        let weight = norm.weight.then(|| self.values(site, Part::Main, expected));
        let bias = norm.bias.then(|| self.values(site, Part::Bias, expected));
        let mut weight = weight.map_or(Some(None), |values| values.map(Some))?;
        if let (Some(weight), true) = (&mut weight, norm.offset != 0.0) {
            weight.iter_mut().for_each(|value| *value += norm.offset);
        }
        Some((weight, bias.map_or(Some(None), |values| values.map(Some))?))
    }

    /// Norms on queries and keys; `over` says what the mean runs over, the shape whether heads share a weight.
    pub(crate) fn qk_norm(
        &mut self,
        norm: &QkNormConfig,
        attention: &AttentionConfig,
        layer: usize,
    ) -> Option<QkNorm> {
        let dim = attention.key_dim;
        let query =
            self.head_norm(Site { role: "attn_q_norm", layer: Some(layer) }, norm, dim, attention.heads);
        let key =
            self.head_norm(Site { role: "attn_k_norm", layer: Some(layer) }, norm, dim, attention.kv_heads);
        let place = match norm.at {
            QkNormAt::BeforeRope => QkNormPlace::BeforeRope,
            QkNormAt::AfterRope => QkNormPlace::AfterRope,
        };
        Some(QkNorm { query: query?, key: key?, place })
    }

    fn head_norm(&mut self, site: Site, norm: &QkNormConfig, dim: usize, heads: usize) -> Option<HeadNorm> {
        let found = self.dims(site.role, site.layer).map_or(0, |dims| dims.iter().product::<u64>());
        let per_head = [Dim::of("head_dim", dim), Dim::of("heads", heads)];
        let flat = [Dim::of("heads*head_dim", dim * heads)];
        let shared = [Dim::of("head_dim", dim)];
        let whole_row = found == (dim * heads) as u64 && heads > 1;
        let is_matrix =
            self.dims(site.role, site.layer).is_some_and(|dims| dims.get(1).is_some_and(|d| *d > 1));
        let expected: &[Dim] = match (norm.over, whole_row, is_matrix) {
            (_, true, true) => &per_head,
            (QkNormOver::AllHeads, ..) | (_, true, false) => &flat,
            (QkNormOver::Head, false, _) => &shared,
        };
        let (weight, bias) = self.norm_values(site, &norm.norm, expected)?;
        let width = match norm.over {
            QkNormOver::Head => dim,
            QkNormOver::AllHeads => dim * heads,
        };
        Some(HeadNorm { centred: norm.norm.kind == NormKind::Layer, width, weight, bias, eps: norm.norm.eps })
    }
}
