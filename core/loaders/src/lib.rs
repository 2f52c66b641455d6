//! Files to what a pipeline needs beside tensors: tokenizer, chat template, canonical keys, sampling defaults.
//!
//! [`GgufLoader`] opens a GGUF file, [`HfTexts`] a folder of Hugging Face's form, and they hand these out; [`Tokenizer`], [`TextDecoder`] and [`ChatTemplate`] can be used
//! on their own. Nothing here knows an architecture or computes with a tensor.
//!
//! Text becomes ids in two ways, never mixed up: a template's own text may name special tokens, text that came from
//! outside may not ([`Special`], [`Segment`]).

#![forbid(unsafe_code)]

mod hf;
mod loader;
mod safetensors;
mod segment;
mod tables;
mod template;
mod tokenizer;

pub use hf::{HfTexts, VocabularyKeys};
pub use loader::{CanonicalKeys, GgufLoader, LoadError, LoadOptions, SamplingDefaults};
pub use safetensors::{
    Dtype, INDEX as SAFETENSORS_INDEX, SafetensorsError, SafetensorsErrorKind, SafetensorsFile,
    SafetensorsTensor, Shards,
};
pub use segment::Segment;
pub use tables::{ReasoningPair, TableError, TableFault, TokenizerTables};
pub use template::{ChatTemplate, RenderOptions, TemplateError};
pub use tokenizer::{
    CodecEntry, CodecKind, CodecToken, CodecVocabulary, Special, TextCodec, TextDecoder, TextDecoderOptions,
    TokenKind, Tokenizer, TokenizerError, TokenizerOptions,
};
