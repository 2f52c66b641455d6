//! The SDK of Menagerie's plugins: the ABI ([`abi`]), and traits that hide it.
//!
//! A plugin adds components that specs name (`kind = "author/name:component"`). Its ABI is a C ABI: no Rust type, no
//! allocation and no panic crosses it, so plugin and host can be built with different compilers.
//!
//! A component is a type with two traits: [`Component`] declares its name, options and tensors and creates instances; the
//! trait of its family ([`Mixer`], [`FeedForward`], [`Norm`], [`Activation`], [`Rope`], [`Sampler`],
//! [`Tokenizer`], [`LayerObserver`], [`LayerReplacer`]) computes. [`export!`] makes a plugin from components.
//!
//! ```
//! use menagerie_plugin::{Build, Component, Host, Norm, Result, Role, Rows, RowsMut, options};
//!
//! options! {
//!     /// Options of `dynamic-tanh`.
//!     pub struct DynamicTanhOptions {
//!         /// Multiplies inside the tanh.
//!         alpha: f32 = Required => guarded,
//!     }
//! }
//!
//! struct DynamicTanh {
//!     alpha: f32,
//!     weight: Vec<f32>,
//!     bias: Vec<f32>,
//! }
//!
//! impl Component for DynamicTanh {
//!     const NAME: &'static str = "dynamic-tanh";
//!     const DOC: &'static str = "`weight * tanh(alpha * x) + bias` (Zhu et al., 2025).";
//!     const ROLES: &'static [Role] = &[
//!         Role::values("", &["width"], "Multiplies the row."),
//!         Role::only_bias("", &["width"], "Added to the row."),
//!     ];
//!     type Options = DynamicTanhOptions;
//!
//!     fn create(options: DynamicTanhOptions, build: &mut Build) -> Result<Self> {
//!         let (weight, bias) = (build.values(""), build.bias_values(""));
//!         Ok(Self { alpha: options.alpha, weight: weight?, bias: bias? })
//!     }
//! }
//!
//! impl Norm for DynamicTanh {
//!     fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
//!         for row in 0..x.rows() {
//!             let vectors = self.weight.iter().zip(&self.bias);
//!             for ((y, x), (weight, bias)) in output.row_mut(row).iter_mut().zip(x.row(row)).zip(vectors) {
//!                 *y = weight * (self.alpha * x).tanh() + bias;
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! menagerie_plugin::export! { id: "acme/norms", components: [norm DynamicTanh] }
//! # fn main() {}
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod abi;
mod build;
mod call;
mod candle;
mod caught;
mod component;
mod descriptor;
#[doc(hidden)]
pub mod entry;
mod error;
mod export;
mod family;
mod host;
mod layer_hook;
mod log;
mod options;
mod plugin;
mod role;
mod rows;
mod sequences;
mod slots;
mod split;
mod states;
pub mod testing;
mod text;
mod vocabulary;

#[cfg(feature = "static")]
#[doc(hidden)]
pub use inventory;

pub use build::{Build, Linear, Weight};
pub use call::{Call, Raw};
pub use component::Component;
pub use error::{Error, Result};
pub use family::{
    Activation, Causality, FeedForward, FrequencyCall, Mixer, Norm, Rope, SampleCall, Sampler, Tokenizer,
};
pub use host::{Host, StoredRows};
pub use layer_hook::{LayerCall, LayerObserver, LayerReplacer, Point};
pub use log::{LogLevel, log};
pub use options::{OptionDefault, OptionRow, OptionType, Options, Value};
#[doc(hidden)]
pub use options::{check_option, name_of};
pub use plugin::Plugin;
#[cfg(feature = "static")]
pub use plugin::StaticPlugin;
pub use role::{Form, Presence, Role};
pub use rows::{Rows, RowsMut};
pub use sequences::{Phase, Sequence, SequenceId, Sequences};
pub use slots::{Slot, SlotReader, SlotWriter, Slots};
pub use split::{Chunks, Split, Tiles};
pub use states::{State, StateChunks, States, TokenState};
pub use vocabulary::{Token, Vocabulary};
