//! Anthropic's interface: bodies of messages as requests of the engine, answers as messages, and errors.

mod blocks;
mod body;
mod error;
mod message_writer;

pub(crate) use body::{MessagesBody, MessagesPurpose};
pub(crate) use error::{anthropic_error, anthropic_status};
pub(crate) use message_writer::MessageWriter;
