//! Menagerie runs language models whose architecture is **data**: a TOML file says what a model is made of, the core
//! assembles it and runs it fast. This crate is the façade: a guide, and every crate of the core as a module.
//!
//! # Load
//!
//! ```no_run
//! use menagerie::pipeline::{LoadOptions, TextPipeline};
//! # // In an application: `use menagerie_all as _;`, or no architecture is linked in.
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pipeline = TextPipeline::open("model.gguf", &LoadOptions::default())?;
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
//! ```no_run
//! use menagerie::pipeline::{Event, LoadOptions, Request, TextPipeline};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pipeline = TextPipeline::open("model.gguf", &LoadOptions::default())?;
//! let prompt = pipeline.tokenizer()?.encode_prompt("The capital of France is")?;
//! let mut session = pipeline.session()?;
//! let outcome = session.generate(&prompt, &Request::greedy(32), &mut |event| {
//!     if let Event::Text(text) = event {
//!         print!("{text}");
//!     }
//! })?;
//! println!("\n{}, {}", outcome.reason, outcome.statistics);
//!
//! let mut chat = pipeline.chat()?;
//! chat.set_system("Answer in one sentence.");
//! chat.send("Why is the sky blue?", &Request::greedy(64), &mut |_| {})?;
//! println!("{}", chat.to_json()?);
//! # Ok(())
//! # }
//! ```
//!
//! Models are stateless: every [`Session`](pipeline::Session) owns its state, and several run on one model without a
//! lock.
//!
//! # Inspect
//!
//! What a file is made of, where each value came from, and its logits:
//!
//! ```no_run
//! use menagerie::pipeline::{LoadOptions, LogitsOptions, TextPipeline};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pipeline = TextPipeline::open("model.gguf", &LoadOptions::default())?;
//! if let Some(resolved) = pipeline.resolved() {
//!     println!("{} from {}", resolved.spec.id(), resolved.origin);
//!     for fact in resolved.resolution.from_spec_only() {
//!         println!("{} = {} ({})", fact.path, fact.value, fact.origin);
//!     }
//! }
//! let logits = pipeline.logits(&[1, 2, 3], &LogitsOptions::default())?;
//! println!("{} rows of {}", logits.rows(), logits.vocabulary);
//! # Ok(())
//! # }
//! ```
//!
//! # Sample
//!
//! [`SamplingOptions`](pipeline::SamplingOptions) names llama.cpp's options;
//! [`TextPipeline::sampling_defaults`](pipeline::TextPipeline::sampling_defaults) gives what the file recommends. A
//! chain can also be put together from parts:
//!
//! ```
//! use menagerie::pipeline::sampling::{Chain, Generator, MinP, Random, Temperature};
//!
//! let seed = 7;
//! let pick = Random::new(Generator::new(seed));
//! let mut chain = Chain::new(vec![Box::new(MinP { p: 0.1, min_keep: 1 }), Box::new(Temperature(0.7))], Box::new(pick), seed);
//! // Only token 1 is at least a tenth as likely as the best.
//! assert_eq!(chain.sample(&[0.0, 9.0, 1.0], &[])?, 1);
//! # Ok::<(), menagerie::pipeline::SamplingError>(())
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
#[cfg(feature = "hub")]
pub use menagerie_hub as hub;
pub use menagerie_kernels as kernels;
pub use menagerie_loaders as loaders;
pub use menagerie_model as model;
pub use menagerie_pipeline as pipeline;
#[cfg(feature = "plugins")]
pub use menagerie_plugin_host as plugin_host;
pub use menagerie_quantise as quantise;
pub use menagerie_registry as registry;
pub use menagerie_spec as spec;
pub use menagerie_stages as stages;
#[cfg(feature = "synth")]
pub use menagerie_synth as synth;
