//! [`Runnable`]: a command with parsed arguments, and [`CommandContext`]: its other input.

use crate::arguments::model::ModelArguments;
use crate::arguments::plugins::PluginArguments;
use crate::failure::Failure;
use menagerie::registry::Environment;

/// The input of a command besides its own arguments.
pub(crate) struct CommandContext {
    /// The plugins to load.
    pub(crate) plugins: PluginArguments,
    /// Everything that is linked in or loaded.
    pub(crate) environment: Environment,
    /// Builds the definition of the whole command line.
    pub(crate) definition: fn() -> Result<clap::Command, Failure>,
}

/// A command with parsed arguments.
pub(crate) trait Runnable: Sized {
    /// Executes the command.
    fn run(self, context: &CommandContext) -> Result<(), Failure>;

    /// The model that the command opens; `None` for a command that cannot run a model in stages.
    fn staged_model(&self) -> Option<&ModelArguments> {
        None
    }

    /// Whether the command runs plugins on trial and reports their errors itself.
    fn tries_plugins(&self) -> bool {
        false
    }

    /// Whether plugins are loaded before the command runs.
    fn uses_plugins(&self) -> bool {
        true
    }
}
