//! What the tests of plugins share: the library of the probe, with changes in its bytes, and a model that its parts make.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod beside;
mod model;
mod probe;

pub use beside::library_beside;
pub use model::{LAYERS, Model, VOCABULARY, WIDTH};
pub use probe::Probe;
