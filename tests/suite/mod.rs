//! What a model must show, whatever computes it: each suite is given the options that a file is opened with, and a macro
//! makes its tests, so that every backend runs the same ones.

pub mod base;
pub mod dropped_in;
pub mod encoders;
pub mod greedy;
pub mod hf_folder;
pub mod quantized;
pub mod zoo;
