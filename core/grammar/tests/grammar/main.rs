//! Constraints against an independent validator, on tokenizers of several kinds; what is refused; hostile input.
#![allow(missing_docs, clippy::unwrap_used)]

mod forced;
mod hostile;
mod keywords;
mod tokens;
mod walk;
mod walks;
