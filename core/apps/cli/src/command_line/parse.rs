//! Parses the process's arguments into [`Arguments`] and explains errors.

use super::definition::{Arguments, command};
use super::{option_defaults, variables};
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::output;
use crate::screen::report;
use crate::screen::style::{self, OutputStream};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, FromArgMatches};
use menagerie_entries::nearest;

/// The arguments of this process; `None` if help or the version was requested and has been printed.
pub(crate) fn parse() -> Result<Option<Arguments>, Failure> {
    let asked = color_asked(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()));
    asked.into_iter().for_each(style::choose);
    let configured = ConfigFile::of_process().and_then(|file| Ok((command(&file)?, file)));
    let (mut command, file) = match configured {
        Ok(configured) => configured,
        Err(Failure::Failed(fault)) if goes_without_configuration(std::env::args_os()) => {
            report::error(&fault);
            (command(&ConfigFile::default())?, ConfigFile::default())
        }
        Err(failure) => return Err(failure),
    };
    let written = file.settings.iter().find(|one| one.option == "color" && one.command.is_none());
    written.and_then(|one| color(one.values.first()?)).into_iter().for_each(style::choose);
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|mut matches| {
        Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    });
    let mut error = match parsed {
        Ok(arguments) => {
            variables::note_unknown(&command);
            return Ok(Some(arguments));
        }
        Err(error) => error,
    };
    drop_far_suggestions(&mut error);
    let text = |stream: OutputStream| match stream.is_colored() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // clap's own way ignores errors of standard output.
        return output::painted(&text(OutputStream::Out)).map(|()| None);
    }
    let origin = option_defaults::origin(&command, &file, &error);
    let origin = origin.map(|origin| format!("note: {origin}\n")).unwrap_or_default();
    let commands = other_command(&command, &error, std::env::args_os());
    let commands = commands.map(|help| format!("help: {help}\n")).unwrap_or_default();
    Err(Failure::Arguments(text(OutputStream::Err) + &origin + &commands))
}

/// Commands of other programs, and the equivalent command here.
const ELSEWHERE: [(&str, &str); 13] = [
    ("add", "pull"),
    ("cat", "inspect"),
    ("complete", "run"),
    ("delete", "models remove"),
    ("download", "pull"),
    ("fetch", "pull"),
    ("generate", "run"),
    ("get", "pull"),
    ("info", "show"),
    ("install", "pull"),
    ("ppl", "perplexity"),
    ("prompt", "run"),
    ("rm", "models remove"),
];

/// Help for an unknown command: the equivalent command, the nearest one, or all of them.
fn other_command(
    root: &clap::Command,
    error: &clap::Error,
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let mut above = root;
    for word in arguments.skip(1).filter(|word| !word.to_string_lossy().starts_with('-')) {
        match word.to_str().and_then(|word| above.find_subcommand(word)) {
            Some(command) => above = command,
            None => break,
        }
    }
    let is_root = above.get_name() == root.get_name();
    if let Some((_, here)) = ELSEWHERE.iter().find(|(word, _)| is_root && word.eq_ignore_ascii_case(typed)) {
        return Some(format!("`menagerie {here}` does this"));
    }
    let shown = || above.get_subcommands().filter(|command| !command.is_hide_set());
    let names = || shown().map(clap::Command::get_name);
    let part = |name: &&str| typed.len() > 2 && name.contains(typed.as_str());
    match names().find(part).or_else(|| nearest(typed, names())) {
        Some(near) => Some(format!("the nearest command is `{near}`")),
        None => Some(format!("the commands are {}", names().collect::<Vec<_>>().join(", "))),
    }
}

/// Whether the command works with an invalid configuration file, whose errors are then only reported: the commands that
/// help to repair it.
fn goes_without_configuration(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let words: Vec<_> = arguments.skip(1).take_while(|argument| argument != "--").collect();
    let helping =
        |word: &std::ffi::OsString| ["--help", "-h", "--version", "-V"].iter().any(|one| word == one);
    let first = words.iter().find(|word| !word.to_string_lossy().starts_with('-'));
    let spared = ["doctor", "help", "version", "man", "completions"];
    words.iter().any(helping) || first.is_some_and(|word| spared.iter().any(|one| word == one))
}

/// Removes suggestions that do not help: options that are not similar enough, one of several values that are all listed
/// anyway (`q8_0` is another value than `q4_0`, not another spelling), and commands, for which [`other_command`] has its
/// own help.
fn drop_far_suggestions(error: &mut clap::Error) {
    error.remove(ContextKind::SuggestedValue);
    error.remove(ContextKind::SuggestedSubcommand);
    let (Some(ContextValue::String(typed)), Some(offered)) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::SuggestedArg))
    else {
        return;
    };
    let bare = |name: &str| name.trim_start_matches('-').to_owned();
    let is_near = |name: &String| nearest(&bare(typed), [&*bare(name)]).is_some();
    let near = match offered {
        ContextValue::String(name) => is_near(name),
        ContextValue::Strings(names) => names.iter().any(is_near),
        _ => true,
    };
    if !near {
        error.remove(ContextKind::SuggestedArg);
    }
}

/// `--color` or its variable, read before anything is parsed, because parse errors are colored too.
fn color_asked(arguments: impl Iterator<Item = String>) -> Option<ColorChoice> {
    let mut asked = std::env::var("MENAGERIE_COLOR").ok();
    let mut arguments = arguments.take_while(|argument| argument != "--");
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix("--color") {
            Some("") => asked = arguments.next(),
            Some(value) => asked = value.strip_prefix('=').map(str::to_owned).or(asked),
            None => {}
        }
    }
    color(asked.as_deref()?)
}

fn color(text: &str) -> Option<ColorChoice> {
    <ColorChoice as clap::ValueEnum>::from_str(text, true).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_is_found_before_parsing() {
        let asked = |words: &[&str]| color_asked(words.iter().map(ToString::to_string));
        assert_eq!(asked(&["menagerie", "list", "--color", "always"]), Some(ColorChoice::Always));
        assert_eq!(asked(&["menagerie", "--color=never", "list"]), Some(ColorChoice::Never));
        assert_eq!(asked(&["menagerie", "run", "--", "--color=never"]), None);
    }
}
