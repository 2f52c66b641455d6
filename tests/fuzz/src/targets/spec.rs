//! Specs (TOML): parsed, and resolved against the keys of a tiny model.

use super::folder;
use crate::Target;
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, MetadataValue, ResolveInput, RoleSource, SourceFormat, SpecSource};
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(super) const TARGET: Target = Target {
    name: "spec",
    run,
    seeds,
    words: &[
        "schema",
        "extends",
        "[architecture]",
        "[let]",
        "[layer]",
        "[hf.config]",
        "[gguf.tensors]",
        "[output]",
        "unset",
        "kind",
        "when",
        "role",
        "\"layer % 2 == 0\"",
        "\"has('attn_q')\"",
        "\"block_count ** block_count\"",
        "\"1 / 0\"",
        "\"pattern('a', 0)\"",
        "\"attention.head_count | default(0)\"",
        "attention",
        "moe",
        "rms",
        "none",
        "{ by = \"layer\" }",
        "1979-05-27",
        "nan",
        "inf",
        "'''",
        "\\uD800",
    ],
};

/// Longest text: a spec of the project has at most 15 KB, and resolving one takes time in its length.
const LONGEST: usize = 24 << 10;

/// A model file has the tensors that most architectures have.
struct Roles;

impl RoleSource for Roles {
    fn has(&self, role: &str, _layer: Option<usize>) -> bool {
        matches!(role, "attn_norm" | "ffn_norm" | "output_norm" | "token_embd")
    }
}

/// Keys that every model has.
fn known() -> [(String, MetadataValue); 5] {
    [
        ("block_count", 4),
        ("embedding_length", 64),
        ("attention.head_count", 4),
        ("vocab_size", 160),
        ("feed_forward_length", 96),
    ]
    .map(|(key, value)| (key.to_owned(), MetadataValue::Integer(value)))
}

/// A value that most specs accept for a key.
fn value_of(key: &str) -> MetadataValue {
    match key.rsplit(['.', '_']).next().unwrap_or_default() {
        "count" => MetadataValue::Integer(2),
        "length" | "size" | "rank" => MetadataValue::Integer(32),
        "window" | "kernel" => MetadataValue::Integer(4),
        "epsilon" => MetadataValue::Number(1e-5),
        "base" => MetadataValue::Number(10_000.0),
        _ => MetadataValue::Number(1.0),
    }
}

/// The built-in specs by id, for `extends`.
fn built_in() -> &'static BTreeMap<String, SpecSource> {
    static SPECS: OnceLock<BTreeMap<String, SpecSource>> = OnceLock::new();
    SPECS.get_or_init(|| {
        let entries = std::fs::read_dir(folder("specs")).into_iter().flatten().flatten();
        let read = |path: std::path::PathBuf| {
            let id = path.file_name()?.to_str()?.strip_suffix(".toml")?.to_owned();
            let text = std::fs::read_to_string(&path).ok()?;
            (id != "models").then(|| (id.clone(), SpecSource { name: format!("built-in:{id}"), text }))
        };
        entries.filter_map(|entry| read(entry.path())).collect()
    })
}

fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    if text.len() > LONGEST {
        return false;
    }
    let source = SpecSource { name: "input.toml".to_owned(), text: text.to_owned() };
    let spec = match ArchSpec::parse(&source, built_in(), &Kinds::built_in()) {
        Ok(spec) => spec,
        Err(faults) => {
            assert!(!faults.to_string().is_empty(), "a spec is refused without a reason");
            return false;
        }
    };
    let merged = SpecSource { name: "merged.toml".to_owned(), text: spec.merged() };
    drop(ArchSpec::parse(&merged, built_in(), &Kinds::built_in()));
    let keys = spec.needed_keys().map(|key| (key.to_owned(), value_of(key))).chain(known());
    let keys: BTreeMap<String, MetadataValue> = keys.collect();
    for format in [SourceFormat::Gguf, SourceFormat::Hf] {
        let input = ResolveInput::new(format, "input.gguf", "input", &keys, &Roles);
        if let Ok(report) = spec.resolve_report(&input) {
            let layers = report.config.layers.iter().map(|layer| layer.parts().1.len()).sum::<usize>();
            assert!(layers > 0, "a model without components");
        }
    }
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let short = built_in().values().filter(|source| source.text.len() < 3000);
    short.map(|source| source.text.clone().into_bytes()).collect()
}
