//! [`RowOrder`]: the order of rows of queries and keys, which differs between formats.

use super::FitTarget;
use crate::file::AdapterFormat;
use menagerie_model::LinearSite;
use menagerie_spec::config::{AttentionConfig, GatedDeltaNetConfig};
use menagerie_spec::kind::Component;
use menagerie_spec::{ModelConfig, SourceFormat};

/// The mapping from rows of an adapter to rows of the model. The pairs of rope are halves of a head in one format; in the
/// other, they are neighbors, because the converter has reordered the rows of queries and keys.
pub(super) struct RowOrder<'a> {
    config: &'a ModelConfig,
    reordering: Reordering,
}

/// The reordering of the rows of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reordering {
    /// The rows keep their order.
    Unchanged,
    /// Halves become neighbors.
    ToAdjacent,
    /// Neighbors become halves.
    ToHalves,
}

/// The attention of a component, or of one of its parts.
fn attention(component: &Component) -> Option<&AttentionConfig> {
    component.downcast_ref().or_else(|| component.parts().into_iter().find_map(attention))
}

/// The attention of a layer.
fn of_layer(config: &ModelConfig, layer: usize) -> Option<&AttentionConfig> {
    let mut layers = config.layers.iter();
    layers.find(|found| found.index == layer)?.mixer.as_ref().and_then(attention)
}

impl<'a> RowOrder<'a> {
    pub(super) fn new(format: AdapterFormat, target: &FitTarget<'a>) -> Self {
        // Converters reorder all layers of a model in the same way, including those without rope.
        let reordering = match (format, target.format) {
            _ if !target.spec.rows_are_paired("attn_q") => Reordering::Unchanged,
            (AdapterFormat::Peft, SourceFormat::Gguf) => Reordering::ToAdjacent,
            (AdapterFormat::Gguf, SourceFormat::Hf) => Reordering::ToHalves,
            (AdapterFormat::Peft, SourceFormat::Hf) | (AdapterFormat::Gguf, SourceFormat::Gguf) => {
                Reordering::Unchanged
            }
        };
        Self { config: target.config, reordering }
    }

    /// The row of the adapter for each row of a site, both relative to the first row of the site; `None` if the order is the
    /// same. `part` is the index of the site in its stored weight.
    ///
    /// # Errors
    /// The rows are not whole heads.
    pub(super) fn of(
        &self,
        place: &LinearSite,
        part: usize,
        rows: usize,
    ) -> Result<Option<Vec<usize>>, String> {
        let queries = match (place.role.as_str(), part) {
            ("attn_q", _) | ("attn_qkv", 0) => true,
            ("attn_k", _) | ("attn_qkv", 1) => false,
            _ => return Ok(None),
        };
        let Some(attention) = place.layer.and_then(|layer| of_layer(self.config, layer)) else {
            return Ok(None);
        };
        let heads = if queries { attention.heads } else { attention.kv_heads };
        if self.reordering == Reordering::Unchanged {
            return Ok(None);
        }
        if heads == 0 || !rows.is_multiple_of(heads) {
            return Err(format!(
                "its {rows} rows cannot be divided into {heads} heads; was the adapter trained on another model?"
            ));
        }
        let dim = rows / heads;
        let rotated = attention.rope.as_ref().map_or(dim, |rope| rope.dims).min(dim);
        let half = rotated / 2;
        let from = |row: usize| {
            let (head, at) = (row / dim * dim, row % dim);
            match self.reordering {
                Reordering::ToAdjacent if at < rotated => head + at % 2 * half + at / 2,
                Reordering::ToHalves if at < rotated => head + at % half * 2 + at / half,
                _ => row,
            }
        };
        Ok(Some((0..rows).map(from).collect()))
    }

    /// The row of the module for each row of the model, if the module has queries, keys, values and gates of a delta net for
    /// each key head: all queries, all keys and all values, or all gates. `None` if `rows` does not fit the layer.
    pub(super) fn delta(&self, layer: Option<usize>, rows: usize, gate: bool) -> Option<Vec<usize>> {
        let mut layers = self.config.layers.iter();
        let found = layers.find(|found| Some(found.index) == layer)?.mixer.as_ref();
        delta_rows(found.and_then(|mixer| mixer.downcast_ref())?, rows, gate)
    }

    /// The numbers of heads and of key-value heads of the attention in a layer.
    pub(super) fn heads(&self, layer: Option<usize>) -> Option<[usize; 2]> {
        of_layer(self.config, layer?).map(|attention| [attention.heads, attention.kv_heads])
    }
}

/// See [`RowOrder::delta`].
fn delta_rows(net: &GatedDeltaNetConfig, rows: usize, gate: bool) -> Option<Vec<usize>> {
    let GatedDeltaNetConfig { heads, key_heads, key_dim, value_dim, .. } = *net;
    let own = heads.checked_div(key_heads)? * value_dim;
    let of_head = 2 * (key_dim + own);
    if rows != key_heads * of_head {
        return None;
    }
    let part = |start: usize, count: usize| {
        (0..key_heads).map(move |head| head * of_head + start).flat_map(move |first| first..first + count)
    };
    Some(match gate {
        true => part(2 * key_dim + own, own).collect(),
        false => part(0, key_dim).chain(part(key_dim, key_dim)).chain(part(2 * key_dim, own)).collect(),
    })
}
