//! `--draft HOW`: where guesses of the next tokens come from.

use crate::arguments::model::ModelArguments;
#[cfg(feature = "serve")]
use crate::arguments::model_source::find_source;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::queue_size::QueueArguments;
#[cfg(feature = "serve")]
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use menagerie::engine::{DraftModel, DraftSource, ModelHead, PromptLookup, SchedulerOptions, TextPipeline};
use menagerie::registry::Environment;
use std::ffi::OsString;
use std::sync::Arc;

/// A source of guesses, and the bytes of memory that it needs.
type SizedSource = (Arc<dyn DraftSource>, u64);

/// How next tokens are guessed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DraftArguments {
    /// Guess the next tokens and compute several in one step where that is faster; the answer stays the same. lookup: what
    /// followed the last tokens earlier; heads: the model's own head for further tokens; MODEL: a smaller model with the
    /// same vocabulary [default: off]
    ///
    /// The sampled tokens decide, so text, tokens and log probabilities do not change, whatever is guessed. MODEL is named
    /// as the first argument; it computes on the same device with the same context, and without adapters, --quant and --set.
    /// Not possible with X-LoRA, mixtures that choose for a whole prompt, hooks between layers, and on GPUs
    #[arg(long, hide_short_help = true, value_name = "off|lookup|heads|MODEL", value_parser = OsStringValueParser::new().map(DraftChoice::of), help_heading = "Generation")]
    draft: Option<DraftChoice>,
}

/// The sources of guesses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DraftChoice {
    /// No guesses.
    Off,
    /// What followed the last tokens earlier in the prompt or the answer.
    Lookup,
    /// What the model's own head for further tokens predicts.
    Heads,
    /// A smaller model.
    Model(NameOrPath),
}

impl DraftChoice {
    fn of(typed: OsString) -> Self {
        match typed.to_str() {
            Some("off") => Self::Off,
            Some("lookup") => Self::Lookup,
            Some("heads") => Self::Heads,
            _ => Self::Model(typed.into()),
        }
    }
}

/// With what a draft model is opened.
pub(crate) struct DraftOpening<'a> {
    /// The arguments of the model that answers.
    pub(crate) model: &'a ModelArguments,
    /// How many answers run together; `None` = one.
    pub(crate) queue: Option<&'a QueueArguments>,
    pub(crate) installed: &'a Environment,
}

impl DraftArguments {
    /// Whether the model's own head for further tokens is needed.
    pub(crate) fn needs_head(&self) -> bool {
        self.draft == Some(DraftChoice::Heads)
    }

    /// The source of guesses for a model.
    ///
    /// # Errors
    /// Guesses are not possible with the model, its device or its hooks; the draft model cannot be opened, or has another
    /// vocabulary.
    pub(crate) fn source(
        &self,
        pipeline: &TextPipeline,
        opening: &DraftOpening,
    ) -> Result<Option<Arc<dyn DraftSource>>, Failure> {
        Ok(self.sized_source(pipeline, opening)?.map(|(source, _)| source))
    }

    /// [`Self::source`], with the bytes of memory that it needs.
    ///
    /// # Errors
    /// As [`Self::source`].
    pub(crate) fn sized_source(
        &self,
        pipeline: &TextPipeline,
        opening: &DraftOpening,
    ) -> Result<Option<SizedSource>, Failure> {
        let choice = match &self.draft {
            None | Some(DraftChoice::Off) => return Ok(None),
            Some(choice) => choice,
        };
        pipeline.check_drafts()?;
        Ok(Some(match choice {
            DraftChoice::Model(name) => {
                let (draft, bytes) = opening.model(name, pipeline)?;
                (Arc::new(draft), bytes)
            }
            DraftChoice::Heads => (Arc::new(ModelHead::default()), 0),
            _ => (Arc::new(PromptLookup::default()), 0),
        }))
    }

    /// Finds a draft model, and downloads it if it is not on this machine.
    ///
    /// # Errors
    /// It cannot be found.
    #[cfg(feature = "serve")]
    pub(crate) fn find(&self, specs: &SpecArguments, installed: &Environment) -> Result<(), Failure> {
        if let Some(DraftChoice::Model(name)) = &self.draft {
            find_source(name, specs, &specs.environment(installed)?)?;
        }
        Ok(())
    }
}

impl DraftOpening<'_> {
    /// Opens a draft model on the device of `pipeline`, for as many tokens. Returns the bytes that it needs too.
    fn model(&self, name: &NameOrPath, pipeline: &TextPipeline) -> Result<(DraftModel, u64), Failure> {
        let arguments = self.model.for_draft(name.clone(), pipeline.context());
        let opening = arguments.opening(self.installed)?;
        let backend = Arc::clone(&pipeline.compute().backend);
        let draft = opening.with_backend(backend).open_text()?;
        let one = SchedulerOptions::default().with_sequences(1).with_prefixes(1);
        let options = match self.queue {
            Some(queue) => queue.scheduler(&draft),
            None => one.with_capacity_tokens(draft.context()),
        };
        let memory = draft.memory();
        let bytes = memory.weights + memory.working + QueueArguments::state_bytes(&draft, &options);
        Ok((DraftModel::new(&draft, pipeline, options)?, bytes))
    }
}
