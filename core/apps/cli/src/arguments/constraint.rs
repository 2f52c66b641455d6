//! Arguments that constrain the answer: a JSON schema, a grammar or a regular expression.

use crate::failure::Failure;
use crate::prompt;
use clap::Args;
use menagerie::engine::{Constraint, TextPipeline};
use menagerie::grammar::{GrammarCompiler, GrammarError, GrammarSource};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the answer must fit.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Structured output")]
pub(crate) struct ConstraintArguments {
    /// Answer in JSON that is valid by the schema in this file (JSON Schema 2020-12)
    ///
    /// After reasoning, if the model reasons. A keyword that cannot be enforced is an error. Members come in the order
    /// of the schema. An answer that reaches the limit on tokens (-n) is cut off.
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with_all = ["grammar", "regex", "ignore_eos"])]
    json_schema: Option<PathBuf>,
    /// Answer in text that fits the grammar in this file (llguidance's variant of Lark)
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with_all = ["regex", "ignore_eos"])]
    grammar: Option<PathBuf>,
    /// Answer in text that this regular expression matches from beginning to end, e.g. "(yes|no)"
    #[arg(long, hide_short_help = true, value_name = "TEXT", conflicts_with = "ignore_eos")]
    regex: Option<String>,
}

impl ConstraintArguments {
    /// What the answer must fit, checked before a model is opened.
    ///
    /// # Errors
    /// A file cannot be read, or is refused; the text names the file or the option.
    pub(crate) fn source(&self) -> Result<Option<GrammarSource>, Failure> {
        if let Some(file) = &self.json_schema {
            let schema = json_of(file)?;
            return GrammarSource::json_schema(&schema)
                .map(Some)
                .map_err(|error| refused(file.display(), &error));
        }
        if let Some(file) = &self.grammar {
            let text = prompt::utf8(prompt::read_bytes(file)?, &file.display().to_string())?;
            return GrammarSource::lark(&text).map(Some).map_err(|error| refused(file.display(), &error));
        }
        let regex = self.regex.as_deref().map(GrammarSource::regex);
        regex.transpose().map_err(|error| Failure::Usage(format!("--regex: {error}")).with_help(GUIDE))
    }
}

const GUIDE: &str = "`menagerie guide structured-output` says what is supported";

fn refused(file: impl fmt::Display, error: &GrammarError) -> Failure {
    Failure::about(file, error).with_help(GUIDE)
}

fn json_of(file: &Path) -> Result<Value, Failure> {
    let text = prompt::utf8(prompt::read_bytes(file)?, &file.display().to_string())?;
    prompt::json(text.strip_prefix('\u{feff}').unwrap_or(&text), file)
}

/// The constraint over the tokens of a model.
///
/// # Errors
/// The model has no tokenizer, or the source cannot be compiled with its tokens.
pub(crate) fn constraint(
    source: Option<&GrammarSource>,
    pipeline: &TextPipeline,
) -> Result<Option<Arc<dyn Constraint>>, Failure> {
    let Some(source) = source else { return Ok(None) };
    let compiler = GrammarCompiler::new(Arc::clone(pipeline.tokenizer()?));
    Ok(Some(compiler.constraint(source)?))
}
