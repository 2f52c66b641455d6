//! `menagerie serve`: models over HTTP, as OpenAI's interface, and as those of Anthropic, ollama and llama-server.
//!
//! Each model has a thread that owns its [`Queue`](menagerie::engine::Queue) and its
//! [`VectorQueue`](menagerie::engine::VectorQueue), fed by a channel. A request over HTTP is read on other threads,
//! sent to that thread, and its events come back over a channel of its own. `answer_fold` makes changes of an answer
//! from events; a stream sends the changes, a whole answer is their sum. When a client leaves, the guard of its
//! request is dropped, which cancels it wherever it is.
//!
//! `slots` has the models: opened when a request names them, dropped when memory is needed.
//!
//! In reading order: `server` (the socket), `slots`, `http` (what every request passes), `routes`, `prompts` (bodies as
//! prompts), `worker` (the thread of a model), `answering`, `answer_fold`, `answer_writer` and the writers of each
//! interface, such as `chunk_writer` and `response_writer`; `page_file` and `page` for the web page.
#![forbid(unsafe_code)]

mod answer_fold;
mod answer_times;
mod answer_writer;
mod answering;
mod anthropic;
mod api_keys;
mod app;
mod batch_run;
mod batch_runner;
mod blocking;
mod chunk_writer;
mod deadline;
mod error;
mod event_log;
mod event_stream;
mod fault;
mod fault_format;
mod http;
mod http_counters;
mod infill_writer;
mod library;
mod log_thread;
mod lora_table;
mod model;
mod model_abilities;
mod model_card;
mod object_fields;
mod observer;
mod ollama;
mod options;
mod page;
mod page_file;
mod prompts;
mod puller;
mod pulls;
mod reading_model;
mod reasoning_switch;
mod reloading;
mod response_output;
mod response_writer;
mod routes;
mod running_model;
mod served_model;
mod server;
mod slots;
#[cfg(feature = "opentelemetry")]
mod spans;
mod stored;
mod tls;
mod utc_time;
mod whole_answer;
mod worker;

pub use answer_times::AnswerTimes;
pub use api_keys::ApiKeys;
pub use error::ServerError;
pub use library::{LibraryChange, LibraryError, LibraryModel, LoadMeter, ModelLibrary};
pub use model::{TextService, VectorService};
pub use model_card::ModelCard;
pub use observer::{FinishedRequest, ObservedRequest, RequestObserver};
pub use options::{LogFormat, LogSink, ServerOptions};
pub use puller::{ModelPuller, PullMeter};
pub use served_model::ServedModel;
pub use server::{Server, ServerSocket};
#[cfg(feature = "opentelemetry")]
pub use spans::OtlpExport;
pub use tls::TlsFiles;
