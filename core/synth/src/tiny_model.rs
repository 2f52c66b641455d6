//! [`tiny_keys`]: the keys of a tiny model from a spec alone, to write and run it in a moment.

use menagerie_spec::{ArchSpec, MetadataValue, glob_matches};
use std::collections::BTreeMap;

/// Values of keys in a tiny model; the first matching glob applies. Windows, contexts and ranks are so small that a
/// few dozen tokens exceed them.
const SIZES: [(&str, MetadataValue); 33] = [
    ("block_count", MetadataValue::Integer(4)),
    ("embedding_length", MetadataValue::Integer(64)),
    ("attention.head_count", MetadataValue::Integer(4)),
    ("attention.head_count_kv", MetadataValue::Integer(2)),
    ("attention.kv_lora_rank", MetadataValue::Integer(32)),
    ("attention.key_length_mla", MetadataValue::Integer(24)),
    ("attention.value_length_mla", MetadataValue::Integer(16)),
    ("attention.key_length", MetadataValue::Integer(16)),
    ("attention.value_length", MetadataValue::Integer(16)),
    ("context_length", MetadataValue::Integer(128)),
    ("vocab_size", MetadataValue::Integer(160)),
    ("feed_forward_length", MetadataValue::Integer(96)),
    ("expert_count", MetadataValue::Integer(4)),
    ("expert_used_count", MetadataValue::Integer(2)),
    ("expert_shared_count", MetadataValue::Integer(1)),
    ("expert_group_count", MetadataValue::Integer(1)),
    ("expert_group_used_count", MetadataValue::Integer(1)),
    ("leading_dense_block_count", MetadataValue::Integer(0)),
    ("nextn_predict_layers", MetadataValue::Integer(0)),
    ("token_type_count", MetadataValue::Integer(2)),
    ("*feed_forward_length", MetadataValue::Integer(32)),
    ("rope.dimension_count", MetadataValue::Integer(8)),
    ("*freq_base*", MetadataValue::Number(10000.0)),
    ("*epsilon", MetadataValue::Number(1e-5)),
    ("*sliding_window", MetadataValue::Integer(16)),
    ("*conv_kernel", MetadataValue::Integer(4)),
    ("*l_cache", MetadataValue::Integer(3)),
    ("*inner_size", MetadataValue::Integer(128)),
    ("*state_size", MetadataValue::Integer(16)),
    ("*lora_rank", MetadataValue::Integer(16)),
    ("*head*size", MetadataValue::Integer(16)),
    ("*count", MetadataValue::Integer(2)),
    ("*length*", MetadataValue::Integer(32)),
];

/// Keys that every model has, and those of experts.
const ALWAYS: [&str; 7] = [
    "block_count",
    "embedding_length",
    "attention.head_count",
    "attention.head_count_kv",
    "context_length",
    "vocab_size",
    "feed_forward_length",
];

/// The value of a key in a tiny model; 1 if nothing better is known.
pub fn tiny_value(key: &str) -> MetadataValue {
    let known = SIZES.iter().find(|(glob, _)| glob_matches(glob, key));
    known.map_or(MetadataValue::Number(1.0), |(_, value)| value.clone())
}

/// The keys that a tiny model of a spec needs according to its text. Keys in `given` have these values.
pub fn tiny_keys(
    spec: &ArchSpec,
    given: &BTreeMap<String, MetadataValue>,
) -> BTreeMap<String, MetadataValue> {
    let mut needed: Vec<&str> = ALWAYS.to_vec();
    // These have a computed default.
    const COMPUTED: [&str; 4] =
        ["attention.key_length", "attention.value_length", "rope.dimension_count", "rope.scaling.type"];
    needed.extend(spec.needed_keys().filter(|key| !COMPUTED.contains(key)));
    if needed.contains(&"expert_used_count") {
        needed.extend(["expert_count", "expert_feed_forward_length"]);
    }
    let mut keys: BTreeMap<String, MetadataValue> =
        needed.into_iter().map(|key| (key.to_owned(), tiny_value(key))).collect();
    keys.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
    keys
}
