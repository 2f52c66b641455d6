//! [`TensorPlacement`]: the tensors of the file that a tensor of the folder becomes.

use crate::tensor_conversion::{RowUnit, TensorConversion, dealt, paired};
use menagerie_assembly::Claim;
use menagerie_spec::config::{AttentionConfig, GatedDeltaNetConfig, LatentAttentionConfig, Mamba2Config};
use menagerie_spec::kind::{Component, Definition};
use menagerie_spec::{ArchSpec, ModelConfig};

/// The differences between folder and file, according to the resolved values of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Differences {
    /// Rotated pairs are interleaved in the file, and in two halves of a head in the folder.
    pub(crate) pairs: bool,
    /// The offset of norm weights in the folder minus that in the file.
    pub(crate) offset: f32,
    /// Heads are grouped by key head in the folder, and interleaved over the key heads in the file.
    pub(crate) sharing: bool,
}

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacedTensor {
    /// Its role, with `.bias` for a bias.
    pub(crate) role: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) change: TensorConversion,
}

/// The mapping from tensors of the folder to tensors of the file.
#[derive(Clone, Copy)]
pub(crate) struct TensorPlacement<'a> {
    pub(crate) spec: &'a ArchSpec,
    pub(crate) config: &'a ModelConfig,
    pub(crate) claims: &'a [Claim],
    pub(crate) differences: Differences,
}

/// The config of a kind in a component or its parts.
pub(crate) fn within<T: Definition>(component: &Component) -> Option<&T> {
    component.downcast_ref().or_else(|| component.parts().into_iter().find_map(within))
}

impl TensorPlacement<'_> {
    /// The tensors that a claimed tensor becomes.
    ///
    /// # Errors
    /// The rows are not whole heads or parts.
    pub(crate) fn of(&self, claim: &Claim) -> Result<Vec<PlacedTensor>, String> {
        let role = claim.role.strip_suffix(".bias").unwrap_or(&claim.role);
        let bias = &claim.role[role.len()..];
        if self.spec.is_written_apart(role)
            && let Some(parts) = self.parts(claim, role)?
        {
            let whole = &claim.tensor.dims;
            let unit = if whole.len() < 2 { RowUnit::Number } else { RowUnit::Row };
            let placed = parts.into_iter().map(|part| PlacedTensor {
                role: format!("{}{bias}", part.role),
                dims: part.dims.unwrap_or_else(|| resized(whole, part.change.rows.as_deref())),
                change: TensorConversion { unit, ..part.change },
            });
            return Ok(placed.collect());
        }
        let change = self.change(claim, role)?;
        Ok(vec![PlacedTensor { role: claim.role.clone(), dims: self.dims(claim), change }])
    }

    fn mixer<T: Definition>(&self, claim: &Claim) -> Option<&T> {
        let layers = self.config.layers.iter().chain(self.config.nextn.iter().map(|nextn| &nextn.block));
        let layer = layers.into_iter().find(|layer| Some(layer.index) == claim.layer)?;
        within(layer.mixer.as_ref()?)
    }

    fn change(&self, claim: &Claim, role: &str) -> Result<TensorConversion, String> {
        let is_norm = role.contains("norm") && role != "ssm_norm" && claim.role == role;
        let offset = if is_norm { self.differences.offset } else { 0.0 };
        let mut change = TensorConversion { plus: offset, ..TensorConversion::default() };
        if is_norm || claim.tensor.dims.len() < 2 || matches!(role, "attn_q_norm" | "attn_k_norm") {
            change.unit = RowUnit::Number;
        }
        if self.differences.pairs {
            change.rows = self.paired_rows(claim, role)?;
        }
        if self.differences.sharing
            && let Some(mixer) = self.mixer(claim)
        {
            (change.rows, change.columns) = shared(mixer, role)?;
        }
        Ok(change)
    }

    /// The rows of heads whose pairs are interleaved in the file.
    fn paired_rows(&self, claim: &Claim, role: &str) -> Result<Option<Vec<usize>>, String> {
        let Some(attention) = self.mixer::<AttentionConfig>(claim) else { return Ok(None) };
        let own = match role {
            "attn_q_norm" => "attn_q",
            "attn_k_norm" => "attn_k",
            role => role,
        };
        if own == "attn_qkv" && self.spec.rows_are_paired("attn_q") {
            let [query, key, value] = self.query_key_value(attention, claim)?;
            return Ok(Some([query, key, value].concat()));
        }
        if !self.spec.rows_are_paired(own) {
            return Ok(None);
        }
        let heads = if own == "attn_q" { attention.heads } else { attention.kv_heads };
        let count = if own == role { rows_of(claim) } else { numbers_of(claim) };
        // Heads share a norm over one head.
        let heads = if own != role && count == attention.key_dim { 1 } else { heads };
        if heads == 0 || !count.is_multiple_of(heads) {
            return Err(format!("expected rows for {heads} heads of equal size, found {count}"));
        }
        // llama.cpp's converter reorders all layers of a model, including those without rope.
        let dim = count / heads;
        Ok(Some(paired(heads, dim, rotated(attention, dim))))
    }

    /// The rows of queries, keys and values in one matrix, with queries and keys in the order of the file.
    fn query_key_value(&self, attention: &AttentionConfig, claim: &Claim) -> Result<[Vec<usize>; 3], String> {
        let AttentionConfig { heads, kv_heads, key_dim, value_dim, .. } = *attention;
        let counts = [heads * key_dim, kv_heads * key_dim, kv_heads * value_dim];
        let rows = rows_of(claim);
        if counts.iter().sum::<usize>() != rows {
            return Err(format!("expected {counts:?} rows of queries, keys and values, found {rows} rows"));
        }
        let reordered = |heads: usize| match self.differences.pairs && self.spec.rows_are_paired("attn_q") {
            true => paired(heads, key_dim, rotated(attention, key_dim)),
            false => (0..heads * key_dim).collect(),
        };
        let after = |rows: Vec<usize>, start: usize| rows.into_iter().map(|row| row + start).collect();
        let values = (0..counts[2]).collect();
        Ok([reordered(heads), after(reordered(kv_heads), counts[0]), after(values, counts[0] + counts[1])])
    }

    /// The parts of a matrix that the file stores separately, or `None` if it stores the whole matrix.
    fn parts(&self, claim: &Claim, role: &str) -> Result<Option<Vec<MatrixPart>>, String> {
        let dims = &claim.tensor.dims;
        match role {
            "attn_qkv" => {
                let Some(attention) = self.mixer::<AttentionConfig>(claim) else { return Ok(None) };
                let rows = self.query_key_value(attention, claim)?;
                let roles = ["attn_q", "attn_k", "attn_v"];
                Ok(Some(roles.into_iter().zip(rows).map(|(role, rows)| MatrixPart::of(role, rows)).collect()))
            }
            "attn_kv_b" => match self.mixer::<LatentAttentionConfig>(claim) {
                Some(latent) => latent_parts(latent, rows_of(claim)).map(Some),
                None => Ok(None),
            },
            "ffn_gate_up_exps" => {
                let each = usize::try_from(dims.get(1).copied().unwrap_or(1)).unwrap_or(1);
                let halves = halves(rows_of(claim), each)?;
                let roles = ["ffn_gate_exps", "ffn_up_exps"];
                Ok(Some(
                    roles.into_iter().zip(halves).map(|(role, rows)| MatrixPart::of(role, rows)).collect(),
                ))
            }
            "ffn_up" | "ffn_up_shexp" => {
                let (gate, up, down) = match role {
                    "ffn_up" => ("ffn_gate", "ffn_up", "ffn_down"),
                    _ => ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"),
                };
                let down = |other: &&Claim| other.layer == claim.layer && other.role == down;
                let width = self.claims.iter().find(down).and_then(|down| down.tensor.dims.first());
                let rows = rows_of(claim);
                if width.is_none_or(|width| 2 * width != rows as u64) {
                    return Ok(None);
                }
                let halves = halves(rows, rows)?;
                Ok(Some(
                    [gate, up]
                        .into_iter()
                        .zip(halves)
                        .map(|(role, rows)| MatrixPart::of(role, rows))
                        .collect(),
                ))
            }
            _ => Ok(None),
        }
    }

    /// The dimensions in the file; llama.cpp expects two for some vectors.
    fn dims(&self, claim: &Claim) -> Vec<u64> {
        let dims = &claim.tensor.dims;
        let (Some(mixer), [count]) = (self.mixer::<Mamba2Config>(claim), dims.as_slice()) else {
            return dims.clone();
        };
        match claim.role.as_str() {
            "ssm_a" | "ssm_d" => vec![1, *count],
            "ssm_norm" if mixer.groups > 0 => vec![count / mixer.groups as u64, mixer.groups as u64],
            _ => dims.clone(),
        }
    }
}

/// A part of a matrix.
struct MatrixPart {
    role: &'static str,
    /// Dimensions, if they do not follow from the rows.
    dims: Option<Vec<u64>>,
    change: TensorConversion,
}

impl MatrixPart {
    fn of(role: &'static str, rows: Vec<usize>) -> Self {
        Self { role, dims: None, change: TensorConversion::rows(rows) }
    }
}

/// The number of rotated elements of a head.
fn rotated(attention: &AttentionConfig, dim: usize) -> usize {
    attention.rope.as_ref().map_or(dim, |rope| rope.dims).min(dim)
}

/// The number of rows in all matrices of a tensor, or of elements in a vector.
fn rows_of(claim: &Claim) -> usize {
    let dims = &claim.tensor.dims;
    let rows =
        if dims.len() < 2 { dims.first().copied().unwrap_or(1) } else { dims.iter().skip(1).product() };
    usize::try_from(rows).unwrap_or(usize::MAX)
}

fn numbers_of(claim: &Claim) -> usize {
    usize::try_from(claim.tensor.dims.iter().product::<u64>()).unwrap_or(usize::MAX)
}

/// The dimensions of a part with some of the rows of each matrix.
fn resized(dims: &[u64], rows: Option<&[usize]>) -> Vec<u64> {
    let Some(rows) = rows else { return dims.to_vec() };
    let count: u64 = dims.iter().skip(2).product();
    let mut dims = dims.to_vec();
    let at = usize::from(dims.len() > 1);
    if let Some(dim) = dims.get_mut(at) {
        *dim = rows.len() as u64 / count.max(1);
    }
    dims
}

/// The first and the second half of every `each` rows.
fn halves(rows: usize, each: usize) -> Result<[Vec<usize>; 2], String> {
    if each < 2 || !each.is_multiple_of(2) || !rows.is_multiple_of(each) {
        return Err(format!("expected two halves in every {each} rows, found {rows} rows"));
    }
    let half = |second: bool| (0..rows).filter(|row| (row % each >= each / 2) == second).collect();
    Ok([half(false), half(true)])
}

/// The matrices for keys and values of each head; those for keys are transposed.
fn latent_parts(latent: &LatentAttentionConfig, rows: usize) -> Result<Vec<MatrixPart>, String> {
    let LatentAttentionConfig { heads, key_dim, value_dim, latent_dim, rotated_dim, .. } = *latent;
    let plain = key_dim.saturating_sub(rotated_dim);
    let each = plain + value_dim;
    if each * heads != rows {
        return Err(format!("expected rows for {heads} heads of {plain} + {value_dim}, found {rows} rows"));
    }
    let of = |part: std::ops::Range<usize>| -> Vec<usize> {
        (0..heads).flat_map(|head| part.clone().map(move |row| head * each + row)).collect()
    };
    let dims = |dims: [usize; 3]| Some(dims.map(|dim| dim as u64).to_vec());
    let transposed = TensorConversion { transposed: Some(plain), ..TensorConversion::rows(of(0..plain)) };
    Ok(vec![
        MatrixPart { role: "attn_k_b", dims: dims([plain, latent_dim, heads]), change: transposed },
        MatrixPart {
            role: "attn_v_b",
            dims: dims([latent_dim, value_dim, heads]),
            change: TensorConversion::rows(of(plain..each)),
        },
    ])
}

/// The order of rows, and of columns.
type HeadOrder = (Option<Vec<usize>>, Option<Vec<usize>>);

/// The order of the heads of a gated delta net in the file.
fn shared(mixer: &GatedDeltaNetConfig, role: &str) -> Result<HeadOrder, String> {
    let GatedDeltaNetConfig { heads, key_heads, key_dim, value_dim, .. } = *mixer;
    let values = dealt(heads, key_heads, value_dim);
    let keys = 2 * key_heads * key_dim;
    Ok(match role {
        "attn_qkv" | "ssm_conv1d" => {
            (Some((0..keys).chain(values.into_iter().map(|row| keys + row)).collect()), None)
        }
        "attn_gate" => (Some(values), None),
        "ssm_out" => (None, Some(values)),
        "ssm_beta" | "ssm_alpha" | "ssm_dt" | "ssm_a" => (Some(dealt(heads, key_heads, 1)), None),
        "ssm_ba" => return Err("the order of its heads in a GGUF file is unknown".to_owned()),
        _ => (None, None),
    })
}
