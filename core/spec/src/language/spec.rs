//! [`ArchSpec`]: an architecture as written, merged by `extends`, spans kept.

use super::closure::Closure;
use crate::kind::Kinds;
use crate::language::body::Body;
use crate::language::reads::Reads;
use crate::names;
use crate::text::fault::Fault;
use crate::text::literal::Literal;
use crate::text::tree::TomlNode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key of a file's architecture, which is not a canonical one.
pub(crate) const ARCHITECTURE: &str = "general.architecture";

/// An architecture spec, decoded and checked; no number is known before [`ArchSpec::resolve`].
#[derive(Clone, Debug)]
pub struct ArchSpec {
    pub(crate) id: String,
    /// Name of the source it was read from.
    pub source_name: String,
    /// Ids of its bases, nearest first.
    pub extends: Vec<String>,
    /// Warnings: a child that repeats values of its base.
    pub warnings: Vec<Fault>,
    /// Values of `general.architecture` that it applies to.
    pub gguf_names: Vec<String>,
    /// Classes of `config.json` that it applies to.
    pub hf_classes: Vec<HfClass>,
    /// One line for listings.
    pub summary: String,
    /// The reference implementation; absent only in specs of folders.
    pub provenance: Option<Provenance>,
    /// Names in Hugging Face folders.
    pub hf: HfMap,
    pub(crate) body: Body,
    pub(crate) kinds: Kinds,
    /// The dependencies of each name of `[let]`.
    pub(crate) lets: BTreeMap<String, Closure>,
    pub(crate) reads: Reads,
    /// The whole document, without `schema`, `extends` and `unset`.
    pub(crate) document: Arc<TomlNode>,
}

/// `[architecture]`: its names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SpecNames {
    /// Id of the spec.
    pub(crate) id: String,
    /// Names in `general.architecture`.
    pub(crate) gguf: Vec<String>,
    /// Class names in `config.json`.
    pub(crate) hf: Vec<HfClass>,
    /// One line for listings.
    pub(crate) summary: String,
}

/// One class of `[architecture.hf]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HfClass {
    /// Name in `config.json: architectures`.
    pub name: String,
    /// Sub-table of the config to descend into.
    pub config: Option<String>,
    /// Prefixes of tensor names to rewrite: from, to.
    pub rename: Vec<(String, String)>,
    /// Canonical keys that the config of this class omits.
    pub values: BTreeMap<String, Literal>,
    /// Whether the config belongs to a class around this one, whose tensor names are rewritten first.
    pub wrapped: bool,
}

/// `[provenance]`: the reference implementation, and what was compared with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Provenance {
    /// `hf`, `llama.cpp` or `paper`.
    pub reference: String,
    /// Version and class, file or title.
    pub source: String,
    /// The values that were compared.
    pub covers: String,
    /// Known differences.
    pub notes: Vec<String>,
}

/// `[hf]`: how a Hugging Face directory is translated into canonical keys and roles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HfMap {
    /// Prefix of a block's tensors, with `{layer}`.
    pub layer: String,
    /// Prefixes of further stacks of blocks, with `{layer}`, in order.
    pub layer_after: Vec<String>,
    /// Canonical key to its source.
    pub config: Vec<(String, HfValue)>,
    /// Canonical key to its source, for keys that are written to GGUF files for other programs.
    pub write: Vec<(String, HfValue)>,
    /// Config names and their supported values.
    pub expect: Vec<(String, Vec<Literal>)>,
    /// Role to its sources in order of precedence.
    pub tensors: Vec<(String, Vec<HfTensor>)>,
    /// Canonical key to the tensor of one element that contains it; under [`HfMap::layer`] one per block.
    pub numbers: Vec<(String, String)>,
    /// Role to the factors of its products.
    pub times: Vec<(String, HfTimes)>,
    /// Globs of ignored tensors, with the reason.
    pub ignore_tensors: Vec<(String, String)>,
    /// Globs of config names that do not matter, with the reason.
    pub ignore_keys: Vec<(String, String)>,
}

/// The source of a canonical key in an HF config.
#[derive(Clone, Debug, PartialEq)]
pub enum HfValue {
    /// A literal.
    Literal(Literal),
    /// An expression over config names; undefined means that the key is absent.
    Expression(String),
}

/// The factors of a role's products in a Hugging Face folder.
#[derive(Clone, Debug, PartialEq)]
pub enum HfTimes {
    /// One number.
    All(HfValue),
    /// Numbers of consecutive rows and their factors.
    Rows(Vec<(HfValue, HfValue)>),
}

/// The source of a role's tensor in a Hugging Face folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HfTensor {
    /// A tensor, with layouts applied left to right from the stored to the canonical form.
    Tensor {
        /// Name; a leading `.` is under [`HfMap::layer`]; `{expert}` and `{head}` stack.
        from: String,
        /// Layouts.
        layout: Vec<Layout>,
    },
    /// A list in the config.
    Config(String),
}

names! {
    /// How a stored tensor becomes the canonical one.
    pub enum Layout {
        /// Last two dims swapped.
        Transpose = "transpose",
        /// A dim of one element dropped.
        Squeeze = "squeeze",
        /// `-exp(x)`.
        NegativeExp = "negative-exp",
        /// Per key-value group q..q, k, v to all q, all k, all v.
        GroupedQkv = "grouped-qkv",
        /// Rows 0, 2, 4, ...
        EvenRows = "even-rows",
        /// Rows 1, 3, 5, ...
        OddRows = "odd-rows",
        /// Columns 0, 2, 4, ...
        EvenColumns = "even-columns",
        /// Columns 1, 3, 5, ...
        OddColumns = "odd-columns",
        /// Rows from the third on: the first two positions of RoBERTa are those of padding.
        WithoutPadding = "without-padding",
        /// The experts' rows, one after the other in one matrix, to a matrix for each.
        SplitExperts = "split-experts",
        /// Per key head of a gated delta net q, k, v.., z.. to all q, all k, all v.
        DeltaQkv = "delta-qkv",
        /// Of the same rows all z.
        DeltaGate = "delta-gate",
        /// Of rows of a gate, q, k and v those of the gate, which are as many as those of q.
        GateOfQkv = "gate-of-gqkv",
        /// Of the same rows q, k and v.
        QkvBehindGate = "qkv-of-gqkv",
        /// `<from>_blocks` and `<from>_scales` of MXFP4.
        Mxfp4 = "mxfp4",
    }
}

impl ArchSpec {
    /// Id, e.g. `qwen3`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it describes a head for further tokens.
    pub fn describes_nextn(&self) -> bool {
        self.body.nextn.is_some()
    }

    /// Roles of a block in the order in which HF registers their modules; empty if unspecified.
    pub fn adapter_order(&self) -> &[String] {
        &self.body.adapter_order
    }

    /// The reason why a canonical key of a GGUF file is ignored, by this spec or for every architecture.
    pub(crate) fn ignored_key(&self, canonical_key: &str) -> Option<&str> {
        let own = self
            .body
            .gguf
            .ignore_keys
            .iter()
            .find(|(glob, _)| crate::text::glob::matches(glob, canonical_key));
        own.map(|(_, reason)| reason.as_str()).or_else(|| super::harmless::under_prefix(canonical_key))
    }

    /// The globs of `[gguf.ignore_keys]` of this spec itself, without those of its bases.
    pub(crate) fn own_ignored_keys(&self) -> Vec<&str> {
        let section = self.document.table().and_then(|table| table.get("gguf")).and_then(|node| node.table());
        let section = section.and_then(|table| table.get("ignore_keys")).and_then(|node| node.table());
        let entries = section.into_iter().flat_map(|table| &table.entries);
        let own = entries.filter(|entry| entry.node.place.file() == self.source_name);
        own.map(|entry| entry.key.as_str()).collect()
    }

    /// The notes of `[provenance]` that concern a file: those without a key, or with one that the file has.
    pub fn notes_about(&self, has: &dyn Fn(&str) -> bool) -> Vec<&str> {
        let is_key = |word: &&str| self.reads.has(word) || self.ignored_key(word).is_some();
        let concerns = |note: &&str| {
            let words = note.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
            let mut named = words.map(|word| word.trim_matches('.')).filter(is_key).peekable();
            named.peek().is_none() || named.any(has)
        };
        let notes = self.provenance.iter().flat_map(|provenance| &provenance.notes).map(String::as_str);
        notes.filter(concerns).collect()
    }

    /// Keys that it reads and that differ by one edit from a standard key, which is probably meant.
    pub fn misspelt_keys(&self) -> Vec<(&str, &'static str)> {
        let near = |key: &str| {
            crate::language::reads::STANDARD
                .into_iter()
                .find(|known| menagerie_entries::is_one_edit_apart(key, known))
        };
        self.keys().filter_map(|key| Some((key, near(key)?))).collect()
    }

    /// Canonical keys that it reads, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.reads.keys()
    }

    /// Keys of [`ArchSpec::keys`] without a default, as far as the text tells: what a synthetic model must have.
    pub fn needed_keys(&self) -> impl Iterator<Item = &str> {
        self.reads.needed()
    }

    /// Pre-tokenizer used when a file names none.
    pub fn pre_tokenizer(&self) -> Option<&str> {
        self.body.pre.as_deref()
    }

    /// Whether a fused matrix of a folder is written as separate tensors.
    pub fn is_written_apart(&self, role: &str) -> bool {
        self.body.gguf.apart.iter().any(|known| known == role)
    }
}
