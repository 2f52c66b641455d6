//! Arguments for output besides the answer: activations and a time profile.

use crate::arguments::capture::ActiveCapture;
use crate::arguments::profile::Profiler;
use crate::failure::Failure;
use clap::{ArgAction, Args};
use menagerie::engine::TextPipeline;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Options of the time profile.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ProfileArguments {
    /// Print a time profile and the bytes of weights that are read, on standard error; with FILE also write a trace for
    /// trace viewers
    #[arg(long, hide_short_help = true, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    profile: Option<Option<PathBuf>>,
    /// Replace the files of --profile and --capture if they exist
    #[arg(long, hide_short_help = true)]
    force: bool,
}

impl ProfileArguments {
    /// Refuses a file that may not be written, before anything is opened.
    pub(crate) fn check(&self, model: &Path) -> Result<(), Failure> {
        Profiler::check(self.profile.as_ref(), self.force, model)
    }

    /// Starts to record times.
    pub(crate) fn begin(&self, pipeline: &mut TextPipeline) -> Option<Profiler> {
        Profiler::begin(self.profile.as_ref(), self.force, pipeline.hooks_mut())
    }
}

/// Options that observe a run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ObserveArguments {
    /// Write activations to a .safetensors file that `check --reference` can read. WHAT is a comma-separated list of
    /// layers=A-B or layers=all, at=PLACE (l_out, attn_out, ffn_out, last_out; several with |) and phase=prefill or
    /// phase=decode
    #[arg(long, hide_short_help = true, num_args = 2, action = ArgAction::Set, value_names = ["WHAT", "FILE"])]
    capture: Vec<OsString>,
    #[command(flatten)]
    profile: ProfileArguments,
}

/// The observers of a run.
pub(crate) struct Observers {
    capture: Option<ActiveCapture>,
    profile: Option<Profiler>,
}

impl ObserveArguments {
    /// Refuses invalid options, before anything is opened.
    pub(crate) fn check(&self, model: &Path) -> Result<(), Failure> {
        ActiveCapture::ask(&self.capture, self.profile.force, model)?;
        self.profile.check(model)
    }

    /// Starts to observe.
    pub(crate) fn begin(&self, model: &Path, pipeline: &mut TextPipeline) -> Result<Observers, Failure> {
        let layers = pipeline.engine().model.shape().n_layers;
        let capture = ActiveCapture::ask(&self.capture, self.profile.force, model)?;
        let capture = capture.map(|asked| asked.begin(layers, pipeline.hooks_mut())).transpose()?;
        let profile = self.profile.begin(pipeline);
        Ok(Observers { capture, profile })
    }
}

impl Observers {
    /// Writes the observations of these tokens: a prompt and its continuation.
    pub(crate) fn finish(self, pipeline: &TextPipeline, tokens: [&[u32]; 2]) -> Result<(), Failure> {
        if let Some(capture) = self.capture {
            capture.finish(pipeline, &tokens.concat())?;
        }
        self.profile.map_or(Ok(()), |profile| profile.finish(pipeline))
    }
}
