//! The pipeline against a scripted model: what is fed, what is sampled, what is shown.
#![allow(missing_docs, clippy::unwrap_used)]

mod byte_text;
mod chat;
mod fake_model;
mod generation;
mod measures;
mod opening;
mod sequence;
