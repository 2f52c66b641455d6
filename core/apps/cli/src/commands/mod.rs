//! The commands, a file each.

pub(crate) mod batch;
pub(crate) mod bench;
mod bench_sequences;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod control_vector;
pub(crate) mod convert;
pub(crate) mod doctor;
pub(crate) mod embed;
pub(crate) mod guide;
pub(crate) mod imatrix;
pub(crate) mod inspect;
pub(crate) mod kernel_rates;
pub(crate) mod list;
pub(crate) mod logits;
pub(crate) mod man;
pub(crate) mod merge;
#[cfg(feature = "hub")]
pub(crate) mod models;
pub(crate) mod perplexity;
pub(crate) mod plugin;
#[cfg(feature = "hub")]
pub(crate) mod pull;
pub(crate) mod quantize;
pub(crate) mod render;
pub(crate) mod rerank;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod spec;
pub(crate) mod synth;
pub(crate) mod tokenize;
pub(crate) mod train_gate;
