//! [`Evidence`]: what is known about a model without a spec.

use menagerie_spec::{ArchSpec, KeySource, MetadataValue, RoleSource};
use std::collections::BTreeMap;

/// The keys and tensors of a model.
pub struct Evidence {
    /// The file, for messages.
    pub file: String,
    /// The architecture that it states.
    pub architecture: String,
    keys: BTreeMap<String, MetadataValue>,
    /// Names and dims, the contiguous one first.
    tensors: BTreeMap<String, Vec<u64>>,
}

impl Evidence {
    /// The canonical keys of a model, and the names and dimensions of its tensors.
    pub fn new(
        file: String,
        architecture: String,
        keys: &dyn KeySource,
        tensors: impl IntoIterator<Item = (String, Vec<u64>)>,
    ) -> Self {
        let value = |key: String| keys.get(&key).map(|value| (key, value));
        let keys = keys.keys().into_iter().filter_map(value).collect();
        Self { file, architecture, keys, tensors: tensors.into_iter().collect() }
    }

    /// The canonical keys and their values.
    pub(crate) fn keys(&self) -> &BTreeMap<String, MetadataValue> {
        &self.keys
    }

    /// The names and dimensions of tensors.
    pub(crate) fn tensors(&self) -> &BTreeMap<String, Vec<u64>> {
        &self.tensors
    }

    /// The name of a role's tensor by a spec, if the file has it. A role with a suffix is exactly that tensor.
    pub(crate) fn stored(&self, spec: &ArchSpec, role: &str, layer: Option<usize>) -> Option<&str> {
        let name = spec.role_to_gguf_name(role, layer);
        let bare = name.strip_suffix(".weight").unwrap_or(&name);
        let names = [name.as_str(), &format!("{name}.weight"), bare];
        let found = names.iter().find_map(|name| self.tensors.get_key_value(*name));
        found.map(|(name, _)| name.as_str())
    }
}

/// The roles of the file according to a spec.
pub(crate) struct EvidenceRoles<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) spec: &'a ArchSpec,
}

impl RoleSource for EvidenceRoles<'_> {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        self.evidence.stored(self.spec, role, layer).is_some()
    }
}

/// `blk.7.attn_q.weight` as `blk.N.attn_q.weight`, which all layers share.
pub(crate) fn without_layer(name: &str) -> String {
    let block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match block.filter(|(layer, _)| layer.chars().all(|c| c.is_ascii_digit())) {
        Some((_, role)) => format!("blk.N.{role}"),
        None => name.to_owned(),
    }
}
