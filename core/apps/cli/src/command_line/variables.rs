//! Environment variables whose names begin with `MENAGERIE_`.

use super::option_defaults;
use crate::arguments::{plugins, stages};
use crate::config_file;
use crate::screen::report;
use clap::Command;
use menagerie_entries::{nearest, nearest_clause};
use std::collections::BTreeSet;

const PREFIX: &str = "MENAGERIE_";

/// Variables that do not belong to an option.
const OTHERS: [&str; 5] =
    [config_file::VARIABLE, plugins::VARIABLE, stages::VARIABLE, "MENAGERIE_ISA", "MENAGERIE_SPEC_DIR"];

/// Prints a note for each unknown variable. Processes that serve stages inherit the environment of the process that
/// started them, which has printed the notes already.
pub(crate) fn note_unknown(command: &Command) {
    if std::env::var_os(stages::VARIABLE).is_some() {
        return;
    }
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown(command, set).iter().for_each(|note| report::note(note));
}

/// A note for each variable that is set but unknown.
fn unknown(command: &Command, set: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: BTreeSet<String> = OTHERS.map(str::to_owned).into();
    let mut commands = vec![command];
    while let Some(next) = commands.pop() {
        known.extend(next.get_arguments().filter_map(option_defaults::variable));
        commands.extend(next.get_subcommands());
    }
    let names: BTreeSet<String> =
        set.filter(|name| name.starts_with(PREFIX) && !known.contains(name)).collect();
    let note = |name: String| {
        let near = nearest(without_prefix(&name), known.iter().map(|known| without_prefix(known)));
        let near = nearest_clause(near.map(|near| format!("{PREFIX}{near}")));
        format!("the environment variable {name} is set but has no effect{near}")
    };
    names.into_iter().map(note).collect()
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::definition::definition;

    #[test]
    fn names_that_nothing_reads_are_noted_with_the_nearest() {
        let command = definition().unwrap();
        let notes = |names: &[&str]| unknown(&command, names.iter().map(ToString::to_string));
        assert_eq!(notes(&OTHERS), [""; 0]);
        assert_eq!(notes(&["MENAGERIE_TOP_K", "MENAGERIE_COLOR", "HOME", "TOP_KK"]), [""; 0]);
        assert_eq!(
            notes(&["MENAGERIE_TOPK", "MENAGERIE_XYZZY"]),
            [
                "the environment variable MENAGERIE_TOPK is set but has no effect; the nearest is `MENAGERIE_TOP_K`",
                "the environment variable MENAGERIE_XYZZY is set but has no effect",
            ]
        );
    }
}
