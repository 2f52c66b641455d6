//! [`RowOrder`]: where rows of queries and keys lie elsewhere in another format.

use super::FitTarget;
use crate::file::AdapterFormat;
use menagerie_model::LinearSite;
use menagerie_spec::config::{AttentionConfig, GatedDeltaNetConfig};
use menagerie_spec::kind::Component;
use menagerie_spec::{ModelConfig, SourceFormat};

/// How rows of an adapter become rows of the model: rope's pairs are halves of a head in one format and neighbors in
/// the other, where the converter has put the rows of queries and keys together.
pub(super) struct RowOrder<'a> {
    config: &'a ModelConfig,
    change: Change,
}

/// What is done to the rows of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Nothing.
    Stay,
    /// Halves become neighbors.
    ToAdjacent,
    /// Neighbors become halves.
    ToHalves,
}

/// The attention in a component, or in one of its parts.
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
        // Converters reorder all layers of a model alike, those without rope too.
        let change = match (format, target.format) {
            _ if !target.spec.rows_are_paired("attn_q") => Change::Stay,
            (AdapterFormat::Peft, SourceFormat::Gguf) => Change::ToAdjacent,
            (AdapterFormat::Gguf, SourceFormat::Hf) => Change::ToHalves,
            (AdapterFormat::Peft, SourceFormat::Hf) | (AdapterFormat::Gguf, SourceFormat::Gguf) => {
                Change::Stay
            }
        };
        Self { config: target.config, change }
    }

    /// For each row of a site the row of the adapter that belongs there, both counted from the site's first; none where
    /// all stay. `part` counts the sites of one stored weight.
    ///
    /// # Errors
    /// Why the order is not known.
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
        if self.change == Change::Stay {
            return Ok(None);
        }
        if heads == 0 || !rows.is_multiple_of(heads) {
            return Err(format!("its {rows} rows are no whole rows of {heads} heads"));
        }
        let dim = rows / heads;
        let rotated = attention.rope.as_ref().map_or(dim, |rope| rope.dims).min(dim);
        let half = rotated / 2;
        let from = |row: usize| {
            let (head, at) = (row / dim * dim, row % dim);
            match self.change {
                Change::ToAdjacent if at < rotated => head + at % 2 * half + at / 2,
                Change::ToHalves if at < rotated => head + at % half * 2 + at / half,
                _ => row,
            }
        };
        Ok(Some((0..rows).map(from).collect()))
    }

    /// The module's row of each row of the model, where a module holds queries, keys, values and gates of a delta net by key
    /// head: all queries, all keys and all values, or all gates. None where `rows` are not those of the layer.
    pub(super) fn delta(&self, layer: Option<usize>, rows: usize, gate: bool) -> Option<Vec<usize>> {
        let mut layers = self.config.layers.iter();
        let found = layers.find(|found| Some(found.index) == layer)?.mixer.as_ref();
        delta_rows(found.and_then(|mixer| mixer.downcast_ref())?, rows, gate)
    }

    /// Heads, and key and value heads, of the attention of a layer.
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
