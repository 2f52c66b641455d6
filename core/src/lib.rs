//! Menagerie runs language models whose architecture is **data**: a TOML spec describes the parts of a model, and the core
//! assembles them and runs them fast. This crate is the façade: the names below, with a guide, and every crate of the core
//! as a module behind them.
//!
//! | group | names |
//! |---|---|
//! | open | [`ModelBuilder`], [`LoadOptions`], [`LoadedModel`], [`LoadError`], [`MemoryEstimate`], [`Notice`], [`Environment`] |
//! | generate | [`TextPipeline`], [`Session`], [`Request`], [`SamplingOptions`], [`Event`], [`Outcome`], [`StopReason`], [`Statistics`], [`ChatSession`], [`ChatMessage`], [`Queue`], [`SchedulerOptions`], [`EmbeddingPipeline`], [`EmbeddingOptions`], [`Truncation`], [`GenerateError`] |
//! | describe | [`ResolvedFile`], [`ArchSpec`], [`GgufFile`], [`logits`](fn@logits), [`Logits`], [`LogitsOptions`] |
//!
//! The built-in architectures are linked in by the default feature `architectures`. Without it a program links its own.
//!
//! # Open
//!
//! ```
//! use menagerie::{LoadError, LoadOptions, LoadedModel, MemoryEstimate, ModelBuilder, Notice, TextPipeline};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! let options = LoadOptions::default().with_context(512);
//! let loaded: LoadedModel<TextPipeline> = ModelBuilder::new(model).with_options(&options).open_text()?;
//! let (notices, memory): (&[Notice], &MemoryEstimate) = (loaded.notices(), loaded.memory());
//! notices.iter().for_each(|notice| eprintln!("note: {notice}"));
//! println!("{}: {} tokens of context, {memory}", loaded.architecture(), loaded.context());
//! assert_eq!((loaded.architecture(), loaded.context()), ("llama", 512));
//!
//! let missing: Result<_, LoadError> = ModelBuilder::new("no-such-model.gguf").with_options(&options).open_text();
//! assert!(missing.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! The file's `general.architecture` is looked up in an [`Environment`]; its [`spec`] is resolved against the keys and
//! tensors of the file, with all faults at once; [`assembly`] maps the weights onto blocks of the [`model`] crate; tokenizer
//! and chat template come from the [`loaders`]. An environment holds everything that is installed: what is linked in, and
//! what spec folders and plugins add. [`ModelBuilder`] makes one from the options; a program can keep its own:
//!
//! ```
//! use menagerie::{Environment, ModelBuilder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! let environment = Environment::linked()?;
//! assert!(environment.architecture("llama").is_some());
//! let loaded = ModelBuilder::new(model).with_environment(&environment).open_text()?;
//! # assert_eq!(loaded.architecture(), "llama");
//! # Ok(())
//! # }
//! ```
//!
//! A model can also be a recipe (`NAME.recipe.toml`): its base, adapters, mixture, keys and chat template are opened as
//! the command line opens them. A recipe names files, or references that a [`Locate`](open::Locate) finds. With the
//! feature `hub`, `menagerie::hub` finds models by the names that the command line accepts (`smollm2`, `org/repo`,
//! `org/repo:Q4_K_M`) and downloads what is missing; the example `open_by_name` is a whole program with a `Locate`.
//!
//! Options are grouped by subject: weights, context, placement, specs, keys and composition. They start with their
//! defaults and are changed by methods or by their fields; any version may add new ones:
//!
//! ```
//! use menagerie::open::Device;
//! use menagerie::{LoadOptions, ModelBuilder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! let mut options = LoadOptions::default().with_device(Device::named("cpu")?).with_threads(2);
//! options.weights.mmap = false;
//! options.context.chunk = 128;
//! let loaded = ModelBuilder::new(model).with_options(&options).open_text()?;
//! # assert_eq!(loaded.architecture(), "llama");
//! # Ok(())
//! # }
//! ```
//!
//! # Generate
//!
//! A prompt is text, token ids or a rendered conversation. The callback receives the events of the generation, and stops it
//! by returning `ControlFlow::Break`; a callback that returns nothing never stops it.
//!
//! ```
//! use menagerie::{Event, ModelBuilder, Outcome, Request, SamplingOptions, Session, Statistics, StopReason};
//! use std::ops::ControlFlow;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! let pipeline = ModelBuilder::new(model).open_text()?;
//! let mut session: Session = pipeline.session()?;
//! let sampling = SamplingOptions::default().with_temperature(0.7).with_seed(42);
//! let request = Request::default().with_sampling(sampling).with_max_tokens(32).with_stop(vec!["\n\n".to_owned()]);
//! let outcome: Outcome = session.generate("The capital of France is", &request, |event| {
//!     if let Event::Text(text) = event {
//!         print!("{text}");
//!     }
//! })?;
//! let statistics: &Statistics = &outcome.statistics;
//! println!("\n{}, {statistics}", outcome.reason);
//!
//! let outcome = session.generate("The capital of France is", &Request::greedy(32), |event| match event {
//!     Event::Token { .. } => ControlFlow::Break(()),
//!     _ => ControlFlow::Continue(()),
//! })?;
//! assert_eq!((outcome.reason, outcome.tokens.len()), (StopReason::Cancelled, 1));
//! # Ok(())
//! # }
//! ```
//!
//! The same as an iterator, over events, text or tokens. Dropping it cancels the generation, and the session can be used
//! again:
//!
//! ```
//! # use menagerie::{ModelBuilder, Request};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! # let pipeline = ModelBuilder::new(model).open_text()?;
//! # let mut session = pipeline.session()?;
//! let request = Request::greedy(8);
//! for text in session.events("Once upon a time", &request).text() {
//!     print!("{}", text?);
//! }
//! let mut events = session.events("Once upon a time", &request);
//! for event in events.by_ref() {
//!     println!("{:?}", event?);
//! }
//! println!("{}", events.into_outcome()?.statistics);
//! # Ok(())
//! # }
//! ```
//!
//! A conversation, with the chat template of the file:
//!
//! ```
//! use menagerie::{ChatMessage, ChatSession, LoadOptions, ModelBuilder, Request};
//! # use menagerie::open::TemplateSource;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! # let source = "{% for message in messages %}{{ message.role }}: {{ message.content }} {% endfor %}".to_owned();
//! # let template = TemplateSource { name: "example".to_owned(), source };
//! # let pipeline = ModelBuilder::new(model).with_options(&LoadOptions::default().with_chat_template(template)).open_text()?;
//! let mut chat: ChatSession = pipeline.chat()?;
//! chat.set_system("Answer in one sentence.");
//! let outcome = chat.send("Why is the sky blue?", &Request::greedy(16), |_| {})?;
//! println!("{}\n{}", outcome.text, chat.to_json()?);
//! assert_eq!(chat.messages()[1], ChatMessage::user("Why is the sky blue?"));
//! # Ok(())
//! # }
//! ```
//!
//! Models are stateless: every [`Session`] owns its state, and several run on one model without a lock. The requests of
//! a [`Queue`] share their steps, which is faster than one session after the other:
//!
//! ```
//! use menagerie::{ModelBuilder, Queue, Request, SchedulerOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! # let pipeline = ModelBuilder::new(model).open_text()?;
//! let mut queue: Queue = pipeline.queue(SchedulerOptions::default().with_sequences(2))?;
//! for prompt in ["One", "Two", "Three"] {
//!     queue.submit(prompt, &Request::greedy(8));
//! }
//! for (_, outcome) in queue.run(|_, _| {}) {
//!     println!("{}", outcome?.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Vectors of texts, for models that embed:
//!
//! ```
//! use menagerie::{EmbeddingOptions, EmbeddingPipeline, GenerateError, LoadedModel, ModelBuilder, Truncation};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/zoo/bert/model-f16.gguf");
//! let loaded: LoadedModel<EmbeddingPipeline> = ModelBuilder::new(model).open_embedding()?;
//! let tokens = loaded.tokens("A text", Truncation::End)?.tokens;
//! let vectors: Vec<Result<Vec<f32>, GenerateError>> = loaded.embed(&[&tokens], &EmbeddingOptions::default());
//! for vector in vectors {
//!     println!("{:?}", vector?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Describe
//!
//! The content of a file, the origin of each value, and logits:
//!
//! ```
//! use menagerie::{ArchSpec, GgufFile, Logits, LogitsOptions, ModelBuilder, ResolvedFile, logits};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! let file = GgufFile::open(model, &Default::default())?;
//! println!("{} tensors, {} bytes", file.tensors().len(), file.file_bytes());
//!
//! let loaded = ModelBuilder::new(model).open_text()?;
//! let resolved: &ResolvedFile = loaded.resolved();
//! let spec: &ArchSpec = &resolved.spec;
//! println!("{} from {}", spec.id(), resolved.origin);
//! for value in resolved.resolution.from_spec_only() {
//!     println!("{} = {} ({})", value.path, value.value, value.origin);
//! }
//! let found: Logits = logits(&loaded, &[1, 2, 3], &LogitsOptions::default())?;
//! assert_eq!(found.rows(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! # Sample
//!
//! [`SamplingOptions`] has the options of llama.cpp; [`TextPipeline::sampling_defaults`] returns what the file
//! recommends. A step of your own is a [`Sampler`](engine::Sampler) in the field `samplers`. A chain also samples from
//! logits without a model:
//!
//! ```
//! use menagerie::SamplingOptions;
//! use menagerie::engine::Chain;
//!
//! let options = SamplingOptions::default().with_min_p(0.1).with_temperature(0.7).with_seed(7);
//! let mut chain = Chain::from_options(&options)?;
//! // Only token 1 is at least a tenth as likely as the best.
//! assert_eq!(chain.sample(&[0.0, 9.0, 1.0], &[])?, 1);
//! # Ok::<(), menagerie::engine::SamplingError>(())
//! ```
//!
//! # Add an architecture
//!
//! Put a TOML file into a spec folder (`--spec-dir`, `MENAGERIE_SPEC_DIR`, the user's data folder, `./menagerie.d`): it is
//! found when the next environment is made. No crate, no rebuild.
#![forbid(unsafe_code)]

// Architectures register themselves when they are linked.
#[cfg(feature = "architectures")]
use menagerie_all as _;

pub use gguf_file::GgufFile;
pub use menagerie_engine::{
    ChatMessage, ChatSession, EmbeddingOptions, EmbeddingPipeline, Event, GenerateError, Outcome, Queue,
    Request, SamplingOptions, SchedulerOptions, Session, Statistics, StopReason, TextPipeline, Truncation,
};
pub use menagerie_measure::{Logits, LogitsOptions, logits};
pub use menagerie_open::{
    LoadError, LoadOptions, LoadedModel, MemoryEstimate, ModelBuilder, Notice, ResolvedFile,
};
pub use menagerie_registry::Environment;
pub use menagerie_spec::ArchSpec;

pub use gguf_file as gguf;
pub use menagerie_adapters as adapters;
pub use menagerie_answers as answers;
pub use menagerie_assembly as assembly;
#[cfg(feature = "candle")]
pub use menagerie_candle as candle;
#[cfg(feature = "cluster")]
pub use menagerie_cluster as cluster;
#[cfg(feature = "convert")]
pub use menagerie_convert as convert;
pub use menagerie_cpu as cpu;
pub use menagerie_engine as engine;
pub use menagerie_files as files;
#[cfg(feature = "grammar")]
pub use menagerie_grammar as grammar;
#[cfg(feature = "hub")]
pub use menagerie_hub as hub;
pub use menagerie_kernels as kernels;
pub use menagerie_loaders as loaders;
pub use menagerie_measure as measure;
pub use menagerie_model as model;
pub use menagerie_open as open;
#[cfg(feature = "plugins")]
pub use menagerie_plugin_host as plugin_host;
pub use menagerie_quantize as quantize;
pub use menagerie_registry as registry;
pub use menagerie_spec as spec;
pub use menagerie_stages as stages;
#[cfg(feature = "synth")]
pub use menagerie_synth as synth;
