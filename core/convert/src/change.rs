//! What is done to the numbers of a tensor on its way into a GGUF file.

use menagerie_assembly::Claim;
use menagerie_spec::config::AttentionConfig;
use menagerie_spec::kind::Component;
use menagerie_spec::{ArchSpec, ModelConfig};

/// A change of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Nothing.
    Stay,
    /// For each row the row of the folder that is put there.
    Rows(Vec<usize>),
    /// This is added to each number.
    Plus(f32),
}

/// What differs between the two forms of a spec, by what its resolved values say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Differences {
    /// Pairs that rotate together are neighbours in the file and halves of a head in the folder.
    pub(crate) pairs: bool,
    /// What the folder's norms add to their weights, less what the file's add.
    pub(crate) offset: f32,
}

/// The attention in a component, or in one of its parts.
fn attention(component: &Component) -> Option<&AttentionConfig> {
    component.downcast_ref().or_else(|| component.parts().into_iter().find_map(attention))
}

impl Change {
    /// What is done to a claimed tensor; `rows` of it.
    ///
    /// # Errors
    /// Rows that are no whole heads.
    pub(crate) fn of(
        claim: &Claim,
        (spec, config): (&ArchSpec, &ModelConfig),
        differences: Differences,
        rows: usize,
    ) -> Result<Self, String> {
        let role = claim.role.strip_suffix(".bias").unwrap_or(&claim.role);
        let is_norm = role.contains("norm") && role != "ssm_norm" && claim.role == role;
        if is_norm && differences.offset != 0.0 {
            return Ok(Self::Plus(differences.offset));
        }
        if !differences.pairs || !spec.rows_are_paired(role) {
            return Ok(Self::Stay);
        }
        let layer = config.layers.iter().find(|layer| Some(layer.index) == claim.layer);
        let Some(attention) = layer.and_then(|layer| layer.mixer.as_ref()).and_then(attention) else {
            return Ok(Self::Stay);
        };
        let heads = if role == "attn_q" { attention.heads } else { attention.kv_heads };
        if heads == 0 || !rows.is_multiple_of(heads) {
            return Err(format!("its {rows} rows are no whole rows of {heads} heads"));
        }
        // Converters reorder all layers of a model alike, those without rope too.
        let dim = rows / heads;
        let rotated = attention.rope.as_ref().map_or(dim, |rope| rope.dims).min(dim);
        Ok(Self::Rows((0..rows).map(|row| source_row(row, dim, rotated)).collect()))
    }

    /// The numbers as the file has them; `cols` of them in a row.
    pub(crate) fn apply(&self, values: Vec<f32>, cols: usize) -> Vec<f32> {
        match self {
            Self::Stay => values,
            Self::Plus(offset) => values.into_iter().map(|value| value + offset).collect(),
            Self::Rows(from) => {
                let row = |from: &usize| values.get(from * cols..(from + 1) * cols).unwrap_or_default();
                from.iter().flat_map(row).copied().collect()
            }
        }
    }
}

/// The row of the folder that is put at a row of the file: of a head of `dim` rows the first `rotated` are halves there and
/// neighbours here.
fn source_row(row: usize, dim: usize, rotated: usize) -> usize {
    let (head, at) = (row / dim * dim, row % dim);
    if at < rotated { head + at % 2 * (rotated / 2) + at / 2 } else { row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_where_llama_cpps_converter_puts_them() {
        // `w.reshape(heads, 2, dim / 2).swapaxes(1, 2).reshape(heads * dim)` of 0..12, two heads of six.
        let rows: Vec<usize> = (0..12).map(|row| source_row(row, 6, 6)).collect();
        assert_eq!(rows, [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]);
        assert_eq!((0..6).map(|row| source_row(row, 6, 4)).collect::<Vec<_>>(), [0, 2, 1, 3, 4, 5]);
    }

    #[test]
    fn changes_keep_rows_whole() {
        let values = vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(Change::Rows(vec![2, 0, 1]).apply(values.clone(), 2), [4.0, 5.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(Change::Plus(1.0).apply(values.clone(), 2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(Change::Stay.apply(values.clone(), 2), values);
    }
}
