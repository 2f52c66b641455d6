//! The vocabulary of formulas: what a kernel computes, a component asks for and a spec names, declared once.
//!
//! This crate depends on nothing. Kernels, components, backends and the spec language use its types as they are, so a
//! new activation is one line here and one implementation in every backend.
//!
//! | module | formulas |
//! |---|---|
//! | activations | [`Activation`], [`Gating`], [`Xielu`] |
//! | attention | [`AttentionShape`], [`Mask`], [`RopePairs`] |
//! | linear attention | [`LinearAttentionShape`], [`KeySharing`], [`StateUpdate`] |
//! | routing | [`RouterScore`], [`RouterSelect`], [`RouterWeights`], [`RouterApply`], [`RouterInput`], [`GroupScore`] |
//! | blocks | [`BranchInput`], [`ParallelInput`], [`HeldStream`] |
//! | heads for further tokens | [`HiddenRow`], [`JoinOrder`] |
//! | vectors | [`Pooling`], [`ClassifierActivation`], [`ClassifierScores`] |
//! | arithmetic | [`Arithmetic`], [`KvType`] |
//!
//! Types that specs name have constants: the [names](Name) with their meaning, and a value of each.
//!
//! ```
//! use menagerie_formulas::Activation;
//!
//! let names: Vec<&str> = Activation::NAMES.iter().map(|name| name.name).collect();
//! assert!(names.contains(&"gelu-tanh"));
//! assert!(Activation::ALL.iter().zip(names).all(|(value, name)| value.name() == name));
//! ```
#![forbid(unsafe_code)]

#[macro_use]
mod names;

mod activation;
mod arithmetic;
mod attention;
mod block;
mod linear_attention;
mod next_token;
mod pooling;
mod routing;

pub use activation::{Activation, Gating, Xielu};
pub use arithmetic::{Arithmetic, KvType};
pub use attention::{AttentionShape, Mask, RopePairs};
pub use block::{BranchInput, HeldStream, ParallelInput};
pub use linear_attention::{KeySharing, LinearAttentionShape, StateUpdate};
pub use names::Name;
pub use next_token::{HiddenRow, JoinOrder};
pub use pooling::{ClassifierActivation, ClassifierScores, Pooling};
pub use routing::{
    GroupScore, RouterApply, RouterInput, RouterScore, RouterSelect, RouterWeights, SparseMixer,
};
