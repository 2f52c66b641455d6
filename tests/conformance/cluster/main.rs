//! Stages of a cluster over zenoh give the bits of the whole model; what does not fit together is refused by name.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

mod bits;
mod refusals;
mod requests;
mod stages;
