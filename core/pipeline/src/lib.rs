//! From a file to text: opening a model, prefill, decode, sampling, stopping, conversations, statistics; and to vectors.
//!
//! [`TextPipeline::open`] gives a pipeline; [`TextPipeline::session`] a sequence of its own that [`Session::generate`]s
//! from text or token ids; [`TextPipeline::chat`] a conversation; [`TextPipeline::batch`] several sequences that share steps.
//! [`EmbeddingPipeline`] is the same for encoders. Models are stateless: every piece of mutable state is here, and several
//! sessions run on one model without a lock.
//!
//! One generation, step by step: the prompt's common prefix with what is held stays, the rest is prefilled in chunks
//! ([`Scheduler`]); then per token a [`sampling::Chain`] takes one, the tokenizer's stream turns it into text, stop strings
//! and reasoning are looked for, and it is fed back. A single generation is a [`Batch`] of one.
//!
//! What is absent: file formats (`assembly::ModelFile` stands for them), arithmetic (a `Backend` computes), and anything
//! that prints.
#![forbid(unsafe_code)]

mod adapters;
mod batch;
mod bench;
mod capability;
mod config;
mod control;
mod decode;
mod embed;
mod engine;
mod error;
mod generate;
mod hooks;
mod importance;
mod init;
mod layers;
mod logits;
mod merge;
mod mixture;
mod named;
mod output;
mod perplexity;
mod pipeline;
mod prefill;
mod reading;
pub mod sampling;
mod scheduler;
mod sequence;
mod setters;
mod stages;
mod state_file;
mod stats;
mod step;
mod stopping;

pub use adapters::{Adapted, LoadedAdapters};
pub use batch::{Batch, Ended, Job, Queue, Task, Ticket};
pub use bench::{
    BenchOptions, BenchProgress, BenchResult, Rate, TogetherOptions, TogetherResult, bench, bench_together,
};
pub use capability::{Cacheable, ChatCapable, Hookable, MissingCapability, TextStream, Tokenizing};
pub use config::{
    Beside, DEFAULT_CHUNK, DEFAULT_CONTEXT, Device, DeviceLine, DeviceName, DeviceOptions, FilesOnly,
    GivenAdapter, GivenTemplate, Ingredients, KeyOptions, LoadOptions, LoadWrapper, Locate, devices,
    is_recipe,
};
pub use control::{
    ControlVector, ControlVectorError, DirectionMethod, GivenControlVector, PromptPair, Steering,
    SteeringOptions, make_control_vector,
};
pub use embed::{
    DocumentScores, EmbeddingEngine, EmbeddingOptions, EmbeddingPipeline, Normalization, TextTokens,
    Truncation,
};
pub use engine::Engine;
pub use error::{GenerateError, TextError};
pub use generate::{
    ChatEvents, ChatMessage, ChatOptions, ChatSession, Event, EventResponse, Events, Outcome, Prompt,
    ReasoningSplitter, ReasoningTags, RenderOptions, RenderedPrompt, Request, Segment, Session, TokenLogprob,
};
pub use hooks::{
    Capture, CaptureOptions, Captured, HOST_OPTIONS, HookKind, HookSite, HookWithOptions, LayerProfile,
    MakeHook, NamedHook, PhaseProfile, PipelineHooks, PipelineLifecycle, RelayOptions, Relayed, RelayedHead,
    RelayedSequence, RequestEnd, RequestId, RequestKind, RequestSpans, RequestStart, ScalingLog, StepReport,
    TraceLane, trace_lanes, write_trace,
};
pub use importance::ImportanceCollector;
pub use init::{
    LoadError, LoadProgress, LoadQuantization, MemoryEstimate, ModelFingerprint, Notice, OpenedFile,
    ResolvedFile, available as available_memory, environment, tokenizer_tables, total as total_memory,
};
pub use logits::{Logits, LogitsOptions, logits, logits_by_step};
pub use menagerie_kernels::HalfPrompts;
pub use menagerie_model::{Arithmetic, KvType, Pooling};
pub use merge::{Merge, MergeProgress, MergedTensors};
pub use mixture::{
    GateExample, GateFile, GateRows, GateScore, GateTrainer, GateTrainingOptions, GivenExpert, GivenGate,
    GivenMixture, LayerGate,
};
pub use output::{Step, StepOutput};
pub use perplexity::{
    Against, BaseReader, BaseText, BaseWriter, Divergence, Estimate, PerplexityOptions, PerplexityProgress,
    PerplexityResult, TextChunks, encode_row, perplexity,
};
pub use pipeline::{PipelineParts, TextPipeline};
pub use sampling::{Sampler, SamplerKind, SamplerStep, SamplingError, SamplingOptions, WithOptions};
pub use scheduler::{Scheduler, SchedulerCounts, SchedulerOptions};
pub use sequence::{Sequence, Wanted};
pub use stages::{
    StageLauncher, StageOptions, StagePlace, StageProbe, StageSplit, StageStart, refuse_stage, serve_stage,
};
#[doc(hidden)]
pub use state_file::fuzzing;
pub use state_file::{Resumed, SavedConversation, StateFile, StateFileError, StateIdentity};
pub use stats::{Counter, Gauge, Histogram, HistogramCounts, Metrics, Outcomes, Statistics};
pub use step::OnStep;
pub use stopping::StopReason;
