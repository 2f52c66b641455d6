//! Steps, sequences and answers: the engine that runs a model.
//!
//! A [`TextPipeline`] is a model with its tokenizer and chat format. [`TextPipeline::session`] returns a sequence that
//! [`Session::generate`]s from text or token ids; [`TextPipeline::chat`] a conversation; [`TextPipeline::batch`] several
//! sequences that share steps. [`EmbeddingPipeline`] is the same for encoders. Models are stateless: every piece of mutable
//! state is here, and several sessions run on one model without a lock.
//!
//! One generation, step by step: the prefix that the prompt has in common with the sequence stays, the rest is prefilled in
//! chunks ([`Scheduler`]); then, for each token, a [`sampling::Chain`] picks one, the tokenizer's stream turns it into text,
//! stop strings and reasoning tags are looked for, and the token is fed back. A single generation is a [`Batch`] of one.
//!
//! What is absent: model files, recipes and adapter files (`menagerie-open` makes a pipeline of them), arithmetic (a
//! `Backend` computes), and anything that prints.
#![forbid(unsafe_code)]

mod adapter_choice;
mod batch;
mod capability;
mod chat;
mod decode;
mod embed;
mod engine;
mod error;
mod generation;
mod hooks;
mod layers;
mod message;
mod metrics;
mod named;
mod output;
mod pipeline;
mod prefill;
mod prompt;
mod reading;
mod reasoning;
mod request;
pub mod sampling;
mod scheduler;
mod sequence;
mod session;
mod setters;
mod state_file;
mod stats;
mod step;
mod stopping;

pub use adapter_choice::AdapterChoice;
pub use batch::{Batch, Ended, Job, Queue, Task, Ticket};
pub use capability::{ChatCapable, TextStream, Tokenizing};
pub use chat::{ChatEvents, ChatOptions, ChatSession};
pub use embed::{
    DocumentScores, EmbeddingEngine, EmbeddingOptions, EmbeddingPipeline, Normalization, TextTokens,
    Truncation,
};
pub use engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, Engine, with_point};
pub use error::{GenerateError, MissingCapability, TextError};
pub use hooks::{
    Begun, Capture, CaptureOptions, Captured, HOST_OPTIONS, HookKind, HookPlace, HookSite, HookWithOptions,
    Hookable, LayerProfile, Life, MakeHook, NamedHook, PhaseProfile, PipelineHooks, PipelineLifecycle,
    RelayOptions, Relayed, RelayedHead, RelayedSequence, RequestEnd, RequestId, RequestKind, RequestSpans,
    RequestStart, ScalingLog, Steering, StepReport, TraceLane, copied_hook, trace_lanes, write_trace,
};
pub use menagerie_model::{Arithmetic, KvType, Pooling};
pub use message::{ChatMessage, RenderOptions, RenderedPrompt};
pub use metrics::{Counter, Gauge, Histogram, HistogramCounts, Metrics, Outcomes};
pub use named::{check_options, option_pairs};
pub use output::{Step, StepOutput};
pub use pipeline::TextPipeline;
pub use prompt::Prompt;
pub use reading::Reading;
pub use reasoning::{ReasoningSplitter, ReasoningTags, Segment};
pub use request::{Event, EventResponse, Outcome, Request, TokenLogprob};
pub use sampling::{Sampler, SamplerKind, SamplerStep, SamplingError, SamplingOptions, WithOptions};
pub use scheduler::{Scheduler, SchedulerOptions};
pub use sequence::{Sequence, Wanted, snapshot_bytes};
pub use session::{Events, Session};
#[doc(hidden)]
pub use state_file::fuzzing;
pub use state_file::{
    AdapterIdentity, Cacheable, ModelFingerprint, Resumed, SavedConversation, StateFile, StateFileError,
    StateIdentity,
};
pub use stats::{SchedulerCounts, Statistics};
pub use step::OnStep;
pub use stopping::StopReason;
