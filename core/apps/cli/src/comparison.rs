//! Logits of a model against those of a reference file.

use crate::failure::Failure;
use menagerie::pipeline::{LogitsOptions, TextPipeline};
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// One comparison with a reference.
#[derive(serde::Serialize)]
pub(crate) struct Compared {
    /// Name of the logits in the reference.
    pub(crate) name: String,
    /// Rows compared.
    pub(crate) tokens: usize,
    /// Largest absolute difference of a logit.
    pub(crate) difference: f32,
    /// Whether it is within the tolerance.
    pub(crate) passed: bool,
}

/// Every pair of tokens and logits in `file`, computed and compared.
pub(crate) fn with_reference(
    pipeline: &TextPipeline,
    file: &Path,
    tolerance: f32,
) -> Result<Vec<Compared>, Failure> {
    let about = |reason: String| Failure::about(file.display(), reason);
    let bytes = std::fs::read(file).map_err(|error| about(error.to_string()))?;
    let reference = SafeTensors::deserialize(&bytes).map_err(|error| about(error.to_string()))?;
    let mut compared = Vec::new();
    for (name, view) in reference.tensors() {
        let Some(suffix) = name.strip_prefix("logits") else { continue };
        // Only whole sequences: one row of logits per token, from the first one on.
        let Ok(tokens) = reference.tensor(&format!("tokens{suffix}")) else { continue };
        let whole = view.shape().first() == tokens.shape().first() && !suffix.ends_with("_greedy");
        if !whole || view.dtype() != Dtype::F32 || tokens.dtype() != Dtype::I64 {
            continue;
        }
        let ids = ids(tokens.data()).map_err(|reason| about(format!("tokens{suffix}: {reason}")))?;
        let options = LogitsOptions { chunk: None, decode_from: None };
        let ours = pipeline.logits(&ids, &options)?;
        let difference = difference(&ours.values, view.data());
        let passed = difference <= tolerance;
        compared.push(Compared { name: name.clone(), tokens: ids.len(), difference, passed });
    }
    if compared.is_empty() {
        return Err(about("no pair of tokens and logits of the same length is in it".to_owned()));
    }
    compared.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(compared)
}

fn ids(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let id = |bytes: &[u8; 8]| {
        let id = i64::from_le_bytes(*bytes);
        u32::try_from(id).map_err(|_| format!("{id} is not a token id"))
    };
    bytes.as_chunks::<8>().0.iter().map(id).collect()
}

/// Largest absolute difference; infinite where the sizes differ or something is not a number.
fn difference(ours: &[f32], theirs: &[u8]) -> f32 {
    if theirs.len() != 4 * ours.len() {
        return f32::INFINITY;
    }
    let theirs = theirs.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let pairs = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    pairs.fold(0.0, |worst, d| if d.is_nan() { f32::INFINITY } else { worst.max(d) })
}
