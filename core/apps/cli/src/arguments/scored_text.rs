//! Arguments for the text that a model is scored on, and its chunks.

use crate::failure::Failure;
use crate::prompt;
use clap::Args;
use menagerie::measure::PerplexityProgress;
use std::path::PathBuf;

/// A text to score in chunks.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScoredText {
    /// The text to score (UTF-8); - for standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Tokens per chunk
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    pub(crate) ctx_size: u32,
    /// Maximum number of chunks [default: the whole text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
}

impl ScoredText {
    /// The text.
    pub(crate) fn read(&self) -> Result<String, Failure> {
        match &self.file {
            Some(file) => prompt::read_file(file),
            None => Err(Failure::Usage("the text is missing: give it with -f FILE".to_owned())),
        }
    }

    /// The maximum number of chunks.
    pub(crate) fn chunks(&self) -> Option<usize> {
        self.chunks.map(|chunks| chunks as usize)
    }
}

/// The progress of scoring in one line.
pub(crate) fn message(at: &PerplexityProgress) -> String {
    let kl = at.kl.map(|kl| format!(", KL divergence {kl:.6}")).unwrap_or_default();
    format!("chunk {} of {}: perplexity {:.4}{kl}", at.chunk, at.chunks, at.perplexity)
}
