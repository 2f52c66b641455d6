//! Prompts, answers and conversations of `run` and `chat`.

pub(crate) mod answer;
pub(crate) mod conversation;
pub(crate) mod lines;
mod message;
pub(crate) mod printer;
mod slash_commands;
