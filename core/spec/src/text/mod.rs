//! Text handling below the language: sources, TOML with the place of every value, faults, globs.

pub(crate) mod fault;
pub(crate) mod glob;
pub(crate) mod heading;
pub(crate) mod json_text;
pub(crate) mod literal;
pub(crate) mod source;
pub(crate) mod toml_text;
pub(crate) mod tree;
