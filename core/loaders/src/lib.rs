//! Reads from files what a pipeline needs beside tensors: tokenizer, chat template, canonical keys, sampling
//! defaults.
//!
//! [`GgufLoader`] opens a GGUF file and [`HfTexts`] a Hugging Face folder; both provide these parts. [`Tokenizer`],
//! [`TextDecoder`] and [`ChatTemplate`] can also be used on their own. The crate knows no architecture and computes
//! with no tensor.
//!
//! Text is encoded in two ways, which are never confused: a template's own text may contain special tokens, text from
//! users, tools and models may not ([`Special`], [`Segment`]).

#![forbid(unsafe_code)]

mod calls;
mod hf;
mod loader;
mod safetensors;
mod segment;
mod tables;
mod template;
mod tokenizer;

pub use calls::{CallSupport, CallSupportError};
pub use hf::{HfTexts, VocabularyKeys};
pub use loader::{CanonicalKeys, GgufLoader, LoadError, LoadOptions, SamplingDefaults};
pub use safetensors::{
    Dtype, INDEX as SAFETENSORS_INDEX, SafetensorsError, SafetensorsErrorKind, SafetensorsFile,
    SafetensorsTensor, Shards,
};
pub use segment::Segment;
pub use tables::{TableError, TableFault, TokenizerTables};
pub use template::{ChatTemplate, RenderOptions, TemplateError};
pub use tokenizer::{
    CodecEntry, CodecKind, CodecToken, CodecVocabulary, InfillPart, Special, TextCodec, TextDecoder,
    TokenKind, Tokenizer, TokenizerError, TokenizerOptions,
};
