//! [`identity()`]: which model results were made with.

use crate::checksum::{checksum, more};
use menagerie::pipeline::TextPipeline;
use serde_json::{Value, json};

/// Bytes of each tensor that are looked at.
const SAMPLE: usize = 256;

/// A model with the adapters and what else acts in it, as JSON: architecture, size, keys that were set, and a checksum of the
/// tensors' names, types and sizes and of the first bytes of each.
pub(crate) fn identity(pipeline: &TextPipeline) -> Value {
    let mut sum = checksum(pipeline.architecture().as_bytes());
    let mut bytes = 0;
    if let Some(resolved) = pipeline.resolved() {
        bytes = resolved.file.bytes();
        for (index, tensor) in resolved.tensors.entries().iter().enumerate() {
            sum = more(sum, format!("{} {} {:?};", tensor.name, tensor.kind, tensor.dims).as_bytes());
            let weight = resolved.tensors.weight(index).ok();
            let matrix = weight.as_ref().and_then(|weight| weight.matrix(0).ok());
            sum = matrix.map_or(sum, |data| more(sum, &data[..data.len().min(SAMPLE)]));
        }
    }
    let adapters = pipeline.engine().adapters.iter().flat_map(|set| set.adapters());
    let adapters: Vec<Value> =
        adapters.map(|(adapter, weight)| json!({ "name": adapter.name(), "weight": weight })).collect();
    json!({
        "architecture": pipeline.architecture(),
        "model_bytes": bytes,
        "tensors": format!("{sum:016x}"),
        "adapters": adapters,
        "hooks": pipeline.hooks().layers.effects(),
        "device": pipeline.compute().backend.name(),
        "kv_type": pipeline.kv_type().name(),
        "made_by": crate::version::short(),
    })
}
