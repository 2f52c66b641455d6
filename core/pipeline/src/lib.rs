//! From a file to text: opening a model, prefill, decode, sampling, stopping, conversations, statistics; and to vectors.
//!
//! [`TextPipeline::open`] gives a pipeline; [`TextPipeline::session`] a sequence of its own that [`Session::generate`]s
//! from token ids; [`TextPipeline::chat`] a conversation; [`TextPipeline::batch`] several sequences that share steps.
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
mod base_file;
mod batch;
mod bench;
mod bench_together;
mod beside;
mod breakers;
mod capability;
mod capture;
mod chat;
mod control;
mod device;
mod divergence;
mod embedding;
mod encoder;
mod engine;
mod error;
mod fingerprint;
mod generation;
mod hooks;
mod importance;
mod lifecycle;
mod load;
mod load_error;
mod logits;
mod memory;
mod merge;
mod metrics;
mod mixture;
mod notice;
mod open;
mod options;
mod perplexity;
mod pipeline;
mod profile;
mod queue;
mod reasoning;
mod recipe;
mod requantise;
mod request;
mod resolve;
mod run;
pub mod sampling;
mod scalings;
mod scheduler;
mod scoring;
mod sequence;
mod session;
mod stages;
mod state_file;
mod statistics;
mod step;
mod stop;
mod tables;
mod text;
mod text_out;

pub use adapters::{Adapted, LoadedAdapters};
pub use base_file::{BaseReader, BaseText, BaseWriter, encode_row};
pub use batch::{Batch, Job};
pub use bench::{BenchOptions, BenchProgress, BenchResult, Rate, bench};
pub use bench_together::{TogetherOptions, TogetherResult, bench_together};
pub use beside::Beside;
pub use capability::{Cacheable, ChatCapable, MissingCapability, TextStream, Tokenizing};
pub use capture::{Capture, CaptureOptions, Captured};
pub use chat::{ChatMessage, ChatOptions, ChatSession, RenderOptions, RenderedPrompt};
pub use control::{
    ControlVector, ControlVectorError, DirectionMethod, GivenControlVector, PromptPair, Steering,
    SteeringOptions, make_control_vector,
};
pub use device::{Device, DeviceLine, DeviceName, DeviceOptions, devices};
pub use divergence::{Divergence, Estimate};
pub use embedding::{EmbeddingEngine, EmbeddingOptions, Normalisation};
pub use encoder::EmbeddingPipeline;
pub use engine::Engine;
pub use error::{GenerateError, TextError};
pub use hooks::PipelineHooks;
pub use importance::ImportanceCollector;
pub use lifecycle::{PipelineLifecycle, RequestEnd, RequestId, RequestStart, StepReport};
pub use load::registry;
pub use load_error::LoadError;
pub use logits::{Logits, LogitsOptions, logits, logits_by_step};
pub use memory::{MemoryEstimate, available as available_memory};
pub use menagerie_kernels::HalfPrompts;
pub use menagerie_model::{Arithmetic, KvType, Pooling};
pub use merge::{Merge, MergeProgress, MergedTensors};
pub use metrics::{Counter, Gauge, Histogram, HistogramCounts, Metrics, Outcomes};
pub use mixture::{
    GateExample, GateFile, GateRows, GateScore, GateTrainer, GateTrainingOptions, GivenExpert, GivenGate,
    GivenMixture, LayerGate,
};
pub use notice::Notice;
pub use options::{
    DEFAULT_CHUNK, DEFAULT_CONTEXT, GivenAdapter, GivenTemplate, KeyOptions, LoadOptions, LoadWrapper,
};
pub use perplexity::{
    Against, PerplexityOptions, PerplexityProgress, PerplexityResult, TextChunks, perplexity,
};
pub use pipeline::{PipelineParts, TextPipeline};
pub use profile::{LayerProfile, PhaseProfile, RequestSpans, TraceLane, write_trace};
pub use queue::{Ended, Queue, Task, Ticket};
pub use reasoning::{ReasoningSplitter, ReasoningTags, Segment};
pub use recipe::{FilesOnly, Ingredients, Locate, is_recipe};
pub use requantise::{LoadProgress, LoadQuantisation};
pub use request::{Event, Outcome, Request, StopReason, TokenLogprob};
pub use resolve::ResolvedFile;
pub use sampling::{
    Sampler, SamplerKind, SamplerStep, SamplingError, SamplingOptions, WithOptions, add_sampler,
    added_samplers,
};
pub use scalings::ScalingLog;
pub use scheduler::{OnStep, Scheduler, SchedulerCounts, SchedulerOptions};
pub use sequence::{Sequence, Wanted};
pub use session::Session;
pub use stages::{StageLauncher, StageOptions, StagePlace, StageProbe, StageSplit, StageStart, serve_stage};
pub use state_file::{Resumed, SavedConversation, StateFile, StateFileError, StateIdentity};
pub use statistics::Statistics;
pub use step::{Step, StepPart};
pub use tables::tokenizer_tables;
