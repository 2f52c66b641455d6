//! [`write`]: writes a random model from a spec and some keys.

use crate::blocks;
use crate::error::SynthError;
use crate::file_types::choose;
use crate::tensor_plan::{SynthTensor, plan};
use gguf_file::{GgmlType, GgufWriter, OwnedArray};
use menagerie_quantize::Policy;
use menagerie_random::SplitMix64;
use menagerie_spec::{ArchSpec, MetadataValue, ResolveInput, RoleSource, SourceFormat};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;

/// Blocks made at a time; a multiple of every block size in use.
const CHUNK_BLOCKS: u64 = 4096;

/// A random model to write.
pub struct Synthesis<'a> {
    /// The architecture.
    pub spec: &'a ArchSpec,
    /// Canonical keys, which include the sizes of the model.
    pub keys: BTreeMap<String, MetadataValue>,
    /// Whether the embedding is also the head.
    pub tied: bool,
    /// The types of the tensors: [`crate::policy`].
    pub policy: &'a Policy,
    /// Equal seeds give equal files.
    pub seed: u64,
}

/// The roles of the planned file, for specs that depend on them.
struct SynthRoles {
    mixture: bool,
    /// The blocks of heads for further tokens.
    nextn: Range<usize>,
}

impl RoleSource for SynthRoles {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        match role {
            "ffn_gate_inp" => self.mixture,
            "nextn.eh_proj" | "nextn.shared_head_norm" => {
                layer.is_some_and(|layer| self.nextn.contains(&layer))
            }
            _ => matches!(role, "attn_norm" | "ffn_norm" | "output_norm" | "token_embd"),
        }
    }
}

fn size(keys: &BTreeMap<String, MetadataValue>, key: &str) -> Option<u64> {
    match keys.get(key)? {
        MetadataValue::Integer(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}

/// Writes the model; `progress` is called with the bytes written and the total, and can cancel.
///
/// # Errors
/// Keys that do not match the spec, missing sizes, a file that cannot be written, or [`SynthError::Cancelled`]; no partial
/// file remains.
pub fn write(
    synthesis: &Synthesis<'_>,
    path: impl AsRef<Path>,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), SynthError> {
    let path = path.as_ref();
    let Synthesis { spec, keys, .. } = synthesis;
    let count = |key: &str| size(keys, key).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let heads = if spec.describes_nextn() { count("nextn_predict_layers") } else { 0 };
    let blocks = count("block_count");
    let roles = SynthRoles {
        mixture: size(keys, "expert_count").is_some_and(|count| count > 0),
        nextn: blocks.saturating_sub(heads)..blocks,
    };
    let architecture = spec.gguf_names.first().cloned().unwrap_or_else(|| spec.id().to_owned());
    let mut input =
        ResolveInput::new(SourceFormat::Gguf, path.display().to_string(), &*architecture, keys, &roles);
    input.nextn = heads > 0;
    let config = spec.resolve(&input)?;
    let tensors = plan(&config, synthesis.tied)?;
    let mut writer = metadata(synthesis, &architecture)?;
    let declared = choose(synthesis.policy, spec, keys, &tensors)?;
    for (tensor, (name, kind)) in tensors.iter().zip(&declared) {
        writer.declare(name, &tensor.dims, *kind)?;
    }
    let mut stream = writer.begin(path)?;
    let mut random = SplitMix64::new(synthesis.seed);
    let total: u64 = tensors.iter().zip(&declared).map(|(tensor, (_, kind))| bytes(tensor, *kind)).sum();
    let mut done = 0;
    for (tensor, (name, kind)) in tensors.iter().zip(&declared) {
        stream.tensor_chunks(name, chunks(tensor, *kind, &mut random))?;
        done += bytes(tensor, *kind);
        if progress(done, total).is_break() {
            return Err(SynthError::Cancelled);
        }
    }
    stream.commit()?;
    Ok(())
}

/// Metadata as a converter would write it, without a tokenizer (`no_vocab`).
fn metadata(synthesis: &Synthesis<'_>, architecture: &str) -> Result<GgufWriter, SynthError> {
    let mut writer = GgufWriter::new();
    writer.metadata("general.architecture", architecture)?;
    let file_type = synthesis.policy.file_type();
    let label = file_type.name().unwrap_or_default();
    writer.metadata("general.name", format!("random {} {label}", synthesis.spec.id()))?;
    writer.metadata("general.file_type", file_type.id())?;
    for (key, value) in &synthesis.keys {
        let key = format!("{architecture}.{key}");
        match value {
            MetadataValue::Integer(value) => match u32::try_from(*value) {
                Ok(value) => writer.metadata(&key, value)?,
                Err(_) => writer.metadata(&key, *value)?,
            },
            MetadataValue::Number(value) => writer.metadata(&key, *value as f32)?,
            MetadataValue::Bool(value) => writer.metadata(&key, *value)?,
            MetadataValue::Text(value) => writer.metadata(&key, value.as_str())?,
            MetadataValue::List(values) => writer.metadata(&key, list(&key, values)?)?,
        };
    }
    writer.metadata("tokenizer.ggml.model", "no_vocab")?;
    Ok(writer)
}

/// A list of integers, numbers or booleans, one per layer.
fn list(key: &str, values: &[MetadataValue]) -> Result<OwnedArray, SynthError> {
    let whole = |value: &MetadataValue| match value {
        MetadataValue::Integer(value) => i32::try_from(*value).ok(),
        _ => None,
    };
    let boolean = |value: &MetadataValue| match value {
        MetadataValue::Bool(value) => Some(*value),
        _ => None,
    };
    let number = |value: &MetadataValue| match value {
        MetadataValue::Integer(value) => Some(*value as f32),
        MetadataValue::Number(value) => Some(*value as f32),
        _ => None,
    };
    let all = |values: &[MetadataValue]| values.iter().map(whole).collect::<Option<_>>().map(OwnedArray::I32);
    all(values)
        .or_else(|| values.iter().map(boolean).collect::<Option<_>>().map(OwnedArray::Bool))
        .or_else(|| values.iter().map(number).collect::<Option<_>>().map(OwnedArray::F32))
        .ok_or_else(|| {
            SynthError::Unsupported(format!("{key}: expected a list of only numbers or only booleans"))
        })
}

fn bytes(tensor: &SynthTensor, kind: GgmlType) -> u64 {
    let rows: u64 = tensor.dims[1..].iter().product();
    kind.row_bytes(tensor.dims[0]).unwrap_or(0) * rows
}

/// The tensor's bytes, a chunk at a time.
fn chunks(tensor: &SynthTensor, kind: GgmlType, random: &mut SplitMix64) -> impl Iterator<Item = Vec<u8>> {
    let block = kind.block_bytes().unwrap_or(1) as u64;
    let spread = match tensor.dims.len() {
        1 => 0.05,
        _ => 1.0 / (tensor.dims[0] as f32).sqrt(),
    };
    let center = tensor.center;
    let mut left = bytes(tensor, kind);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let now = left.min(block * CHUNK_BLOCKS);
        left -= now;
        let mut chunk = vec![0; now as usize];
        blocks::fill(kind, random, spread, center, &mut chunk);
        Some(chunk)
    })
}
