//! `--state FILE` of `run` and `chat`: the state of a session is saved from one call to the next.

use crate::arguments::plugins::plugin_names;
use crate::failure::Failure;
use crate::interrupt;
use crate::screen::progress;
use clap::Args;
use menagerie::engine::{StateFile, StateFileError, TextPipeline};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use std::path::PathBuf;

/// The state file of a session.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StateArgument {
    /// Save the model's state in a file, and continue from it the next time
    ///
    /// Only the tokens after the shared prefix of the prompts are computed. The file is written after each answer. A file
    /// of another model, or of the same model opened with other options, is refused
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
}

impl StateArgument {
    /// Opens the file for sessions of `pipeline`; it is locked until it is dropped.
    pub(crate) fn open(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        installed: &Environment,
    ) -> Result<Option<StateFile>, Failure> {
        let open = |path| StateFile::open(path, pipeline, plugin_names(installed));
        Ok(self.state.as_deref().map(open).transpose()?)
    }
}

/// Loads a state, with a spinner.
pub(crate) fn take_up<T>(
    file: &StateFile,
    load: impl FnOnce(&StateFile) -> Result<T, StateFileError>,
) -> Result<T, Failure> {
    let spinner = progress::spinner(&format!("loading the state from {}", file.path().display()));
    let loaded = load(file);
    spinner.finish_and_clear();
    Ok(loaded?)
}

/// Saves a state, with a spinner; signals do not interrupt it.
pub(crate) fn keep(
    file: &StateFile,
    save: impl FnOnce(&StateFile) -> Result<u64, StateFileError>,
) -> Result<u64, Failure> {
    let _to_its_end = interrupt::saving()?;
    let spinner = progress::spinner(&format!("saving the state to {}", file.path().display()));
    let saved = save(file);
    spinner.finish_and_clear();
    Ok(saved?)
}
