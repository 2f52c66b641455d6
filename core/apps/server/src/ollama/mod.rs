//! ollama's interface: its bodies as requests of the engine, and answers as lines of JSON.

mod body;
mod line_writer;
mod messages;
mod names;
mod options;
mod pull_lines;

pub(crate) use body::{OllamaBody, OllamaPrompt};
pub(crate) use line_writer::{LineWriter, OllamaRoute, nanoseconds, ollama_error};
pub(crate) use names::{shown_name, take_name};
pub(crate) use options::sampling_options;
pub(crate) use pull_lines::{PullLines, PullWatch};
