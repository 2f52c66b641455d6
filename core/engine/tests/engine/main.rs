//! The engine against a scripted model: what is fed, what is sampled, what is shown.
#![allow(missing_docs, clippy::unwrap_used)]

mod answering_again;
mod batch;
mod bounded_steps;
mod byte_text;
mod cancelling;
mod chat;
mod constrained;
mod drafts;
mod drafts_together;
mod drawing;
mod embedding;
mod encoder;
mod events;
mod fixture;
mod generation;
mod prompt_scores;
mod queue;
mod queue_random;
mod rewinding;
mod sequence;
mod tenants;
mod tools;
mod vector_queue;
