//! What a model writes in an answer: reasoning, text and calls of tools.
//!
//! The formats are data: a [`CallFormat`] describes how a model writes a call, [`ReasoningTags`] and [`ContentTags`]
//! what surrounds reasoning and text. An [`AnswerSyntax`] has those of one conversation, and one [`AnswerParser`] reads
//! every format: it receives an answer in pieces of any size, and returns [`AnswerPart`]s. The whole answer is the sum
//! of these parts, however the text was cut.
//!
//! The crate reads no files (`menagerie-loaders` reads the formats from tables, and verifies them with a model's chat
//! template) and runs no model.

#![forbid(unsafe_code)]

mod call;
mod format;
mod format_fault;
mod json_scan;
mod literal;
mod literal_value;
mod parser;
mod part;
mod pattern;
mod shape;
mod syntax;
mod tool;

pub use call::{ToolCall, ToolCallFault};
pub use format::{CallFormat, CallKeys, ObjectKeys};
pub use format_fault::CallFormatFault;
pub use literal::overlap;
pub use parser::AnswerParser;
pub use part::{AnswerEnd, AnswerPart};
pub use shape::{CallLimits, CallShape, CallShapeFault, UntilText};
pub use syntax::{AnswerSyntax, CallSyntax, ContentTags, ReasoningTags};
pub use tool::{ToolFault, ToolSet};
