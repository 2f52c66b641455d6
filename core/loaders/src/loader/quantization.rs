//! The name of a file's weight type.

use std::collections::BTreeMap;

use gguf_file::{FileType, GgufFile};

/// The name of `general.file_type`, or else the type with the most elements.
pub(super) fn label(file: &GgufFile) -> String {
    let stated = file.metadata().get("general.file_type").and_then(|value| value.as_u64());
    let stated = stated.and_then(|id| u32::try_from(id).ok()).map(FileType::from_id);
    if let Some(name) = stated.and_then(FileType::name) {
        return name.to_owned();
    }
    let mut weights: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in file.tensors() {
        let count = weights.entry(tensor.kind().name()).or_default();
        *count = count.saturating_add(tensor.elements());
    }
    let most = weights.into_iter().max_by_key(|(_, count)| *count);
    most.map_or_else(|| "no tensors".to_owned(), |(name, _)| name.to_owned())
}
