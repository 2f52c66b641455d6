//! `menagerie serve`: models over HTTP, as OpenAI's interface.
//!
//! Each model has a thread that owns its [`Queue`](menagerie::engine::Queue) and its
//! [`VectorQueue`](menagerie::engine::VectorQueue), fed by a channel. A request over HTTP is read on other threads,
//! sent to that thread, and its events come back over a channel of its own. `answer_fold` makes changes of an answer
//! from events; a stream sends the changes, a whole answer is their sum. When a client leaves, the guard of its
//! request is dropped, which cancels it wherever it is.
//!
//! In reading order: `server` (the socket), `http` (what every request passes), `routes`, `prompts` (bodies as
//! prompts), `worker` (the thread of a model), `answering`, `answer_fold`, and the writers `chunk_writer` and
//! `whole_answer`.
#![forbid(unsafe_code)]

mod answer_fold;
mod answering;
mod api_keys;
mod app;
mod blocking;
mod chunk_writer;
mod error;
mod event_stream;
mod fault;
mod http;
mod http_counters;
mod model;
mod options;
mod prompts;
mod routes;
mod server;
mod whole_answer;
mod worker;

pub use api_keys::ApiKeys;
pub use error::ServerError;
pub use model::{ServedModel, TextService, VectorService};
pub use options::{LogFormat, LogSink, ServerOptions};
pub use server::{Server, ServerSocket};
