//! The spec crate against its own specs, the fixtures' metadata, and bad specs.
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod eighty;
mod faults;
mod fixtures;
mod generated;
mod harmless;
mod hf;
mod hostile;
mod hub;
mod language;
mod language_page;
mod made;
mod merge;
mod model;
mod mutated;
mod numbers;
mod outside;
mod published;
mod rope;
mod shown;
