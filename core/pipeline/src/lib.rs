//! From a file to text: opening a model, prefill, decode, sampling, stopping, conversations, statistics.
//!
//! [`TextPipeline::open`] gives a pipeline; [`Autoregressive::session`] a sequence of its own that
//! [`Session::generate`]s from token ids; [`TextPipeline::chat`] a conversation. Models are stateless: every piece of
//! mutable state is here, and several sessions run on one model without a lock.
//!
//! One generation, step by step ([`generation`]): the prompt's common prefix with what is cached stays, the rest is
//! prefilled in chunks ([`sequence`]); then per token a [`sampling::Chain`] takes one, the tokenizer's stream turns it
//! into text, stop strings and reasoning are looked for ([`stop`], [`reasoning`]), and it is fed back.
//!
//! What is absent: file formats and tensors by name (`loaders`, `assembly`), arithmetic (`model::ops`), and anything
//! that prints.
#![forbid(unsafe_code)]

pub mod bench;
pub mod capability;
pub mod chat;
pub mod engine;
pub mod error;
pub mod generation;
pub mod logits;
pub mod memory;
pub mod notice;
pub mod open;
pub mod options;
pub mod pipeline;
pub mod reasoning;
pub mod request;
pub mod resolve;
pub mod sampling;
pub mod sequence;
pub mod session;
pub mod statistics;
pub mod stop;
pub mod text;

pub use bench::{BenchOptions, BenchProgress, BenchResult, Rate};
pub use capability::{
    Autoregressive, Cacheable, ChatCapable, Hookable, MissingCapability, Pipeline, TextStream, Tokenizing,
};
pub use chat::{ChatMessage, ChatOptions, ChatSession, RenderOptions, RenderedPrompt};
pub use engine::Engine;
pub use error::{GenerateError, LoadError, TextError};
pub use logits::{Logits, LogitsOptions};
pub use memory::MemoryEstimate;
pub use menagerie_kernels::Arithmetic;
pub use menagerie_model::state::KvType;
pub use notice::Notice;
pub use options::LoadOptions;
pub use pipeline::{PipelineParts, TextPipeline};
pub use request::{Event, Outcome, Request, StopReason, TokenLogprob};
pub use resolve::ResolvedFile;
pub use sampling::{SamplingError, SamplingOptions};
pub use sequence::{Progress, Sequence, Wanted};
pub use session::Session;
pub use statistics::Statistics;
