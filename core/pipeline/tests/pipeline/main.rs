//! The pipeline against a scripted model: what is fed, what is sampled, what is shown.
#![allow(missing_docs, clippy::unwrap_used)]

mod batch;
mod byte_text;
mod chat;
mod embedding;
mod fixture;
mod generation;
mod hooks;
mod lifecycles;
mod measures;
mod opening;
mod queue;
mod queue_random;
mod rewinding;
mod sequence;
