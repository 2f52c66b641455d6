//! What a shell may offer for an argument: names of models and architectures, quantisations and shapes.

use crate::arguments;
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::model_arguments::SpecArguments;
use crate::recipe_listing::is_form;
use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::CompleteEnv;
use menagerie::pipeline::is_recipe;
use std::ffi::OsStr;

/// Variable by which the scripts of `completions` ask.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Answers a shell that asks what may follow; `false` where no shell asks.
pub(crate) fn answer_shell() -> Result<bool, Failure> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    Ok(CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(std::env::args_os(), folder.as_deref())?)
}

/// The commands with what may stand for their arguments. A faulty configuration must not take completions away.
fn command() -> Command {
    let command = arguments::command(&ConfigFile::default()).unwrap_or_else(|_| Command::new("menagerie"));
    command.mut_subcommands(|subcommand| {
        let pulls = subcommand.get_name() == "pull";
        subcommand.mut_args(|arg| {
            let completer = match arg.get_id().as_str() {
                "model" => ArgValueCompleter::new(Models),
                "name" if pulls => ArgValueCompleter::new(Names),
                "what" => ArgValueCompleter::new(ModelsAndArchitectures),
                "spec" => ArgValueCompleter::new(Architectures),
                "quant" => ArgValueCompleter::new(Quantisations),
                "shape" => ArgValueCompleter::new(Shapes),
                _ => return arg,
            };
            arg.add(completer)
        })
    })
}

struct Models;
struct Names;
struct Architectures;
struct ModelsAndArchitectures;
struct Quantisations;
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

impl ValueCompleter for Names {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        offered(current, short_names())
    }
}

impl ValueCompleter for Architectures {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        offered(current, architecture_names())
    }
}

impl ValueCompleter for ModelsAndArchitectures {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut found = Architectures.complete(current);
        found.extend(Models.complete(current));
        found
    }
}

impl ValueCompleter for Quantisations {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let names = menagerie::synth::Quantisation::labels().map(str::to_owned).collect();
        offered(current, names)
    }
}

impl ValueCompleter for Shapes {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let names = crate::commands::synth::shape_names().unwrap_or_default();
        offered(current, names)
    }
}

fn offered(current: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fitting = names.into_iter().filter(|name| name.starts_with(current.as_ref()));
    fitting.map(CompletionCandidate::new).collect()
}

/// Architectures that can be run now.
pub(crate) fn architecture_names() -> Vec<String> {
    let registry = SpecArguments { allow_shadow: true, ..SpecArguments::default() }.registry();
    registry
        .map(|registry| registry.entries().iter().map(|entry| entry.id.clone()).collect())
        .unwrap_or_default()
}

/// Recipes of the spec folders that are models.
fn recipe_names() -> Vec<String> {
    let registry = SpecArguments::default().registry();
    let names = registry.map(|registry| {
        let models = registry.recipes().iter().filter(|entry| entry.recipe().is_ok() && !is_form(entry));
        models.map(|entry| entry.id.clone()).collect()
    });
    names.unwrap_or_default()
}

/// Models on this machine.
#[cfg(feature = "hub")]
fn installed_names() -> Vec<String> {
    let names = crate::model_names::ModelNames::read(&SpecArguments::default());
    let installed = names.ok().and_then(|names| names.hub().installed().ok()).unwrap_or_default();
    installed.into_iter().map(|model| model.name).collect()
}

/// Models that can be fetched by a short name.
#[cfg(feature = "hub")]
fn short_names() -> Vec<String> {
    let names = crate::model_names::ModelNames::read(&SpecArguments::default());
    let models = names.map(|names| names.catalog.models).unwrap_or_default();
    models.into_iter().map(|model| model.name).collect()
}

#[cfg(not(feature = "hub"))]
fn installed_names() -> Vec<String> {
    Vec::new()
}

#[cfg(not(feature = "hub"))]
fn short_names() -> Vec<String> {
    Vec::new()
}
