//! Steps, sequences and answers: the engine that runs a model.
//!
//! A [`TextPipeline`] is a model with its tokenizer and chat format. These types generate text with it:
//!
//! - a [`Request`] is what a user asks for: sampling, stopping, log probabilities, adapters, priority;
//! - a [`Session`] ([`TextPipeline::session`]) is one sequence that answers prompt after prompt and keeps its state in
//!   between; a [`ChatSession`] ([`TextPipeline::chat`]) also keeps the messages of a conversation;
//! - a [`Queue`] ([`TextPipeline::queue`]) runs many requests together, in steps that they share.
//!
//! An [`EmbeddingPipeline`] makes vectors of texts. Models are stateless: all mutable state is in this crate, and
//! several sessions and queues share one model without a lock.
//!
//! To answer a prompt, the [`Scheduler`] keeps the prefix whose state exists already and prefills the rest in chunks.
//! Then, for each token, a [`Chain`] samples it, the tokenizer's stream decodes it, stop strings and reasoning tags are
//! searched for, and the token is fed back.
//!
//! This crate reads no model files, recipes or adapter files (`menagerie-open` makes a pipeline of them), does no
//! arithmetic (a `Backend` computes), and prints nothing.
#![forbid(unsafe_code)]

mod adapter_choice;
mod capability;
mod chat;
mod constraint;
mod decode;
mod disk_cache;
mod draft;
mod draft_model;
mod embed;
mod engine;
mod error;
mod evaluation;
mod generation;
mod hooks;
mod identity;
mod layers;
mod lens;
mod message;
mod metrics;
mod named;
mod output;
mod pipeline;
mod prefill;
mod prompt;
mod queue;
mod request;
mod sampling;
mod scheduler;
mod sequence;
mod session;
mod setters;
mod state_file;
mod stats;
mod step;
mod step_budget;
mod stopping;

pub use adapter_choice::AdapterChoice;
pub use capability::{ChatCapable, InfillTokens, TextStream, Tokenizing};
pub use chat::{ChatEvents, ChatOptions, ChatSession};
pub use constraint::{Constraint, ConstraintError, ConstraintScope, ConstraintState};
#[doc(hidden)]
pub use disk_cache::block_fuzzing;
pub use disk_cache::{
    CacheFolder, CacheListing, DiskCache, DiskCacheCounts, DiskCacheError, DiskCacheOptions,
};
pub use draft::{
    AnswerPrediction, DraftCost, DraftPace, DraftRequest, DraftSource, DraftToken, Drafter, MAX_DRAFT,
    ModelHead, PromptLookup,
};
pub use draft_model::DraftModel;
pub use embed::{
    DocumentScores, EmbeddingEngine, EmbeddingOptions, EmbeddingPipeline, Normalization, TextTokens,
    Truncation, VectorCompletion, VectorQueue,
};
pub use engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, Engine, with_snapshot_room};
pub use error::{GenerateError, MissingCapability, TextError};
pub use evaluation::Evaluation;
pub use hooks::{
    Capture, CaptureOptions, CaptureSummary, HOST_OPTIONS, HookKind, HookSite, HookTarget, Hookable,
    LayerProfile, NamedHook, PhaseProfile, PipelineHooks, PipelineLifecycle, RecipeOrigin, RelayHeader,
    RelayOptions, RelaySequence, RelayedRows, RequestArrival, RequestEnd, RequestId, RequestKind,
    RequestProgress, RequestSpans, RequestStart, ScalingLog, Steering, StepReport, copied_hook, write_trace,
};
pub use identity::{
    AdapterIdentifier, AdapterIdentity, Cacheable, IdentityError, ModelFingerprint, StateIdentity,
};
pub use lens::{
    LensCell, LensOptions, LensReading, LensRow, LensTable, LensTableRow, LensToken, LogitLens, NamedToken,
};
pub use menagerie_answers::{
    AnswerSyntax, CallLimits, CallShape, CallShapeFault, CallSyntax, ReasoningTags, ToolCall, ToolSet,
    UntilText,
};
pub use menagerie_model::{Arithmetic, KvType, Pooling};
pub use message::{ChatMessage, RenderOptions, RenderedPrompt};
pub use metrics::{Counter, Gauge, Metrics, Outcomes};
pub use named::{check_options, option_pairs};
pub use output::{StepOutput, StepResults};
pub use pipeline::TextPipeline;
pub use prompt::Prompt;
pub use queue::{Completion, Queue};
pub use request::{Event, EventResponse, Outcome, Request, TokenLogprob};
pub use sampling::{
    Chain, ChainStage, Generator, Sampler, SamplerKind, SamplerStep, SamplingError, SamplingOptions,
};
pub use scheduler::{Scheduler, SchedulerOptions};
pub use sequence::{LogitRows, Sequence, snapshot_bytes};
pub use session::{Events, Session};
#[doc(hidden)]
pub use state_file::fuzzing;
pub use state_file::{ResumedState, SavedConversation, StateFile, StateFileError};
pub use stats::{SchedulerCounts, Statistics};
pub use stopping::StopReason;
