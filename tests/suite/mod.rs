//! The requirements for a model on any backend: each suite receives the options with which a file is opened, and a
//! macro makes its tests, so that every backend runs the same ones.

pub mod base;
pub mod dropped_in;
pub mod encoders;
pub mod greedy;
pub mod hf_folder;
pub mod quantized;
pub mod zoo;
