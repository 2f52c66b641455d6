//! Constraints against an independent validator, on tokenizers of several kinds; calls of tools in every format; what is
//! refused; hostile input.
#![allow(missing_docs, clippy::unwrap_used)]

mod call_tokens;
mod call_walk;
mod calls;
#[path = "../../../loaders/tests/calls/families.rs"]
mod families;
mod forced;
mod hostile;
mod keywords;
mod tokens;
mod walk;
mod walks;
