//! Metadata by canonical keys: the keys without the architecture's prefix.

use std::sync::Arc;

use gguf_file::{GgufFile, Value};

/// A view of a file's metadata in which `qwen3.attention.head_count` is `attention.head_count`; keys without the
/// architecture's prefix are unchanged (`general.name`, `tokenizer.ggml.model`).
#[derive(Debug, Clone)]
pub struct CanonicalKeys {
    file: Arc<GgufFile>,
    prefix: String,
}

impl CanonicalKeys {
    pub(super) fn new(file: Arc<GgufFile>, architecture: &str) -> Self {
        Self { file, prefix: format!("{architecture}.") }
    }

    /// The value of a canonical key; the architecture's own keys take precedence over others with the same name.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        let metadata = self.file.metadata();
        metadata.get(&format!("{}{key}", self.prefix)).or_else(|| {
            // A key with the prefix is found only by its short name.
            (!key.starts_with(&self.prefix)).then(|| metadata.get(key)).flatten()
        })
    }

    /// All canonical keys in file order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.file.metadata().keys().map(|key| self.canonical(key))
    }

    /// Canonical keys and values in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.file.metadata().iter().map(|(key, value)| (self.canonical(key), value))
    }

    /// The keys under the architecture's prefix, without it.
    pub fn own_keys(&self) -> impl Iterator<Item = &str> {
        self.file.metadata().keys().filter_map(|key| key.strip_prefix(&self.prefix))
    }

    /// The key as the file spells it, for messages.
    pub fn file_key(&self, key: &str) -> String {
        let own = format!("{}{key}", self.prefix);
        if self.file.metadata().contains(&own) || !self.file.metadata().contains(key) {
            own
        } else {
            key.to_owned()
        }
    }

    /// The file.
    pub fn file(&self) -> &Arc<GgufFile> {
        &self.file
    }

    fn canonical<'k>(&self, key: &'k str) -> &'k str {
        key.strip_prefix(&self.prefix).unwrap_or(key)
    }
}
