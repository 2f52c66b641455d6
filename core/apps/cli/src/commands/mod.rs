//! The commands, a file each.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod embed;
pub(crate) mod inspect;
pub(crate) mod kernel_rates;
pub(crate) mod list;
pub(crate) mod logits;
pub(crate) mod man;
#[cfg(feature = "hub")]
pub(crate) mod models;
#[cfg(feature = "hub")]
pub(crate) mod pull;
pub(crate) mod render;
pub(crate) mod rerank;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod spec;
pub(crate) mod synth;
pub(crate) mod tokenize;
