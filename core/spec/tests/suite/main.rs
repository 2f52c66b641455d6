//! The spec crate against its own specs, the fixtures' metadata, and bad specs.
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod converter;
mod faults;
mod fixtures;
mod language;
mod merge;
mod model;
mod published;
mod rope;
mod shown;
