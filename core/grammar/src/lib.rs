//! Structured output: constraints ([`menagerie_engine::Constraint`]) from JSON schemas, regular expressions and Lark
//! grammars.
//!
//! A [`GrammarSource`] is a schema, a regular expression or a grammar that was checked without a model. A
//! [`GrammarCompiler`] has the vocabulary of a model and compiles sources to constraints of requests:
//!
//! ```no_run
//! # use menagerie_engine::{Request, TextPipeline};
//! # use menagerie_grammar::{GrammarCompiler, GrammarSource};
//! # fn answer(pipeline: &TextPipeline) -> Result<(), Box<dyn std::error::Error>> {
//! let schema = serde_json::json!({ "type": "object", "properties": { "age": { "type": "integer" } } });
//! let source = GrammarSource::json_schema(&schema)?;
//! let compiler = GrammarCompiler::new(pipeline.tokenizer()?.clone());
//! let request = Request::greedy(64).with_constraint(compiler.constraint(&source)?);
//! println!("{}", pipeline.session()?.generate("Ada is 36 years old: ", &request, |_| {})?.text);
//! # Ok(())
//! # }
//! ```
//!
//! [`GrammarCompiler::calls`] makes a constraint of the format in which a model calls tools, and of the schemas of the
//! tools.
//!
//! The crate llguidance computes which tokens may come next. Everything that it would ignore, or would not enforce, is
//! refused here by name before it is compiled.
#![forbid(unsafe_code)]

mod apart;
mod call_lark;
mod calls;
mod compilation;
mod compiler;
mod control_tokens;
mod error;
mod in_place;
mod keywords;
mod lark_text;
mod matcher;
mod model_parts;
mod nesting;
mod numbers;
mod schema;
mod source;
mod string_format;
mod vocabulary;
mod watched_flag;

pub use compiler::GrammarCompiler;
pub use error::GrammarError;
pub use source::GrammarSource;
