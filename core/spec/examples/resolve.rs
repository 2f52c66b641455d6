//! What a spec makes of a model: every value of a layer, with where it came from.
//!
//! `cargo run -p menagerie-spec --example resolve`

use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, MetadataValue, NoLookup, ResolveInput, RoleSource, SourceFormat, SpecSource};
use std::collections::BTreeMap;

const SPEC: &str = r#"
schema = 1
[architecture]
id = "tiny"
[norm]
kind = "rms"
eps = 1e-5
[block]
mixer = { pre = "attn_norm" }
feed_forward = { pre = "ffn_norm" }
[mixer]
kind = "attention"
rope = { kind = "rotary", pairs = "halves", base = "rope.freq_base | default(10000)" }
[feed_forward]
kind = "gated"
activation = "silu"
[output]
norm = "output_norm"
head = "own-or-tied"
"#;

/// A file that has every tensor that is asked for, but none that scales the rope.
struct Everything;

impl RoleSource for Everything {
    fn has(&self, role: &str, _layer: Option<usize>) -> bool {
        !role.starts_with("rope_")
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let source = SpecSource { name: "tiny.toml".into(), text: SPEC.into() };
    let spec = ArchSpec::parse(&source, &NoLookup, &Kinds::built_in())?;
    let mut keys = BTreeMap::new();
    for (key, value) in [("block_count", 2), ("embedding_length", 64), ("attention.head_count", 4)] {
        keys.insert(key.to_string(), MetadataValue::Integer(value));
    }
    let mut input = ResolveInput::new(SourceFormat::Gguf, "tiny.gguf", "tiny", &keys, &Everything);
    input.overrides.insert("rope.freq_base".into(), MetadataValue::Number(500_000.0));
    let resolution = spec.resolve_report(&input)?;
    for entry in &resolution.values {
        println!("{:40} {:12} {}", entry.path, entry.value, entry.origin);
    }
    let layer = &resolution.config.layers[0];
    for wanted in layer.mixer.iter().flat_map(|mixer| mixer.wanted(64)) {
        println!("{} {:?}", wanted.role, wanted.dims.iter().map(|dim| dim.size).collect::<Vec<_>>());
    }
    Ok(())
}
