//! JSON Schema of a spec file, for editors, from types that mirror the tables of the language.
//!
//! The decoder reads spanned trees by hand, because serde stops at the first fault and loses places; these types say the
//! same once more for the schema, and a test holds the two together.

mod components;
mod places;

use places::{Expression, Lit, Names, Number, Reasons, Site};
use schemars::JsonSchema;
use std::collections::BTreeMap;

/// JSON Schema (2020-12) of a spec file, for editors.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Spec).to_value()
}

/// An architecture spec of Menagerie.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // mirrors the language; only its schema is used
struct Spec {
    /// Version of the language: 1.
    #[schemars(extend("const" = 1))]
    schema: u32,
    /// Id of the spec this one is laid over. A table that states `kind` replaces the base's table whole.
    extends: Option<String>,
    /// Dotted paths removed from the base first.
    unset: Option<Vec<String>>,
    architecture: Architecture,
    truth: Option<Truth>,
    /// Named expressions; may use each other.
    #[schemars(rename = "let")]
    lets: Option<BTreeMap<String, places::Value>>,
    layers: Option<Layers>,
    embedding: Option<Embedding>,
    norm: Option<components::Norm>,
    block: Option<Block>,
    mixer: Option<components::Cases<components::Mixer>>,
    feed_forward: Option<components::Cases<components::FeedForward>>,
    output: Option<components::Output>,
    /// `"<expression>" = "<message>"`: must hold in every layer.
    check: Option<BTreeMap<String, String>>,
    gguf: Option<Gguf>,
    hf: Option<Hf>,
    adapter: Option<Adapter>,
    tokenizer: Option<Tokenizer>,
    chat: Option<Chat>,
}

/// What it is called; never inherited.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Architecture {
    /// Id of the spec; the file is called so.
    #[schemars(regex(pattern = r"^[a-z0-9._-]+$"))]
    id: String,
    /// Names in `general.architecture`; default: the id.
    gguf: Option<Vec<String>>,
    /// Class names in `config.json`, or a table of them.
    hf: Option<HfClasses>,
    /// One line for listings.
    summary: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Spec
enum HfClasses {
    /// Class names.
    List(Vec<String>),
    /// Class names with what is special about each.
    Table(BTreeMap<String, HfClass>),
}

/// What is special about a class.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct HfClass {
    /// Sub-table of the config to descend into.
    config: Option<String>,
    /// Prefixes of tensor names, from = to; the first that matches is rewritten.
    rename: Option<BTreeMap<String, String>>,
    /// Canonical keys the config leaves out.
    values: Option<BTreeMap<String, Lit>>,
}

/// Which implementation decides; never inherited.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Truth {
    /// Which reference decides.
    reference: Names<crate::names::Reference>,
    /// Version and class, file or title.
    source: String,
    /// What was compared.
    covers: Option<String>,
    /// Known differences.
    notes: Option<Vec<String>>,
}

/// Blocks.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Layers {
    /// Blocks that are run (default `block_count`).
    count: Option<Number>,
}

/// The token embedding.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Embedding {
    /// Multiplies every embedded row (default 1).
    scale: Option<Number>,
    /// Norm on the embedded rows.
    norm: Option<Site>,
    /// Role of learned positions.
    positions: Option<String>,
    /// Role of token types; row 0 is added.
    token_types: Option<String>,
}

/// The two branches of a block.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Block {
    /// Branch of the mixer.
    mixer: Option<components::Branch>,
    /// Branch of the feed-forward.
    feed_forward: Option<components::Branch>,
}

/// The GGUF side.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Gguf {
    /// Role = the name it is stored under.
    tensors: Option<BTreeMap<String, String>>,
    /// Glob = reason; `{tail}` is a layer index past the blocks that are run.
    ignore_tensors: Option<Reasons>,
    /// Glob over canonical keys = reason.
    ignore_keys: Option<Reasons>,
}

/// The Hugging Face side.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Hf {
    /// Prefix of a block's tensors, with `{layer}`.
    layer: Option<String>,
    /// Canonical key = expression over config names, or a value.
    config: Option<BTreeMap<String, HfValue>>,
    /// Config name = value, or a list of the values that are understood.
    expect: Option<BTreeMap<String, Lit>>,
    /// Role = where its tensor is.
    tensors: Option<BTreeMap<String, HfTensors>>,
    /// Glob = reason.
    ignore_tensors: Option<Reasons>,
    /// Glob over config names = reason.
    ignore_keys: Option<Reasons>,
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Spec
enum HfValue {
    /// An expression over config names.
    Expression(Expression),
    /// A value.
    Literal(Lit),
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Spec
enum HfTensors {
    /// One source.
    One(HfSource),
    /// The first that exists.
    FirstOf(Vec<HfSource>),
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Spec
enum HfSource {
    /// A name; a leading `.` is under `layer`; `{expert}` and `{head}` stack.
    Name(String),
    /// A name and layouts.
    Tensor(HfTensor),
    /// A list in the config.
    Config(HfConfigTensor),
}

/// A tensor with layouts, applied left to right.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct HfTensor {
    /// Its name.
    from: String,
    /// From the stored to the canonical tensor.
    layout: Option<Layouts>,
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Spec
enum Layouts {
    /// One layout.
    One(Names<crate::spec::Layout>),
    /// Several.
    Several(Vec<Names<crate::spec::Layout>>),
}

/// A list in the config.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct HfConfigTensor {
    /// Its name.
    config: String,
}

/// Adapters.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Adapter {
    /// Roles of a block in the order HF registers them.
    order: Option<Vec<String>>,
}

/// What is added to the file's tokenizer.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Tokenizer {
    /// Pre-tokenizer used when the file names none.
    pre: Option<String>,
    /// Tokens that end a turn.
    end: Option<Vec<String>>,
}

/// What is added to the file's chat template.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Spec
struct Chat {
    /// Template used when the file has none.
    fallback: Option<String>,
}

#[cfg(test)]
mod tests;
