//! A model file without a file: keys and tensors as the resolver sees them.

use menagerie_spec::config::{AttentionConfig, MoeConfig};
use menagerie_spec::kind::Kinds;
use menagerie_spec::{
    ArchSpec, KeySource, MetadataValue, ModelConfig, Resolution, ResolveInput, RoleSource, SourceFormat,
    SpecFaults, SpecLookup, SpecSource,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A folder of specs.
pub(crate) struct Folder(PathBuf);

impl SpecLookup for Folder {
    fn find(&self, id: &str) -> Option<SpecSource> {
        let path = self.0.join(format!("{id}.toml"));
        let text = std::fs::read_to_string(&path).ok()?;
        Some(SpecSource { name: format!("{id}.toml"), text })
    }

    fn ids(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let ids = names.filter_map(|name| name.strip_suffix(".toml").map(str::to_string));
        let mut ids: Vec<String> = ids
            .filter(|id| self.find(id).is_some_and(|source| source.text.contains("[architecture]")))
            .collect();
        ids.sort();
        ids
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The project's own specs.
pub(crate) fn built_in() -> Folder {
    Folder(root().join("specs"))
}

pub(crate) fn spec(folder: &Folder, id: &str) -> ArchSpec {
    let source = folder.find(id).unwrap_or_else(|| panic!("no spec {id}"));
    ArchSpec::parse(&source, folder, &Kinds::built_in()).unwrap_or_else(|faults| panic!("{id}:\n{faults}"))
}

/// A spec given as text, over the project's own.
pub(crate) fn parse(text: &str) -> Result<ArchSpec, SpecFaults> {
    let source = SpecSource { name: "my.toml".into(), text: text.into() };
    ArchSpec::parse(&source, &built_in(), &Kinds::built_in())
}

/// The smallest whole spec, with lines added at the end.
pub(crate) fn minimal(more: &str) -> String {
    format!(
        "schema = 1\n[architecture]\nid = \"my\"\n[norm]\nkind = \"rms\"\neps = \"attention.layer_norm_rms_epsilon\"\n\
         [block]\nmixer = {{ pre = \"attn_norm\" }}\nfeed_forward = {{ pre = \"ffn_norm\" }}\n\
         [output]\nnorm = \"output_norm\"\nhead = \"own-or-tied\"\n{more}"
    )
}

/// A mixer and a feed-forward for [`minimal`].
pub(crate) const PLAIN: &str =
    "[mixer]\nkind = \"attention\"\n[feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n";

/// The attention of a layer.
pub(crate) fn attention(config: &ModelConfig, layer: usize) -> &AttentionConfig {
    let mixer = config.layers[layer].mixer.as_ref().unwrap();
    mixer.downcast_ref().unwrap_or_else(|| panic!("{mixer:?}"))
}

/// The experts of a layer.
pub(crate) fn moe(config: &ModelConfig, layer: usize) -> &MoeConfig {
    let feed_forward = config.layers[layer].feed_forward.as_ref().unwrap();
    feed_forward.downcast_ref().unwrap_or_else(|| panic!("{feed_forward:?}"))
}

/// A model of keys and roles.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) name: String,
    pub(crate) keys: BTreeMap<String, MetadataValue>,
    pub(crate) foreign: Vec<String>,
    pub(crate) roles: BTreeSet<(String, Option<usize>)>,
    pub(crate) overrides: BTreeMap<String, MetadataValue>,
    pub(crate) accept: Vec<String>,
    /// Whether a head for further tokens is requested.
    pub(crate) nextn: bool,
}

impl KeySource for Fake {
    fn get(&self, key: &str) -> Option<MetadataValue> {
        self.keys.get(key).cloned()
    }

    fn keys(&self) -> Vec<String> {
        let foreign: BTreeSet<&String> = self.foreign.iter().collect();
        self.keys.keys().filter(|key| !foreign.contains(key)).cloned().collect()
    }

    fn foreign_keys(&self) -> Vec<String> {
        self.foreign.clone()
    }
}

impl RoleSource for Fake {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        self.roles.contains(&(role.to_string(), layer))
    }
}

impl Fake {
    /// A small llama-like model.
    pub(crate) fn small(layers: i64) -> Fake {
        let mut fake = Fake { name: "my".into(), ..Fake::default() };
        for (key, value) in [("block_count", layers), ("embedding_length", 64), ("attention.head_count", 4)] {
            fake.keys.insert(key.into(), MetadataValue::Integer(value));
        }
        fake.keys
            .insert("attention.layer_norm_rms_epsilon".into(), MetadataValue::Number(f64::from(1e-5f32)));
        fake.all_layers(&[
            "attn_norm",
            "attn_q",
            "attn_k",
            "attn_v",
            "attn_output",
            "ffn_norm",
            "ffn_gate",
            "ffn_up",
        ]);
        fake.all_layers(&["ffn_down"]);
        fake
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Fake {
        self.keys.insert(key.into(), value.into().0);
        self
    }

    pub(crate) fn with_role(mut self, role: &str) -> Fake {
        self.roles.insert((role.into(), None));
        self
    }

    pub(crate) fn all_layers(&mut self, roles: &[&str]) {
        let Some(MetadataValue::Integer(layers)) = self.keys.get("block_count") else {
            panic!("no block_count")
        };
        for layer in 0..*layers as usize {
            self.roles.extend(roles.iter().map(|role| (role.to_string(), Some(layer))));
        }
    }

    pub(crate) fn report(&self, spec: &ArchSpec) -> Result<Resolution, SpecFaults> {
        self.report_as(spec, SourceFormat::Gguf)
    }

    pub(crate) fn report_as(&self, spec: &ArchSpec, format: SourceFormat) -> Result<Resolution, SpecFaults> {
        let mut input = ResolveInput::new(format, "model.gguf", self.name.clone(), self, self);
        input.overrides = self.overrides.clone();
        input.accept_unread = self.accept.clone();
        input.nextn = self.nextn;
        spec.resolve_report(&input)
    }

    pub(crate) fn config(&self, spec: &ArchSpec) -> ModelConfig {
        self.report(spec).unwrap_or_else(|faults| panic!("{faults}")).config
    }

    pub(crate) fn refused(&self, spec: &ArchSpec) -> String {
        match self.report(spec) {
            Ok(found) => panic!("resolved: {:?}", found.config),
            Err(faults) => faults.to_string(),
        }
    }
}

/// A key value from a Rust literal.
pub(crate) struct Value(MetadataValue);

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value(MetadataValue::Integer(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value(MetadataValue::Number(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value(MetadataValue::Bool(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value(MetadataValue::Text(value.into()))
    }
}

impl<const N: usize> From<[i64; N]> for Value {
    fn from(values: [i64; N]) -> Value {
        Value(MetadataValue::List(values.into_iter().map(MetadataValue::Integer).collect()))
    }
}

impl<const N: usize> From<[bool; N]> for Value {
    fn from(values: [bool; N]) -> Value {
        Value(MetadataValue::List(values.into_iter().map(MetadataValue::Bool).collect()))
    }
}
