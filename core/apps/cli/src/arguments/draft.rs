//! `--draft HOW`: where guesses of the next tokens come from.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use menagerie::engine::{DraftSource, PromptLookup, TextPipeline};
use std::sync::Arc;

/// How next tokens are guessed.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DraftArguments {
    /// Guess the next tokens and compute several in one step where that is faster; the answer stays the same [default: off]
    ///
    /// The sampled tokens decide, so text, tokens and log probabilities do not change, whatever is guessed. Not possible
    /// with recurrent models, X-LoRA, mixtures that choose for a whole prompt, hooks between layers, and on GPUs
    #[arg(long, hide_short_help = true, value_enum, value_name = "HOW", help_heading = "Generation")]
    draft: Option<DraftChoice>,
}

/// The sources of guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DraftChoice {
    /// No guesses
    Off,
    /// What followed the last tokens earlier in the prompt or the answer
    Lookup,
}

impl DraftArguments {
    /// The source of guesses for a model.
    ///
    /// # Errors
    /// Guesses are not possible with the model, its device or its hooks.
    pub(crate) fn source(&self, pipeline: &TextPipeline) -> Result<Option<Arc<dyn DraftSource>>, Failure> {
        let source: Arc<dyn DraftSource> = match self.draft {
            None | Some(DraftChoice::Off) => return Ok(None),
            Some(DraftChoice::Lookup) => Arc::new(PromptLookup::default()),
        };
        pipeline.check_drafts()?;
        Ok(Some(source))
    }
}
