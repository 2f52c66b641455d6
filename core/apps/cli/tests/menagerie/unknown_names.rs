//! Unknown commands and environment variables.

use super::{call, menagerie};
use std::process::Command;

/// P27: the nearest command is named, also where it is near in other ways than clap sees; else those that there are.
#[test]
fn a_command_that_there_is_not_is_answered_with_those_there_are() {
    let home = tempfile::tempdir().unwrap();
    for (typed, wanted) in [
        (&["nosuch"][..], "the commands are list, show, "),
        (&["rnu"], "the nearest command is `run`"),
        (&["perplexty"], "the nearest command is `perplexity`"),
        (&["vector"], "the nearest command is `control-vector`"),
        (&["download", "smollm2"], "`menagerie pull` does this"),
        (&["--color", "never", "rm", "x"], "`menagerie models remove` does this"),
        (&["spec", "nosuch"], "the commands are new, check, "),
        (&["spec", "nwe"], "the nearest command is `new`"),
    ] {
        menagerie(home.path(), typed).refused_with(&[wanted]);
    }
    let said = menagerie(home.path(), &["nosuch"]).err;
    assert!(!said.contains("version,"), "hidden commands stay so: {said}");
}

/// U27: a slip in the name of a variable is said, once and on standard error.
#[test]
fn a_variable_that_nothing_reads_is_noted() {
    let home = tempfile::tempdir().unwrap();
    let with = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(arguments).current_dir(home.path()).env_clear().env("HOME", home.path());
        call({
            command.env(name, "1");
            command
        })
    };
    let typo = with("MENAGERIE_TOPK", &["list", "--names"]);
    assert_eq!(typo.err.matches("MENAGERIE_TOPK is set but has no effect").count(), 1, "{}", typo.err);
    assert!(typo.err.contains("the nearest is `MENAGERIE_TOP_K`"), "{}", typo.err);
    assert!(!typo.good().contains("MENAGERIE"));
    for known in ["MENAGERIE_TOP_K", "MENAGERIE_THREADS", "MENAGERIE_SPEC_DIR"] {
        assert_eq!(with(known, &["version"]).err, "", "{known}");
    }
}
