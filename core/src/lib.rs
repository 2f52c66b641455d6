//! Menagerie runs language models whose architecture is **data**: a TOML file says what a model is made of, the core
//! assembles it and runs it fast. This crate is the façade: a guide, and every crate of the core as a module.
//!
//! # Load
//!
//! ```no_run
//! use menagerie::open::{LoadOptions, open_text};
//! # // In an application: `use menagerie_all as _;`, or no architecture is linked in.
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pipeline = open_text("model.gguf", &LoadOptions::default())?;
//! for notice in pipeline.notices() {
//!     eprintln!("note: {notice}");
//! }
//! println!("{} tokens of context, {}", pipeline.context(), pipeline.memory());
//! # Ok(())
//! # }
//! ```
//!
//! The file's `general.architecture` is looked up in the [`registry`]; its [`spec`] is resolved against the keys and
//! tensors of the file, all faults at once; [`assembly`] maps the weights onto blocks of the [`model`] crate; tokenizer
//! and chat template come from the [`loaders`]. A binary, test or bench must link the architectures with
//! `use menagerie_all as _;`.
//!
//! # Run
//!
//! A prompt is text, token ids or a rendered conversation. The callback hears what happens, and stops the generation by
//! returning `ControlFlow::Break`; one that returns nothing never does.
//!
//! ```
//! use menagerie::engine::{Event, Request, StopReason};
//! use menagerie::open::{LoadOptions, open_text};
//! use std::ops::ControlFlow;
//! # use menagerie_all as _;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! let pipeline = open_text(model, &LoadOptions::default())?;
//! let mut session = pipeline.session()?;
//! let request = Request::greedy(32).with_stop(vec!["\n\n".to_owned()]);
//! let outcome = session.generate("The capital of France is", &request, |event| {
//!     if let Event::Text(text) = event {
//!         print!("{text}");
//!     }
//! })?;
//! println!("\n{}, {}", outcome.reason, outcome.statistics);
//!
//! let outcome = session.generate("The capital of France is", &request, |event| match event {
//!     Event::Token { .. } => ControlFlow::Break(()),
//!     _ => ControlFlow::Continue(()),
//! })?;
//! assert_eq!((outcome.reason, outcome.tokens.len()), (StopReason::Cancelled, 1));
//! # Ok(())
//! # }
//! ```
//!
//! The same as an iterator, over events, text or tokens. Dropping it cancels the generation, and the session can be used again:
//!
//! ```
//! # use menagerie::engine::Request;
//! # use menagerie::open::{LoadOptions, open_text};
//! # use menagerie_all as _;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/base/llama/model-f32.gguf");
//! # let pipeline = open_text(model, &LoadOptions::default())?;
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
//! A conversation, for models with a chat template:
//!
//! ```no_run
//! # use menagerie::engine::Request;
//! # use menagerie::open::{LoadOptions, open_text};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pipeline = open_text("model.gguf", &LoadOptions::default())?;
//! let mut chat = pipeline.chat()?;
//! chat.set_system("Answer in one sentence.");
//! let outcome = chat.send("Why is the sky blue?", &Request::greedy(64), |_| {})?;
//! println!("{}\n{}", outcome.text, chat.to_json()?);
//! # Ok(())
//! # }
//! ```
//!
//! Models are stateless: every [`Session`](engine::Session) owns its state, and several run on one model without a
//! lock.
//!
//! # Open by name
//!
//! With the feature `hub`, `menagerie::hub` finds models by the names that the command line takes (`smollm2`, `org/repo`,
//! `org/repo:Q4_K_M`) and downloads what is missing. The example `open_by_name` is a whole program:
//!
//! ```text
//! let hub = Hub::new(HubSettings::of_process());
//! let path = hub.obtain(&ModelReference::parse("smollm2")?, &mut Silent)?;
//! let pipeline = open_text(path, &LoadOptions::default())?;
//! ```
//!
//! # Options
//!
//! Options begin with their defaults and are changed by methods, or by their fields; new ones may come with any version:
//!
//! ```
//! use menagerie::engine::{Arithmetic, Request, SamplingOptions};
//! use menagerie::open::LoadOptions;
//!
//! let load = LoadOptions::default().with_context(4096).with_arithmetic(Arithmetic::Exact);
//! let sampling = SamplingOptions::default().with_temperature(0.7).with_seed(42);
//! let mut request = Request::default().with_sampling(sampling).with_max_tokens(256);
//! request.ignore_eos = true;
//! assert_eq!((load.context, request.sampling.seed, request.max_tokens), (Some(4096), Some(42), Some(256)));
//! ```
//!
//! # Inspect
//!
//! What a file is made of, where each value came from, and its logits:
//!
//! ```no_run
//! use menagerie::measure::{LogitsOptions, logits};
//! use menagerie::open::{LoadOptions, open_text};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pipeline = open_text("model.gguf", &LoadOptions::default())?;
//! let resolved = pipeline.resolved();
//! println!("{} from {}", resolved.spec.id(), resolved.origin);
//! for fact in resolved.resolution.from_spec_only() {
//!     println!("{} = {} ({})", fact.path, fact.value, fact.origin);
//! }
//! let logits = logits(&pipeline, &[1, 2, 3], &LogitsOptions::default())?;
//! println!("{} rows of {}", logits.rows(), logits.vocabulary);
//! # Ok(())
//! # }
//! ```
//!
//! # Sample
//!
//! [`SamplingOptions`](engine::SamplingOptions) names llama.cpp's options;
//! [`TextPipeline::sampling_defaults`](engine::TextPipeline::sampling_defaults) gives what the file recommends. A
//! chain can also be put together from parts:
//!
//! ```
//! use menagerie::engine::sampling::{Chain, Generator, MinP, Random, Temperature};
//!
//! let seed = 7;
//! let pick = Random::new(Generator::new(seed));
//! let mut chain = Chain::new(vec![Box::new(MinP { p: 0.1, min_keep: 1 }), Box::new(Temperature(0.7))], Box::new(pick), seed);
//! // Only token 1 is at least a tenth as likely as the best.
//! assert_eq!(chain.sample(&[0.0, 9.0, 1.0], &[])?, 1);
//! # Ok::<(), menagerie::engine::SamplingError>(())
//! ```
//!
//! # Add an architecture
//!
//! Put a TOML file into a spec folder (`--spec-dir`, `MENAGERIE_SPEC_DIR`, the user's data folder, `./menagerie.d`):
//! [`registry`] finds it at the next call. No crate, no rebuild.
#![forbid(unsafe_code)]

pub use gguf_file as gguf;
pub use menagerie_adapters as adapters;
pub use menagerie_assembly as assembly;
#[cfg(feature = "candle")]
pub use menagerie_candle as candle;
#[cfg(feature = "convert")]
pub use menagerie_convert as convert;
pub use menagerie_cpu as cpu;
pub use menagerie_engine as engine;
pub use menagerie_files as files;
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
