//! Which canonical keys a spec reads: decided from its text, not from a run, so that the verdict does not depend on the
//! file.

use crate::expression::Expression;
use crate::names::MixerKind;
use crate::tree::Place;
use crate::written::{Body, Mixer, Rope};
use std::collections::BTreeSet;

/// Keys the core reads for every architecture; no spec repeats them (spec language, section 3.1).
pub(crate) const STANDARD: [&str; 19] = [
    "block_count",
    "embedding_length",
    "attention.head_count",
    "context_length",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "expert_used_count",
    "rope.scaling.finetuned",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scale_linear",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_count",
    "expert_shared_count",
    "vocab_size",
];

/// Standard keys that only hint at sizes: shapes win.
pub(crate) const HINTS: [&str; 6] = [
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_count",
    "expert_shared_count",
    "vocab_size",
];

/// The keys a spec reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    keys: BTreeSet<String>,
}

impl Reads {
    /// Whether a key is read.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// All of them, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }
}

/// Collects the keys of every expression, of the defaults of the components used, and the standard list.
pub(crate) fn collect(body: &Body, expressions: &[(Place, String, Expression)]) -> Reads {
    let mut keys: BTreeSet<String> = STANDARD.iter().map(|key| key.to_string()).collect();
    let lets: BTreeSet<&str> = body.lets.iter().map(|named| named.name.as_str()).collect();
    for (_, _, expression) in expressions {
        keys.extend(expression.mentions().filter(|name| !lets.contains(name)).map(str::to_string));
    }
    let mut add = |more: &[&str]| keys.extend(more.iter().map(|key| key.to_string()));
    for case in &body.mixer.cases {
        match &case.component {
            Mixer::Attention(attention) => {
                for rope in attention.rope.iter().flat_map(|ropes| &ropes.cases) {
                    rope_keys(&rope.component, &mut add);
                }
            }
            Mixer::NotBuiltIn { kind, .. } => add(MixerKind::keys(kind)),
            Mixer::None => {}
        }
    }
    Reads { keys }
}

fn rope_keys(rope: &Rope, add: &mut dyn FnMut(&[&str])) {
    use crate::names::ScalingKind;
    let Some(scaling) = &rope.scaling else { return };
    for kind in &scaling.accept {
        add(kind.keys());
        let own_magnitude = match kind {
            ScalingKind::Yarn => scaling.yarn_magnitude.is_some(),
            ScalingKind::LongRope => scaling.longrope_magnitude.is_some(),
            _ => true,
        };
        if !own_magnitude {
            add(&["rope.scaling.attn_factor"]);
        }
    }
}
