//! The spec language: TOML to [`ArchSpec`] (as written) to [`ModelConfig`] (every number resolved).
//!
//! The modules, in the order of reading; each uses only those above it:
//!
//! | module | holds |
//! |---|---|
//! | `text` | sources, TOML in which every value has its place, faults, globs |
//! | `expression` | expressions: the names they mention, their evaluation |
//! | `language` | what may be written, as tables ([`kind`]); a spec as written ([`ArchSpec`]); what it means ([`ModelConfig`]); how a kind reads its options |
//! | `kinds` | the built-in kinds, one file each |
//! | `read` | text to [`ArchSpec`]: merged with the specs it extends, checked, all faults collected |
//! | `resolve` | [`ArchSpec`] and the keys and roles of a file to [`ModelConfig`], with where each value came from |
//! | `files` | names of tensors in GGUF files; config.json and tensors of Hugging Face folders |
//! | `out` | reference page, JSON Schema, descriptions, listings |
//! | `recipe` | recipes: a base, adapters, experts and keys; uses `text` alone |
//!
//! The crate reads no tensors and no file format.
//!
//! The tables of [`kind`] define each component once: decoding, faults, provenance, the [reference page](reference_page),
//! the [JSON Schema](json_schema) and the tensors of synthetic models follow from them.
//!
//! ```
//! use menagerie_spec::kind::{Family, Kinds};
//!
//! let kinds = Kinds::built_in();
//! let attention = kinds.find(Family::Mixer, "attention").unwrap();
//! assert!(attention.options.fields.iter().any(|field| field.name == "window"));
//! ```
#![forbid(unsafe_code)]

mod expression;
mod files;
mod kinds;
mod language;
mod out;
mod read;
mod recipe;
mod resolve;
mod text;

/// The meaning of an architecture spec for one file, and the configs of the built-in kinds.
pub mod config {
    pub use crate::kind::{BiasRule, NormSite, Role};
    pub use crate::kinds::configs::*;
    pub use crate::kinds::ends::MODEL_SIZES;
    pub use crate::language::config::*;
    pub use menagerie_formulas::{
        Activation, BranchInput, ClassifierActivation, ClassifierScores, GroupScore, HeldStream, HiddenRow,
        JoinOrder, KeySharing, ParallelInput, Pooling, RopePairs, RouterApply, RouterInput, RouterScore,
        RouterSelect, RouterWeights, SparseMixer, Xielu,
    };
}

pub use files::hf::{HfConfig, HfKeys, HfOrigin, HfPart, HfPlace, RowTimes, unwrapped, wrapping_classes};
pub use language::config::ModelConfig;
pub use language::origin::ValueOrigin;
pub use language::report::{KeyCoverage, Resolution, ResolvedValue};
pub use language::spec::{ArchSpec, HfClass, HfMap, HfTensor, HfTimes, HfValue, Layout, Provenance};
pub use language::{harmless, kind};
pub use out::described::{KindDescription, OptionDescription, TensorDescription};
pub use out::{
    difference::SpecDifference,
    outline::{Outline, OutlineBranch, OutlineStep},
    reference::reference_page,
    schema::json_schema,
    stated::{SpecValue, StatedOption},
};
pub use recipe::{
    AdapterKind, MixtureChoice, RECIPE_SUFFIX, Recipe, RecipeAdapter, RecipeBase, RecipeExpert, RecipeMixture,
};
pub use text::source::{
    KeySource, MetadataValue, NameUse, NamedKey, NoLookup, ResolveInput, RoleSource, SourceFormat,
    SpecLookup, SpecSource,
};
pub use text::{
    fault::{Fault, SpecFaults, layer_ranges},
    glob::matches as glob_matches,
    heading::Heading,
    json_text::{toml_text, toml_value},
    literal::Literal,
};
