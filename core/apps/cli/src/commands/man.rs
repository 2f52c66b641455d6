//! `man [COMMAND]`: the manual as a page for man(1).

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output;
use clap::builder::Resettable;
use clap::{Arg, ArgAction, Args, Command};
use clap_mangen::Man;

/// Print the manual page of menagerie or of a command
///
/// menagerie man > menagerie.1; menagerie man run | man -l -; menagerie man spec new
#[derive(Args)]
pub(crate) struct ManCommand {
    /// The command, with its parent command: `spec new` [default: menagerie itself]
    command: Vec<String>,
}

impl Runnable for ManCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let mut root = (context.definition)()?;
        root.build();
        let words: Vec<&str> = self.command.iter().flat_map(|words| words.split_whitespace()).collect();
        let wanted = found(&root, &words.join("-"))
            .ok_or_else(|| {
                Failure::Usage(format!("unknown command `{}`", words.join(" "))).with_help(
                    "`menagerie --help` lists the commands, and `menagerie COMMAND --help` the subcommands of a command",
                )
            })?
            .clone();
        // Built commands are named `menagerie run`; a page is `menagerie-run`.
        let title = wanted.get_bin_name().unwrap_or("menagerie").replace(' ', "-");
        // The last line of `-h` does not apply to a page that has all options.
        let wanted = match wanted.get_after_long_help().filter(|text| !text.to_string().is_empty()) {
            Some(_) => wanted,
            None => wanted.after_help(Resettable::Reset).after_long_help(Resettable::Reset),
        };
        let synopsis = synopsis(&wanted);
        let mut page = Vec::new();
        Man::new(wanted.disable_help_subcommand(true)).title(title).render(&mut page)?;
        output::data(&with_synopsis(&String::from_utf8_lossy(&page), &synopsis))
    }

    fn uses_plugins(&self) -> bool {
        false
    }
}

/// The command of a page name: `spec-new` is `new` of `spec`.
fn found<'a>(command: &'a Command, name: &str) -> Option<&'a Command> {
    if name.is_empty() {
        return Some(command);
    }
    command.get_subcommands().find_map(|subcommand| {
        let rest = name.strip_prefix(subcommand.get_name())?;
        if rest.is_empty() { Some(subcommand) } else { found(subcommand, rest.strip_prefix('-')?) }
    })
}

/// Replaces the line under SYNOPSIS: the library's line has options without their values.
fn with_synopsis(page: &str, synopsis: &str) -> String {
    const HEAD: &str = ".SH SYNOPSIS\n";
    let Some((before, rest)) = page.split_once(HEAD) else { return page.to_owned() };
    let after = rest.find("\n.SH ").map_or("", |at| &rest[at + 1..]);
    format!("{before}{HEAD}{synopsis}\n{after}")
}

/// The synopsis of a command, in roff.
fn synopsis(command: &Command) -> String {
    let shown = |arg: &&Arg| !arg.is_hide_set();
    let options = command.get_arguments().filter(shown).filter(|arg| !arg.is_positional()).map(option);
    let positionals = command.get_positionals().filter(shown).map(positional);
    let name = bold(command.get_bin_name().unwrap_or("menagerie"));
    let mut words: Vec<String> = std::iter::once(name).chain(options).chain(positionals).collect();
    if command.get_subcommands().any(|subcommand| !subcommand.is_hide_set()) {
        let required = command.is_subcommand_required_set();
        words.push(if required { italic("COMMAND") } else { optional(&italic("COMMAND")) });
    }
    words.join(" ")
}

fn option(arg: &Arg) -> String {
    let names = arg.get_short().map(|short| format!("-{short}")).into_iter();
    let names = names.chain(arg.get_long().map(|long| format!("--{long}")));
    let names = names.map(|name| bold(&name)).collect::<Vec<_>>().join("|");
    let takes_values = arg.get_num_args().is_some_and(|range| range.takes_values());
    let may_lack = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let values = match (takes_values, may_lack, arg.is_require_equals_set()) {
        (false, ..) => String::new(),
        (true, true, true) => optional(&format!("={}", values(arg))),
        (true, true, false) => format!(" {}", optional(&values(arg))),
        (true, false, true) => format!("={}", values(arg)),
        (true, false, false) => format!(" {}", values(arg)),
    };
    let repeated = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
    let text = format!("{names}{values}");
    let text = if arg.is_required_set() { text } else { optional(&text) };
    if repeated { format!("{text}...") } else { text }
}

fn positional(arg: &Arg) -> String {
    let repeated = if matches!(arg.get_action(), ArgAction::Append) { "..." } else { "" };
    let text = format!("{}{repeated}", values(arg));
    if arg.is_required_set() { text } else { optional(&text) }
}

/// The names of an argument's values.
fn values(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some(names) => names.iter().map(|name| italic(name)).collect::<Vec<_>>().join(" "),
        None => italic(&arg.get_id().as_str().to_uppercase()),
    }
}

fn optional(text: &str) -> String {
    format!("[{text}]")
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

/// Escapes backslashes and hyphens for roff.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
