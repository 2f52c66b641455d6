//! Defaults of options: configuration file, then environment, then the command line.

use super::{Call, chat_model, menagerie};
use std::path::Path;

fn configured(home: &Path, text: &str) {
    std::fs::create_dir_all(home.join(".config/menagerie")).unwrap();
    std::fs::write(home.join(".config/menagerie/config.toml"), text).unwrap();
}

fn with_variable(home: &Path, variable: (&str, &str), arguments: &[&str]) -> Call {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear();
    command.env("HOME", home).env("HF_HUB_OFFLINE", "1").env(variable.0, variable.1);
    super::call(command)
}

#[test]
fn the_command_line_comes_before_the_environment_before_the_file() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    configured(home.path(), "temp = 0.5\nstop = [\"x\", \"y\"]\n[run]\nmax-tokens = 2\nverbose = true\n");
    // With another seed the answer could end before its last token, at a stop string.
    let run = ["run", &model, "hi", "--seed", "1"];
    let call = menagerie(home.path(), &run);
    assert!(call.err.contains("temp 0.5,") && call.err.contains("generated 2 in"), "{}", call.err);
    let call = with_variable(home.path(), ("MENAGERIE_TEMP", "0.25"), &run);
    assert!(call.err.contains("temp 0.25,"), "{}", call.err);
    let arguments = [&run[..], &["--temp", "0.125", "-n", "3"]].concat();
    let call = with_variable(home.path(), ("MENAGERIE_TEMP", "0.25"), &arguments);
    assert!(call.err.contains("temp 0.125,") && call.err.contains("generated 3 in"), "{}", call.err);
    // Cut short, or an answer that fills the context says so.
    let short = [&run[..], &["-n", "2"]].concat();
    let call = with_variable(home.path(), ("MENAGERIE_CONFIG", ""), &short);
    assert!(call.err.is_empty(), "{}", call.err);
    assert!(menagerie(home.path(), &["run", "--help"]).good().contains("[default: 0.5]"));
}

#[test]
fn what_is_wrong_in_the_file_is_pointed_at() {
    let home = tempfile::tempdir().unwrap();
    configured(home.path(), "threads = 1\ntmep = 0.5\n");
    menagerie(home.path(), &["list"]).fails_with(&["config.toml:2:1", "tmep = 0.5", "^^^^", "`temp`"]);
    configured(home.path(), "threads = \n");
    menagerie(home.path(), &["list"]).fails_with(&["config.toml:"]);
    let file = home.path().join(".config/menagerie/config.toml");
    std::fs::write(&file, b"threads = 1\ntemp = \"\xff\"\n").unwrap();
    menagerie(home.path(), &["list"]).fails_with(&["config.toml: byte 20 (line 2) is not UTF-8", "help: "]);
    // What helps to mend it is not stopped by it.
    for arguments in [&["doctor"][..], &["--version"], &["run", "--help"], &["man"]] {
        let call = menagerie(home.path(), arguments);
        assert!(call.err.contains("config.toml: byte 20"), "{arguments:?}: {}", call.err);
        call.good();
    }
    configured(home.path(), "[run]\nraw = true\n");
    let far = menagerie(home.path(), &["list"]);
    assert!(!far.err.contains("nearest"), "{}", far.err);
    far.fails_with(&["config.toml:2:1", "no option --raw"]);
    configured(home.path(), "threads = 1\n[run.deep]\ntemp = 1\n");
    menagerie(home.path(), &["list"]).fails_with(&["config.toml:2:", "deep", "^"]);
    configured(home.path(), "temp = \"cold\"\n");
    let model = chat_model(home.path());
    menagerie(home.path(), &["run", &model, "hi"]).refused_with(&["cold", "config.toml:1:1"]);
    let call = with_variable(home.path(), ("MENAGERIE_TOP_K", "many"), &["run", &model, "hi", "--temp", "1"]);
    call.refused_with(&["many", "MENAGERIE_TOP_K"]);
    let call = with_variable(home.path(), ("MENAGERIE_CONFIG", "absent.toml"), &["list"]);
    call.fails_with(&["absent.toml"]);
}
