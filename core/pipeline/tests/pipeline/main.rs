//! The pipeline against a scripted model: what is fed, what is sampled, what is shown.
#![allow(missing_docs, clippy::unwrap_used)]

mod answering_again;
mod batch;
mod byte_text;
mod chat;
mod drawing;
mod embedding;
mod events;
mod fixture;
mod generation;
mod hooks;
mod lifecycles;
mod measures;
mod one_file;
mod opening;
mod profiles;
mod queue;
mod queue_random;
mod rewinding;
mod sequence;
