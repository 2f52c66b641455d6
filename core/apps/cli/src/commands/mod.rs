//! The commands, one file each. A new command is a file here, its `mod` line, and its line in `commands!`.

mod batch;
mod bench;
mod cache;
mod chat;
mod check;
#[cfg(feature = "cluster")]
mod cluster;
mod compare;
mod completions;
mod control_vector;
mod convert;
mod doctor;
mod embed;
mod folder_plan;
mod guide;
mod imatrix;
mod inspect;
mod lens;
mod list;
mod logits;
mod man;
mod merge;
#[cfg(feature = "hub")]
mod models;
mod perplexity;
mod plugin;
#[cfg(feature = "hub")]
mod pull;
mod quantize;
mod render;
mod rerank;
mod run;
mod runnable;
#[cfg(feature = "serve")]
mod serve;
mod show;
mod spec;
#[cfg(feature = "cluster")]
mod stage;
mod synth;
mod tokenize;
mod train_gate;
mod version;

pub(crate) use completions::SHELL_VARIABLE;
pub(crate) use runnable::{CommandContext, Runnable};
pub(crate) use synth::shape_names;

use crate::arguments::model::ModelArguments;
use crate::failure::Failure;
use clap::Subcommand;

/// The enum of commands, each variant with its parsed arguments, and its [`Runnable`].
macro_rules! commands {
    ($($(#[$feature:meta])? $name:ident($command:ty),)*) => {
        /// A command as it was typed, in the order of the help.
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $($(#[$feature])? $name($command),)*
        }

        impl Runnable for Command {
            fn run(self, context: &CommandContext) -> Result<(), Failure> {
                match self {
                    $($(#[$feature])? Self::$name(command) => command.run(context),)*
                }
            }

            fn staged_model(&self) -> Option<&ModelArguments> {
                match self {
                    $($(#[$feature])? Self::$name(command) => command.staged_model(),)*
                }
            }

            fn tries_plugins(&self) -> bool {
                match self {
                    $($(#[$feature])? Self::$name(command) => command.tries_plugins(),)*
                }
            }

            fn uses_plugins(&self) -> bool {
                match self {
                    $($(#[$feature])? Self::$name(command) => command.uses_plugins(),)*
                }
            }
        }
    };
}

commands! {
    List(list::ListCommand),
    Show(show::ShowCommand),
    Inspect(inspect::InspectCommand),
    Check(check::CheckCommand),
    Spec(spec::SpecCommand),
    Run(run::RunCommand),
    Chat(chat::ChatCommand),
    Batch(batch::BatchCommand),
    #[cfg(feature = "serve")]
    Serve(serve::ServeCommand),
    #[cfg(feature = "cluster")]
    Cluster(cluster::ClusterCommand),
    #[cfg(feature = "cluster")]
    Stage(stage::StageCommand),
    Tokenize(tokenize::TokenizeCommand),
    Render(render::RenderCommand),
    Logits(logits::LogitsCommand),
    Lens(lens::LensCommand),
    Merge(merge::MergeCommand),
    Embed(embed::EmbedCommand),
    Rerank(rerank::RerankCommand),
    Bench(bench::BenchCommand),
    Perplexity(perplexity::PerplexityCommand),
    Compare(compare::CompareCommand),
    Quantize(quantize::QuantizeCommand),
    Imatrix(imatrix::ImatrixCommand),
    TrainGate(train_gate::TrainGateCommand),
    ControlVector(control_vector::ControlVectorCommand),
    Convert(convert::ConvertCommand),
    Synth(synth::SynthCommand),
    Plugin(plugin::PluginCommand),
    #[cfg(feature = "hub")]
    Pull(pull::PullCommand),
    #[cfg(feature = "hub")]
    Models(models::ModelsCommand),
    Cache(cache::CacheCommand),
    Doctor(doctor::DoctorCommand),
    Guide(guide::GuideCommand),
    Completions(completions::CompletionsCommand),
    Man(man::ManCommand),
    Version(version::VersionCommand),
}
