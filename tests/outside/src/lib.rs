//! Kinds of somebody else's crate: a norm, a mixer, an activation and a rope with options, roles, keys and state of their own.
//!
//! Nothing in `core/` knows them. A binary that links this crate (`use menagerie_outside as _;`) can run models whose
//! specs say `kind = "dynamic-tanh"` or `kind = "decaying-mean"`.
#![forbid(unsafe_code)]

mod decaying_mean;
mod dynamic_tanh;
mod mish;
mod stretched;

pub use decaying_mean::DecayingMeanConfig;
pub use dynamic_tanh::DynamicTanhConfig;
pub use mish::MishConfig;
pub use stretched::StretchedConfig;
