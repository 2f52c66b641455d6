//! Files to what a pipeline needs beside tensors: tokenizer, chat template, canonical keys, sampling defaults.
//!
//! [`GgufLoader`] opens a GGUF file and hands these out; [`Tokenizer`], [`TextDecoder`] and [`ChatTemplate`] can be used
//! on their own. Nothing here knows an architecture or computes with a tensor.
//!
//! Text becomes ids in two ways, never mixed up: a template's own text may name special tokens, text that came from
//! outside may not ([`Special`], [`Segment`]).

#![forbid(unsafe_code)]

mod loader;
mod nearest;
mod segment;
mod tables;
mod template;
mod tokenizer;

pub use loader::{CanonicalKeys, GgufLoader, LoadError, LoadOptions, SamplingDefaults};
pub use segment::Segment;
pub use tables::{ReasoningPair, TableError, TableFault, TokenizerTables};
pub use template::{ChatTemplate, RenderOptions, TemplateError};
pub use tokenizer::{
    Special, TextDecoder, TextDecoderOptions, TokenKind, Tokenizer, TokenizerError, TokenizerOptions,
};
