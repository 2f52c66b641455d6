//! `--state FILE` of `run` and `chat`: what a session holds is kept from one call to the next.

use crate::arguments::plugins::plugin_names;
use crate::failure::Failure;
use crate::interrupt;
use crate::screen::progress;
use clap::Args;
use menagerie::engine::{StateFile, StateFileError, TextPipeline};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use std::path::PathBuf;

/// Where a session's state is kept.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StateArgument {
    /// Keep what the model has read in a file, and continue from there the next time
    ///
    /// Only what comes after the common beginning of the prompts is computed. The file is written after each answer. The file of another model, or of the
    /// same one opened with other options, is refused
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
}

impl StateArgument {
    /// The file, for sessions of `pipeline`; no other process has it until it is dropped.
    pub(crate) fn open(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        installed: &Environment,
    ) -> Result<Option<StateFile>, Failure> {
        let open = |path| StateFile::open(path, pipeline, plugin_names(installed));
        Ok(self.state.as_deref().map(open).transpose()?)
    }
}

/// Takes a state up, while a person sees that it is done.
pub(crate) fn take_up<T>(
    file: &StateFile,
    load: impl FnOnce(&StateFile) -> Result<T, StateFileError>,
) -> Result<T, Failure> {
    let spinner = progress::spinner(&format!("taking up the state in {}", file.path().display()));
    let loaded = load(file);
    spinner.finish_and_clear();
    Ok(loaded?)
}

/// Keeps a state, which no signal stops.
pub(crate) fn keep(
    file: &StateFile,
    save: impl FnOnce(&StateFile) -> Result<u64, StateFileError>,
) -> Result<u64, Failure> {
    let _to_its_end = interrupt::saving()?;
    let spinner = progress::spinner(&format!("keeping the state in {}", file.path().display()));
    let saved = save(file);
    spinner.finish_and_clear();
    Ok(saved?)
}
