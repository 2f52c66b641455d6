//! The names that an expression can use: the keys of the file in one layer, with overrides and standard defaults.

use crate::expression::MOST_PARTS;
use crate::language::reads::{Reads, STANDARD};
use crate::text::source::{MetadataValue, ResolveInput};
use minijinja::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of blocks; a larger count means a broken file.
pub(crate) const MOST_BLOCKS: usize = 4096;

/// Standard keys with a default, and the keys the default is computed from.
const DEFAULTS: [(&str, &[&str]); 4] = [
    ("attention.head_count_kv", &["attention.head_count"]),
    ("attention.key_length", &["embedding_length", "attention.head_count"]),
    ("attention.value_length", &["embedding_length", "attention.head_count"]),
    ("rope.dimension_count", &["attention.key_length"]),
];

/// The keys of a file, with overrides.
pub(crate) struct FileKeys {
    /// All keys and values.
    pub(crate) keys: BTreeMap<String, MetadataValue>,
    /// The same as expression values.
    values: BTreeMap<String, Value>,
    /// Keys set by the user.
    pub(crate) overridden: BTreeSet<String>,
    /// Keys that the spec reads and the file has without the architecture's prefix.
    pub(crate) foreign: BTreeSet<String>,
    /// `block_count`, the length of a per-layer array; 0 if the file has none.
    pub(crate) blocks: usize,
    /// Keys of the file that the model depends on.
    consulted: RefCell<BTreeSet<String>>,
}

impl FileKeys {
    /// Gathers the keys of a file.
    pub(crate) fn gather(input: &ResolveInput<'_>, reads: &Reads) -> FileKeys {
        let mut keys: BTreeMap<String, MetadataValue> = input
            .keys
            .keys()
            .into_iter()
            .filter_map(|key| input.keys.get(&key).map(|value| (key, value)))
            .collect();
        let own: BTreeSet<&String> = keys.keys().collect();
        // Some keys are written without the architecture's prefix.
        let apart = reads.keys().filter(|key| key.contains('.') && !own.contains(&key.to_string()));
        let unprefixed: BTreeMap<String, MetadataValue> =
            apart.filter_map(|key| Some((key.to_string(), input.keys.get(key)?))).collect();
        let foreign = unprefixed.keys().cloned().collect();
        keys.extend(unprefixed);
        keys.extend(input.overrides.iter().map(|(key, value)| (key.clone(), value.clone())));
        let blocks = match keys.get("block_count") {
            Some(MetadataValue::Integer(count)) => usize::try_from(*count).unwrap_or(0),
            Some(MetadataValue::Number(count)) if *count >= 0.0 && count.fract() == 0.0 => *count as usize,
            _ => 0,
        };
        let values = keys.iter().map(|(key, value)| (key.clone(), convert(value))).collect();
        let overridden = input.overrides.keys().cloned().collect();
        FileKeys { keys, values, overridden, foreign, blocks, consulted: RefCell::default() }
    }

    /// A key of the file, for a value that depends on it.
    pub(crate) fn consult(&self, key: &str) -> Option<&MetadataValue> {
        let mut keys = BTreeSet::new();
        self.origins(key, &mut keys);
        self.consulted.borrow_mut().extend(keys.into_iter().map(str::to_string));
        self.keys.get(key)
    }

    /// Whether something depends on a key of the file.
    pub(crate) fn is_consulted(&self, key: &str) -> bool {
        self.consulted.borrow().contains(key)
    }

    /// Whether a key holds one value per layer.
    pub(crate) fn varies(&self, key: &str) -> bool {
        matches!(self.keys.get(key), Some(MetadataValue::List(values)) if values.len() == self.blocks && self.blocks > 0)
    }

    /// Whether any key holds one value per layer.
    pub(crate) fn any_varies(&self) -> bool {
        self.keys.keys().any(|key| self.varies(key))
    }

    /// Whether a key, or the keys of its standard default, hold one value per layer.
    pub(crate) fn varies_by_default(&self, key: &str) -> bool {
        if self.keys.contains_key(key) {
            return self.varies(key);
        }
        sources(key).iter().any(|source| self.varies_by_default(source))
    }

    /// The value of a key in a layer; arrays stay arrays in the whole model and with another length.
    pub(crate) fn in_layer(&self, key: &str, layer: Option<usize>) -> Option<&MetadataValue> {
        let value = self.keys.get(key)?;
        match (value, layer) {
            (MetadataValue::List(values), Some(layer)) if values.len() == self.blocks => values.get(layer),
            _ => Some(value),
        }
    }

    /// Keys of the file that a value computed from `key` depends on: the key itself, or those of its default.
    pub(crate) fn origins<'a>(&self, key: &'a str, into: &mut BTreeSet<&'a str>) {
        if self.keys.contains_key(key) {
            into.insert(key);
        } else {
            sources(key).iter().for_each(|source| self.origins(source, into));
        }
    }
}

fn sources(key: &str) -> &'static [&'static str] {
    DEFAULTS.iter().find(|(name, _)| *name == key).map_or(&[], |(_, sources)| sources)
}

/// The names an expression can see in one layer, or in the whole model.
pub(crate) struct LayerFrame {
    /// The layer; `None` is the whole model.
    pub(crate) layer: Option<usize>,
    /// Every key, flat.
    flat: Arc<BTreeMap<String, Value>>,
    /// The same as nested objects: `attention` holds `head_count`.
    nested: Arc<BTreeMap<String, Value>>,
}

impl LayerFrame {
    /// Builds the frame of a layer. `spaces` are the namespaces that exist even without keys.
    pub(crate) fn build(facts: &FileKeys, spaces: &BTreeSet<String>, layer: Option<usize>) -> LayerFrame {
        let mut flat = facts.values.clone();
        for (key, value) in &mut flat {
            if layer.is_some()
                && facts.varies(key)
                && let Some(own) = facts.in_layer(key, layer)
            {
                *value = convert(own);
            }
        }
        for (key, sources) in DEFAULTS {
            if !flat.contains_key(key)
                && let Some(value) = default(&flat, sources)
            {
                flat.insert(key.to_string(), value);
            }
        }
        flat.entry("rope.scaling.type".into()).or_insert_with(|| Value::from("none"));
        let nested = nest(&flat, spaces);
        LayerFrame { layer, flat: Arc::new(flat), nested: Arc::new(nested) }
    }

    /// The same keys in another layer, if no key has a value per layer.
    pub(crate) fn in_layer(&self, layer: Option<usize>) -> LayerFrame {
        LayerFrame { layer, flat: Arc::clone(&self.flat), nested: Arc::clone(&self.nested) }
    }

    /// A key by its dotted name.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.flat.get(key)
    }

    /// A name without dots: a key or a namespace.
    pub(crate) fn top(&self, name: &str) -> Option<&Value> {
        self.nested.get(name)
    }

    /// Every key.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.flat.keys().map(String::as_str)
    }
}

fn default(flat: &BTreeMap<String, Value>, sources: &[&str]) -> Option<Value> {
    let first = flat.get(*sources.first()?)?;
    let Some(second) = sources.get(1) else { return Some(first.clone()) };
    let divisor = flat.get(*second)?.as_i64().filter(|divisor| *divisor > 0)?;
    Some(Value::from(first.as_i64()? / divisor))
}

fn convert(value: &MetadataValue) -> Value {
    match value {
        MetadataValue::Number(number) => Value::from(*number),
        MetadataValue::Integer(number) => Value::from(*number),
        MetadataValue::Bool(value) => Value::from(*value),
        MetadataValue::Text(text) => Value::from(text.as_str()),
        MetadataValue::List(values) => Value::from(values.iter().map(convert).collect::<Vec<_>>()),
    }
}

/// Flat dotted keys as nested objects; a namespace takes precedence over a key of the same name.
fn nest(flat: &BTreeMap<String, Value>, spaces: &BTreeSet<String>) -> BTreeMap<String, Value> {
    #[derive(Default)]
    struct Namespace {
        values: BTreeMap<String, Value>,
        inner: BTreeMap<String, Namespace>,
    }
    impl Namespace {
        fn close(self) -> BTreeMap<String, Value> {
            let mut values = self.values;
            for (name, space) in self.inner {
                values.insert(name, Value::from(space.close()));
            }
            values
        }
    }
    let mut root = Namespace::default();
    for space in spaces {
        space.split('.').fold(&mut root, |at, part| at.inner.entry(part.to_string()).or_default());
    }
    for (key, value) in flat.iter().filter(|(key, _)| parts(key) <= MOST_PARTS) {
        let (space, name) =
            key.rsplit_once('.').map_or((None, key.as_str()), |(space, name)| (Some(space), name));
        let parts = space.into_iter().flat_map(|space| space.split('.'));
        let at = parts.fold(&mut root, |at, part| at.inner.entry(part.to_string()).or_default());
        at.values.insert(name.to_string(), value.clone());
    }
    root.close()
}

/// Every namespace in a set of dotted names: `rope.scaling.type` gives `rope` and `rope.scaling`.
pub(crate) fn spaces<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in names.chain(STANDARD).filter(|name| parts(name) <= MOST_PARTS) {
        let mut rest = name;
        while let Some((space, _)) = rest.rsplit_once('.') {
            found.insert(space.to_string());
            rest = space;
        }
    }
    found
}

fn parts(name: &str) -> usize {
    name.matches('.').count() + 1
}
