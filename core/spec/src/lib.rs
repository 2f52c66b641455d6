//! The spec language: TOML to [`ArchSpec`] (as written) to [`ModelConfig`] (every number resolved).
//!
//! A spec is read in four steps, one module each: `source` gives text, `tree` keeps every value with the place it was
//! written at, `merge` lays a spec over the one it extends, `decode` checks names, options and expressions and collects
//! all faults. Resolving it against the keys and roles of a file gives the config, the coverage of the file's keys, and
//! the [`Resolution`] with where each value came from. No tensors and no file format are known here.
//!
//! What components there are is said once, in the tables of [`kind`]: decoding, faults, provenance, the
//! [reference page](reference_page), the [JSON Schema](json_schema) and the tensors of made-up models follow from them.
//!
//! ```
//! use menagerie_spec::kind::{Family, Kinds};
//!
//! let kinds = Kinds::built_in();
//! let attention = kinds.find(Family::Mixer, "attention").unwrap();
//! assert!(attention.options.fields.iter().any(|field| field.name == "window"));
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod harmless;
pub mod kind;

mod decode;
mod described;
mod expression;
mod fault;
mod features;
mod gguf_names;
mod glob;
mod heading;
mod hf;
mod json_text;
mod kinds;
mod language;
mod merge;
mod merged_text;
mod nearest;
mod reads;
mod recipe;
mod reference;
mod report;
mod resolve;
mod roles;
mod schema;
mod source;
mod spec;
mod stated;
mod tree;
mod written;

pub use config::ModelConfig;
pub use described::{KindDescription, OptionDescription, TensorDescription};
pub use fault::{Fault, SpecFaults, layer_ranges};
pub use glob::matches as glob_matches;
pub use heading::Heading;
pub use hf::{HfConfig, HfKeys, HfOrigin, HfPart, HfPlace, RowTimes, unwrapped, wrapping_classes};
pub use json_text::{toml_text, toml_value};
pub use nearest::nearest;
pub use recipe::{
    AdapterKind, MixtureChoice, RECIPE_SUFFIX, Recipe, RecipeAdapter, RecipeBase, RecipeExpert, RecipeMixture,
};
pub use reference::reference_page;
pub use report::{KeyCoverage, Provenance, Resolution, ValueOrigin};
pub use schema::json_schema;
pub use source::{
    KeySource, KeyValue, NameUse, NamedKey, NoLookup, ResolveInput, RoleSource, SourceFormat, SpecLookup,
    SpecSource,
};
pub use spec::{ArchSpec, HfClass, HfMap, HfTensor, HfTimes, HfValue, Layout, Literal, Truth};
pub use stated::{Stated, StatedOption};
