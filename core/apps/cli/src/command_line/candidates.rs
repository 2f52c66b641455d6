//! Shell completion of arguments: names of models and architectures, quantizations and shapes.

use super::definition::definition;
use crate::arguments::specs::{SpecArguments, architecture_names};
use crate::commands::{SHELL_VARIABLE, shape_names};
use crate::failure::Failure;
use crate::listing::recipe_listing::is_form;
use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::CompleteEnv;
use menagerie::open::{is_recipe, tokenizer_tables};
use menagerie::registry::Environment;
use std::ffi::OsStr;

/// Answers a completion request of a shell; `false` if the process was not started for one.
pub(crate) fn answer_shell() -> Result<bool, Failure> {
    if std::env::var_os(SHELL_VARIABLE).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    Ok(CompleteEnv::with_factory(command)
        .var(SHELL_VARIABLE)
        .try_complete(std::env::args_os(), folder.as_deref())?)
}

/// The commands with completers for their arguments. An invalid configuration file does not disable completion.
fn command() -> Command {
    let command = definition().unwrap_or_else(|_| Command::new("menagerie"));
    with_completers(command, "")
}

/// A command and its subcommands with completers for their arguments; `above` is the parent command.
fn with_completers(command: Command, above: &str) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| {
        let completer = match arg.get_id().as_str() {
            "model" | "more" | "pin" => ArgValueCompleter::new(Models),
            "draft" => ArgValueCompleter::new(Drafts),
            "other" | "input" if matches!(name.as_str(), "compare" | "quantize") => {
                ArgValueCompleter::new(Models)
            }
            "name" if name == "pull" => ArgValueCompleter::new(Names),
            "name" if above == "models" => {
                ArgValueCompleter::new(InstalledNames { leftovers: name == "remove" })
            }
            "what" => ArgValueCompleter::new(ModelsAndArchitectures),
            "spec" => ArgValueCompleter::new(ArchitectureCandidates),
            "quant" if name == "synth" => ArgValueCompleter::new(Quantizations),
            "quant" | "file_type" => ArgValueCompleter::new(FileTypes),
            "shape" => ArgValueCompleter::new(Shapes),
            "chat_template" => ArgValueCompleter::new(ChatTemplates),
            _ => return arg,
        };
        arg.add(completer)
    });
    command.mut_subcommands(|subcommand| with_completers(subcommand, &name))
}

struct Models;
struct Drafts;
struct Names;
struct InstalledNames {
    /// Whether leftovers of downloads are offered too.
    leftovers: bool,
}
struct FileTypes;
struct ChatTemplates;
struct ArchitectureCandidates;
struct ModelsAndArchitectures;
struct Quantizations;
struct Shapes;

impl ValueCompleter for Models {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut names = installed_names();
        names.extend(short_names());
        names.extend(recipe_names());
        names.sort();
        names.dedup();
        let mut found = offered(current, names);
        let is_model = |path: &std::path::Path| {
            path.is_dir() || path.extension().is_some_and(|e| e == "gguf") || is_recipe(path)
        };
        found.extend(PathCompleter::any().filter(is_model).complete(current));
        found
    }
}

impl ValueCompleter for Drafts {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut found = offered(current, ["off", "lookup"].map(str::to_owned).to_vec());
        found.extend(Models.complete(current));
        found
    }
}

impl ValueCompleter for Names {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        offered(current, short_names())
    }
}

impl ValueCompleter for InstalledNames {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut names = installed_names();
        if self.leftovers {
            names.extend(leftover_names());
        }
        names.sort();
        names.dedup();
        offered(current, names)
    }
}

impl ValueCompleter for ChatTemplates {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut found = offered(current, chat_template_names());
        found.extend(PathCompleter::file().complete(current));
        found
    }
}

impl ValueCompleter for ArchitectureCandidates {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        offered(current, architecture_names())
    }
}

impl ValueCompleter for ModelsAndArchitectures {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut found = ArchitectureCandidates.complete(current);
        found.extend(Models.complete(current));
        found
    }
}

impl ValueCompleter for Quantizations {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        in_any_case(current, menagerie::synth::file_types())
    }
}

impl ValueCompleter for FileTypes {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        in_any_case(current, menagerie::quantize::Policy::names())
    }
}

impl ValueCompleter for Shapes {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let names = shape_names().unwrap_or_default();
        offered(current, names)
    }
}

fn offered(current: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fitting = names.into_iter().filter(|name| name.starts_with(current.as_ref()));
    fitting.map(CompletionCandidate::new).collect()
}

/// Case-insensitive names, in the case that is being typed.
fn in_any_case<'a>(current: &OsStr, names: impl Iterator<Item = &'a str>) -> Vec<CompletionCandidate> {
    let lower = current.to_string_lossy().contains(|c: char| c.is_ascii_lowercase());
    let cased = |name: &str| if lower { name.to_ascii_lowercase() } else { name.to_owned() };
    offered(current, names.map(cased).collect())
}

/// Names of chat templates in the tokenizer tables.
fn chat_template_names() -> Vec<String> {
    let environment = linked();
    let tables = environment.ok().and_then(|environment| tokenizer_tables(&environment).ok());
    let names = tables.map(|(tables, _)| tables.chat_templates().map(str::to_owned).collect());
    names.unwrap_or_default()
}

/// The environment of this program with the spec folders; plugins are not loaded for completion.
fn linked() -> Result<Environment, Failure> {
    SpecArguments::default().environment(&Environment::linked()?)
}

/// Names of the recipes in spec folders that have a model as their base.
fn recipe_names() -> Vec<String> {
    let environment = linked();
    let names = environment.map(|environment| {
        let models = environment.recipes().iter().filter(|entry| entry.recipe().is_ok() && !is_form(entry));
        models.map(|entry| entry.id.clone()).collect()
    });
    names.unwrap_or_default()
}

/// Models on this machine.
#[cfg(feature = "hub")]
fn installed_names() -> Vec<String> {
    let names = crate::arguments::model_names::ModelNames::read(&SpecArguments::default());
    let installed = names.ok().and_then(|names| names.hub().installed().ok()).unwrap_or_default();
    installed.into_iter().map(|model| model.name).collect()
}

/// Names of leftovers of downloads on this machine.
#[cfg(feature = "hub")]
fn leftover_names() -> Vec<String> {
    let names = crate::arguments::model_names::ModelNames::read(&SpecArguments::default());
    let left = names.ok().and_then(|names| names.hub().leftovers().ok()).unwrap_or_default();
    left.into_iter().map(|leftover| leftover.name).collect()
}

/// Models that can be downloaded by a short name.
#[cfg(feature = "hub")]
fn short_names() -> Vec<String> {
    let names = crate::arguments::model_names::ModelNames::read(&SpecArguments::default());
    let models = names.map(|names| names.catalog.models).unwrap_or_default();
    models.into_iter().map(|model| model.name).collect()
}

#[cfg(not(feature = "hub"))]
fn installed_names() -> Vec<String> {
    Vec::new()
}

#[cfg(not(feature = "hub"))]
fn leftover_names() -> Vec<String> {
    Vec::new()
}

#[cfg(not(feature = "hub"))]
fn short_names() -> Vec<String> {
    Vec::new()
}
