//! `man`: pages for man(1).

use super::menagerie;
use std::path::Path;

fn page(home: &Path, words: &[&str]) -> String {
    menagerie(home, &[&["man"], words].concat()).good()
}

/// The line under SYNOPSIS, without fonts.
fn synopsis(page: &str) -> String {
    let line = page.split(".SH SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap();
    ["\\fB", "\\fI", "\\fR"].iter().fold(line.replace("\\-", "-"), |line, font| line.replace(font, ""))
}

#[test]
fn the_manual_is_a_page_for_man() {
    let home = tempfile::tempdir().unwrap();
    let whole = page(home.path(), &[]);
    assert!(whole.contains(".TH") && whole.contains("MENAGERIE_CONFIG"), "{whole}");
    let run = page(home.path(), &["run"]);
    assert!(run.contains(".TH menagerie\\-run") || run.contains(".TH menagerie-run"), "{run}");
    assert!(run.contains("top\\-p"), "{run}");
    // What is below the options of `-h` is no part of a page.
    assert!(!run.contains("EXTRA") && !run.contains("lists all options"), "{run}");
    assert!(menagerie(home.path(), &["version"]).good().contains("kernels here"));
}

/// U19: commands of commands have pages, whichever way they are named.
#[test]
fn nested_commands_have_pages() {
    let home = tempfile::tempdir().unwrap();
    let new = page(home.path(), &["spec", "new"]);
    assert!(new.contains("menagerie\\-spec\\-new \\- Draft a spec"), "{new}");
    for words in [&["spec new"][..], &["spec-new"]] {
        assert_eq!(page(home.path(), words), new, "{words:?}");
    }
    assert!(page(home.path(), &["control-vector", "make"]).contains("control\\-vector\\-make \\- "));
    for words in [&["nosuch"][..], &["spec", "nosuch"], &["spec", "new", "more"], &["specnew"]] {
        let name = words.join(" ");
        menagerie(home.path(), &[&["man"], words].concat())
            .refused_with(&[&format!("unknown command `{name}`")]);
    }
}

/// U19: what an option takes stands behind it, optional and repeated values included.
#[test]
fn options_have_their_arguments_in_the_synopsis() {
    let home = tempfile::tempdir().unwrap();
    let run = synopsis(&page(home.path(), &["run"]));
    for part in [
        "menagerie run [",
        " [-c|--context TOKENS] ",
        " [--lora PATH[=WEIGHT]]... ",
        " [--capture WHAT FILE] ",
        " [--profile[=FILE]] ",
        " [--exact] ",
        " [--logprobs [K]] ",
        " MODEL [PROMPT]",
    ] {
        assert!(run.contains(part), "`{part}` is not in {run}");
    }
    let make = synopsis(&page(home.path(), &["control-vector", "make"]));
    assert!(make.contains(" --positive FILE --negative FILE "), "required: {make}");
    let models = synopsis(&page(home.path(), &["models"]));
    assert!(models.ends_with(" [COMMAND]"), "{models}");
    let whole = synopsis(&page(home.path(), &[]));
    assert!(whole.ends_with(" COMMAND"), "{whole}");
}
