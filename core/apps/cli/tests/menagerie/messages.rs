//! Errors as people read them: what, where with a caret, what to do; colours only where they are wanted.

use super::menagerie;
use serde_json::Value;

const FAULTY: &str = "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"broken\"\n\n[mixer.rope]\npairs = \"sideways\"\n\n[mixer]\nbais = \"none\"\n";

/// P2: in the order of lines, each with its line and a caret; A12: in JSON too.
#[test]
fn faults_of_a_spec_point_into_it() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("broken.toml"), FAULTY).unwrap();
    let call = menagerie(home.path(), &["check", "broken.toml"]);
    let (first, second) =
        (call.err.find("pairs = \"sideways\"").unwrap(), call.err.find("bais = \"none\"").unwrap());
    assert!(first < second && call.err.contains("^^^^"), "{}", call.err);
    call.fails_with(&["--> broken.toml:8:", "--> broken.toml:11:1", "2 faults"]);
    let call = menagerie(home.path(), &["check", "broken.toml", "--json"]);
    let report: Value = serde_json::from_str(&call.out).unwrap();
    assert_eq!((call.code, report["faults"][1]["line"].as_u64()), (Some(1), Some(11)));
    assert_eq!(report["faults"][1]["file"], "broken.toml");
    let good = menagerie(home.path(), &["check", "llama", "--json"]).good();
    assert_eq!(serde_json::from_str::<Value>(&good).unwrap()["good"], true);
    // P5: the list says it once.
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    std::fs::write(home.path().join("menagerie.d/broken.toml"), FAULTY).unwrap();
    let list = menagerie(home.path(), &["list"]).good();
    assert_eq!(list.matches("cannot be used").count(), 1, "{list}");
    assert!(list.contains("--> menagerie.d/broken.toml:8:"), "{list}");
}

/// P16.
#[test]
fn colours_are_there_only_where_they_are_wanted() {
    let home = tempfile::tempdir().unwrap();
    let failing = |extra: &[&str]| menagerie(home.path(), &[&["show", "nothing.gguf"], extra].concat()).err;
    assert!(!failing(&[]).contains('\x1b'));
    assert!(failing(&["--color", "always"]).contains("\x1b["));
    assert!(menagerie(home.path(), &["frobnicate", "--color=always"]).err.contains("\x1b["));
    assert!(menagerie(home.path(), &["--help", "--color=always"]).good().contains("\x1b["));
}

/// P28: nothing that was to be shown is lost silently.
#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_fails() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [&["--help"][..], &["--version"], &["list"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(arguments).env_clear().env("HOME", home.path());
        command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        assert_eq!(command.status().unwrap().code(), Some(1), "{arguments:?}");
    }
}

/// A24: what holds where nothing is said; A27, A9.
#[test]
fn help_states_defaults() {
    let home = tempfile::tempdir().unwrap();
    let words_of = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = words_of(menagerie(home.path(), &["run", "--help"]).good());
    for words in ["the file's, else 0.8", "the file's, else 40", "[default: stderr]", "--chat-template"] {
        assert!(help.contains(words), "`{words}` is not in:\n{help}");
    }
    let root = menagerie(home.path(), &["--help"]).good();
    assert!(
        root.contains("MENAGERIE_ISA") && root.contains("RUST_LOG") && root.contains("config.toml"),
        "{root}"
    );
}

/// A12, A28.
#[test]
fn shapes_are_listed_in_json() {
    let home = tempfile::tempdir().unwrap();
    let list = menagerie(home.path(), &["synth", "llama", "--shape", "list", "--json"]).good();
    assert!(serde_json::from_str::<Value>(&list).unwrap()["llama-3.2-1b"].is_object(), "{list}");
    assert!(
        menagerie(home.path(), &["synth", "--help"])
            .good()
            .contains("a name and canonical keys that change it")
    );
}
