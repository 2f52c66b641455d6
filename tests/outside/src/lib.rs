//! Entries of a crate outside `core/`: a norm, a mixer, an activation and a rope with options, roles, keys and state of their
//! own; a device, a file format and a sampler.
//!
//! No file of `core/` names them. A binary that links this crate (`use menagerie_outside as _;`) can run models whose
//! specs say `kind = "dynamic-tanh"` or `kind = "decaying-mean"`, and compute with `--device counting`.
#![forbid(unsafe_code)]

mod decaying_mean;
mod device;
mod dynamic_tanh;
mod mish;
mod pointer;
mod sampler;
mod stretched;

pub use decaying_mean::DecayingMeanConfig;
pub use dynamic_tanh::DynamicTanhConfig;
pub use mish::MishConfig;
pub use stretched::StretchedConfig;
