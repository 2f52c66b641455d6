//! Groups of arguments that several commands share, with the functions that act on them.
//!
//! Read `specs`, `model` and `opening` first: they lead from the text of an argument to an environment, a file and an open
//! model.

mod adapters;
pub(crate) mod cache;
pub(crate) mod capture;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod constraint;
pub(crate) mod display;
pub(crate) mod draft;
pub(crate) mod hooks;
pub(crate) mod key_setting;
pub(crate) mod layer_range;
#[cfg(feature = "serve")]
pub(crate) mod library;
#[cfg(feature = "cluster")]
mod link_threads;
pub(crate) mod metrics;
mod metrics_file;
pub(crate) mod model;
pub(crate) mod model_file;
#[cfg(feature = "hub")]
pub(crate) mod model_names;
pub(crate) mod model_source;
pub(crate) mod name_or_path;
pub(crate) mod observe;
pub(crate) mod opening;
pub(crate) mod plugins;
pub(crate) mod pooling;
mod profile;
pub(crate) mod queue_size;
pub(crate) mod sampling;
pub(crate) mod scored_text;
#[cfg(feature = "serve")]
pub(crate) mod server;
pub(crate) mod spec_reference;
pub(crate) mod specs;
pub(crate) mod stages;
pub(crate) mod state;
pub(crate) mod template;
pub(crate) mod tool_choice;
pub(crate) mod truncation;
