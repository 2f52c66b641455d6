//! [`Placing`]: which tensors of a file a tensor of the folder becomes.

use crate::change::{Change, Unit, dealt, paired};
use menagerie_assembly::Claim;
use menagerie_spec::config::{AttentionConfig, GatedDeltaNetConfig, LatentAttentionConfig, Mamba2Config};
use menagerie_spec::kind::{Component, Definition};
use menagerie_spec::{ArchSpec, ModelConfig};

/// What differs between the two forms of a spec, by what its resolved values say.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Differences {
    /// Pairs that rotate together are neighbors in the file and halves of a head in the folder.
    pub(crate) pairs: bool,
    /// What the folder's norms add to their weights, less what the file's add.
    pub(crate) offset: f32,
    /// Heads that share a key head follow each other in the folder and go round over the key heads in the file.
    pub(crate) sharing: bool,
}

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    /// Its role, with `.bias` for a bias.
    pub(crate) role: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) change: Change,
}

/// Where tensors go.
#[derive(Clone, Copy)]
pub(crate) struct Placing<'a> {
    pub(crate) spec: &'a ArchSpec,
    pub(crate) config: &'a ModelConfig,
    pub(crate) claims: &'a [Claim],
    pub(crate) differences: Differences,
}

/// A component of one kind in another one, or in one of its parts.
pub(crate) fn within<T: Definition>(component: &Component) -> Option<&T> {
    component.downcast_ref().or_else(|| component.parts().into_iter().find_map(within))
}

impl Placing<'_> {
    /// The tensors that a claimed one becomes.
    ///
    /// # Errors
    /// Rows that are no whole heads or parts.
    pub(crate) fn of(&self, claim: &Claim) -> Result<Vec<Placed>, String> {
        let role = claim.role.strip_suffix(".bias").unwrap_or(&claim.role);
        let bias = &claim.role[role.len()..];
        if self.spec.is_written_apart(role)
            && let Some(parts) = self.parts(claim, role)?
        {
            let whole = &claim.tensor.dims;
            let unit = if whole.len() < 2 { Unit::Number } else { Unit::Row };
            let placed = parts.into_iter().map(|part| Placed {
                role: format!("{}{bias}", part.role),
                dims: part.dims.unwrap_or_else(|| resized(whole, part.change.rows.as_deref())),
                change: Change { unit, ..part.change },
            });
            return Ok(placed.collect());
        }
        let change = self.change(claim, role)?;
        Ok(vec![Placed { role: claim.role.clone(), dims: self.dims(claim), change }])
    }

    fn mixer<T: Definition>(&self, claim: &Claim) -> Option<&T> {
        let layer = self.config.layers.iter().find(|layer| Some(layer.index) == claim.layer)?;
        within(layer.mixer.as_ref()?)
    }

    fn change(&self, claim: &Claim, role: &str) -> Result<Change, String> {
        let is_norm = role.contains("norm") && role != "ssm_norm" && claim.role == role;
        let offset = if is_norm { self.differences.offset } else { 0.0 };
        let mut change = Change { plus: offset, ..Change::default() };
        if is_norm || claim.tensor.dims.len() < 2 || matches!(role, "attn_q_norm" | "attn_k_norm") {
            change.unit = Unit::Number;
        }
        if self.differences.pairs {
            change.rows = self.turned_rows(claim, role)?;
        }
        if self.differences.sharing
            && let Some(mixer) = self.mixer(claim)
        {
            (change.rows, change.columns) = shared(mixer, role)?;
        }
        Ok(change)
    }

    /// The rows of heads whose pairs are neighbors in the file.
    fn turned_rows(&self, claim: &Claim, role: &str) -> Result<Option<Vec<usize>>, String> {
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
        // A norm over one head is one for all of them.
        let heads = if own != role && count == attention.key_dim { 1 } else { heads };
        if heads == 0 || !count.is_multiple_of(heads) {
            return Err(format!("its {count} rows are no whole rows of {heads} heads"));
        }
        // Converters reorder all layers of a model alike, those without rope too.
        let dim = count / heads;
        Ok(Some(paired(heads, dim, rotated(attention, dim))))
    }

    /// The rows of queries, keys and values in one matrix, those of the first two in the file's order.
    fn query_key_value(&self, attention: &AttentionConfig, claim: &Claim) -> Result<[Vec<usize>; 3], String> {
        let AttentionConfig { heads, kv_heads, key_dim, value_dim, .. } = *attention;
        let counts = [heads * key_dim, kv_heads * key_dim, kv_heads * value_dim];
        let rows = rows_of(claim);
        if counts.iter().sum::<usize>() != rows {
            return Err(format!("its {rows} rows are not {counts:?} of queries, keys and values"));
        }
        let turned = |heads: usize| match self.differences.pairs && self.spec.rows_are_paired("attn_q") {
            true => paired(heads, key_dim, rotated(attention, key_dim)),
            false => (0..heads * key_dim).collect(),
        };
        let after = |rows: Vec<usize>, start: usize| rows.into_iter().map(|row| row + start).collect();
        let values = (0..counts[2]).collect();
        Ok([turned(heads), after(turned(kv_heads), counts[0]), after(values, counts[0] + counts[1])])
    }

    /// The parts of a matrix that the file has apart; `None` where it is none of several.
    fn parts(&self, claim: &Claim, role: &str) -> Result<Option<Vec<Apart>>, String> {
        let dims = &claim.tensor.dims;
        match role {
            "attn_qkv" => {
                let Some(attention) = self.mixer::<AttentionConfig>(claim) else { return Ok(None) };
                let rows = self.query_key_value(attention, claim)?;
                let roles = ["attn_q", "attn_k", "attn_v"];
                Ok(Some(roles.into_iter().zip(rows).map(|(role, rows)| Apart::of(role, rows)).collect()))
            }
            "attn_kv_b" => match self.mixer::<LatentAttentionConfig>(claim) {
                Some(latent) => latent_parts(latent, rows_of(claim)).map(Some),
                None => Ok(None),
            },
            "ffn_gate_up_exps" => {
                let each = usize::try_from(dims.get(1).copied().unwrap_or(1)).unwrap_or(1);
                let halves = halves(rows_of(claim), each)?;
                let roles = ["ffn_gate_exps", "ffn_up_exps"];
                Ok(Some(roles.into_iter().zip(halves).map(|(role, rows)| Apart::of(role, rows)).collect()))
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
                    [gate, up].into_iter().zip(halves).map(|(role, rows)| Apart::of(role, rows)).collect(),
                ))
            }
            _ => Ok(None),
        }
    }

    /// The dimensions that files have: of some lists of numbers llama.cpp wants two.
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
struct Apart {
    role: &'static str,
    /// Where rows alone do not say them.
    dims: Option<Vec<u64>>,
    change: Change,
}

impl Apart {
    fn of(role: &'static str, rows: Vec<usize>) -> Self {
        Self { role, dims: None, change: Change::rows(rows) }
    }
}

/// How many numbers of a head rotate.
fn rotated(attention: &AttentionConfig, dim: usize) -> usize {
    attention.rope.as_ref().map_or(dim, |rope| rope.dims).min(dim)
}

/// Rows of all matrices of a tensor; each number is one in a list of numbers.
fn rows_of(claim: &Claim) -> usize {
    let dims = &claim.tensor.dims;
    let rows =
        if dims.len() < 2 { dims.first().copied().unwrap_or(1) } else { dims.iter().skip(1).product() };
    usize::try_from(rows).unwrap_or(usize::MAX)
}

fn numbers_of(claim: &Claim) -> usize {
    usize::try_from(claim.tensor.dims.iter().product::<u64>()).unwrap_or(usize::MAX)
}

/// The dimensions of a part that has some of the rows, in as many matrices.
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
        return Err(format!("its {rows} rows are no halves of {each}"));
    }
    let half = |second: bool| (0..rows).filter(|row| (row % each >= each / 2) == second).collect();
    Ok([half(false), half(true)])
}

/// Keys and values of each head out of the latent: those of keys are turned.
fn latent_parts(latent: &LatentAttentionConfig, rows: usize) -> Result<Vec<Apart>, String> {
    let LatentAttentionConfig { heads, key_dim, value_dim, latent_dim, rotated_dim, .. } = *latent;
    let plain = key_dim.saturating_sub(rotated_dim);
    let each = plain + value_dim;
    if each * heads != rows {
        return Err(format!("its {rows} rows are not {heads} heads of {plain} and {value_dim}"));
    }
    let of = |part: std::ops::Range<usize>| -> Vec<usize> {
        (0..heads).flat_map(|head| part.clone().map(move |row| head * each + row)).collect()
    };
    let dims = |dims: [usize; 3]| Some(dims.map(|dim| dim as u64).to_vec());
    let turned = Change { turned: Some(plain), ..Change::rows(of(0..plain)) };
    Ok(vec![
        Apart { role: "attn_k_b", dims: dims([plain, latent_dim, heads]), change: turned },
        Apart {
            role: "attn_v_b",
            dims: dims([latent_dim, value_dim, heads]),
            change: Change::rows(of(plain..each)),
        },
    ])
}

/// Rows, and columns.
type Order = (Option<Vec<usize>>, Option<Vec<usize>>);

/// The order of a delta net's heads in the file.
fn shared(mixer: &GatedDeltaNetConfig, role: &str) -> Result<Order, String> {
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
        "ssm_ba" => return Err("nothing says in which order a file has its heads".to_owned()),
        _ => (None, None),
    })
}
