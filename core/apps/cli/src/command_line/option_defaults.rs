//! Defaults of options from the environment and the configuration file; sampling defaults in the help.

use crate::config_file::{ConfigFile, ConfigSetting};
use crate::failure::Failure;
use clap::{Arg, ArgAction, Command};
use menagerie::engine::SamplingOptions;
use menagerie_entries::{nearest, nearest_clause};

/// Options whose variables are lists of folders, which are added to the option's value instead of being its default.
const LISTS: [&str; 2] = ["spec_dir", "plugin_dir"];

/// Sets the defaults of all options of all commands. An option under a heading of the help can be set as
/// `MENAGERIE_<OPTION>` and in the file; the command line has priority over the environment, and both over the file.
pub(crate) fn apply(command: Command, file: &ConfigFile) -> Result<Command, Failure> {
    for setting in &file.settings {
        check(&command, setting).map_err(|reason| file.fault(setting.place, &setting.option, &reason))?;
    }
    Ok(command
        .mut_subcommands(|subcommand| {
            let name = subcommand.get_name().to_owned();
            subcommand.mut_args(|arg| with_defaults(arg, &name, &file.settings))
        })
        .mut_args(|arg| with_defaults(arg, "", &file.settings)))
}

/// Whether a default can be set for it.
fn is_settable(arg: &Arg) -> bool {
    arg.get_help_heading().is_some() && arg.get_long().is_some()
}

/// The variable of an option.
pub(crate) fn variable(arg: &Arg) -> Option<String> {
    let long = arg.get_long().filter(|_| is_settable(arg) && !LISTS.contains(&arg.get_id().as_str()))?;
    Some(format!("MENAGERIE_{}", long.to_uppercase().replace('-', "_")))
}

fn with_defaults(arg: Arg, command: &str, settings: &[ConfigSetting]) -> Arg {
    let takes_values = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    // A negative number is a bad value, not another option.
    let arg = if takes_values && !arg.is_positional() { arg.allow_negative_numbers(true) } else { arg };
    let arg = with_sampling_default(arg);
    if !is_settable(&arg) {
        return arg;
    }
    let arg = match variable(&arg) {
        Some(variable) => arg.env(variable).hide_env(true),
        None => arg,
    };
    let of = |wanted: Option<&str>| {
        let fits = |setting: &&ConfigSetting| {
            setting.command.as_deref() == wanted && arg.get_long() == Some(setting.option.as_str())
        };
        settings.iter().find(fits).map(|setting| setting.values.clone())
    };
    match of(Some(command)).or_else(|| of(None)) {
        Some(values) => arg.default_values(values),
        None => arg,
    }
}

/// Adds to the help of a sampling option the value that it has if neither the command line nor the model file sets it.
fn with_sampling_default(arg: Arg) -> Arg {
    let Some(default) = sampling_default(arg.get_id().as_str()) else { return arg };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help} [default: from the model file, else {default}]"))
}

fn sampling_default(id: &str) -> Option<String> {
    let defaults = SamplingOptions::default();
    Some(match id {
        "temp" => defaults.temperature.to_string(),
        "top_k" => defaults.top_k.to_string(),
        "top_p" => defaults.top_p.to_string(),
        "min_p" => defaults.min_p.to_string(),
        "typical_p" => defaults.typical_p.to_string(),
        "repeat_penalty" => defaults.repeat_penalty.to_string(),
        "repeat_last_n" => defaults.repeat_last_n.to_string(),
        "presence_penalty" => defaults.presence_penalty.to_string(),
        "frequency_penalty" => defaults.frequency_penalty.to_string(),
        "dry_multiplier" => defaults.dry_multiplier.to_string(),
        "dry_base" => defaults.dry_base.to_string(),
        "dry_allowed_length" => defaults.dry_allowed_length.to_string(),
        "dry_last_n" => defaults.dry_last_n.to_string(),
        "xtc_probability" => defaults.xtc_probability.to_string(),
        "xtc_threshold" => defaults.xtc_threshold.to_string(),
        _ => return None,
    })
}

/// Whether a setting names an option that can have a default.
fn check(command: &Command, setting: &ConfigSetting) -> Result<(), String> {
    let commands: Vec<&Command> = match &setting.command {
        None => std::iter::once(command).chain(command.get_subcommands()).collect(),
        Some(name) => match command.find_subcommand(name) {
            Some(found) => vec![found],
            None => {
                let names = command.get_subcommands().map(Command::get_name);
                return Err(format!("there is no command `{name}`{}", nearest_clause(nearest(name, names))));
            }
        },
    };
    let options =
        || commands.iter().flat_map(|command| command.get_arguments()).filter(|arg| is_settable(arg));
    let Some(option) = options().find(|arg| arg.get_long() == Some(setting.option.as_str())) else {
        let names = options().filter_map(Arg::get_long);
        return Err(format!(
            "no option --{} can be set here{}",
            setting.option,
            nearest_clause(nearest(&setting.option, names))
        ));
    };
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    if is_flag && setting.values.iter().any(|value| !matches!(value.as_str(), "true" | "false")) {
        return Err("expected true or false".to_owned());
    }
    if setting.values.len() != 1 && !matches!(option.get_action(), ArgAction::Append) {
        return Err("expected one value".to_owned());
    }
    Ok(())
}

/// The origin of a value that clap refused, if it was not on the command line.
pub(crate) fn origin(command: &Command, file: &ConfigFile, error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (named, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let long = named.strip_prefix("--").or(named.split("--").nth(1))?.split([' ', '=']).next()?;
    let commands = std::iter::once(command).chain(command.get_subcommands());
    let mut options = commands.flat_map(|command| command.get_arguments());
    let variable = options.find(|arg| arg.get_long() == Some(long)).and_then(variable);
    if let Some(name) = variable.filter(|name| std::env::var(name).is_ok_and(|set| set == value)) {
        return Some(format!("the value comes from the environment variable {name}"));
    }
    let written =
        |setting: &&ConfigSetting| setting.option == long && setting.values.iter().any(|one| one == value);
    file.settings.iter().find(written).map(|setting| {
        let (line, column) = setting.place;
        format!("the value comes from {}:{line}:{column}", file.path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::definition::Arguments;
    use clap::CommandFactory;
    use std::path::Path;

    fn file(text: &str) -> ConfigFile {
        ConfigFile::parse(Path::new("c.toml"), text).unwrap()
    }

    #[test]
    fn every_sampling_number_has_its_default_in_the_help() {
        let mut command = apply(Arguments::command(), &ConfigFile::default()).unwrap();
        let run = command.find_subcommand_mut("run").unwrap();
        let help = run.render_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let undocumented: Vec<&str> = run
            .get_arguments()
            .filter(|arg| arg.get_help_heading().is_some_and(|heading| heading.starts_with("Sampling")))
            .filter(|arg| !arg.get_help().is_some_and(|help| help.to_string().contains("[default: ")))
            .filter(|arg| !["logit_bias", "sampler"].contains(&arg.get_id().as_str()))
            .map(|arg| arg.get_id().as_str())
            .collect();
        assert_eq!(undocumented, [""; 0]);
        assert!(help.contains("[default: from the model file, else 0.8]"), "{help}");
    }

    #[test]
    fn a_command_s_own_table_comes_before_the_top() {
        let command =
            apply(Arguments::command(), &file("temp = 0.5\n[chat]\ntemp = 0.25\nexact = true\n")).unwrap();
        let default = |name: &str, option: &str| {
            let command = command.find_subcommand(name).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_id() == option).unwrap();
            arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned())
        };
        assert_eq!(default("chat", "temp").as_deref(), Some("0.25"));
        assert_eq!(default("run", "temp").as_deref(), Some("0.5"));
        assert_eq!(default("chat", "exact").as_deref(), Some("true"));
        assert_ne!(default("run", "exact").as_deref(), Some("true"));
    }

    #[test]
    fn names_that_do_not_exist_are_refused_with_the_nearest() {
        for (text, words) in [
            ("tmep = 1\n", &["c.toml:1:1", "`temp`"][..]),
            ("[cht]\ntemp = 1\n", &["c.toml:2:1", "`chat`"]),
            ("force = true\n", &["--force"]),
            ("exact = 3\n", &["true or false"]),
            ("temp = [1, 2]\n", &["one value"]),
        ] {
            let failure = apply(Arguments::command(), &file(text)).unwrap_err();
            let message = format!("{failure:?}");
            assert!(words.iter().all(|word| message.contains(word)), "{text}: {message}");
        }
    }
}
