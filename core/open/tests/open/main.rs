//! Opening real files: what a file gives, and what runs on it.
#![allow(missing_docs, clippy::unwrap_used)]

mod forged_states;
mod hooks;
mod one_file;
mod opening;
mod profiles;
mod recipes;
mod stopped;
