//! A conversation by standard input: commands, messages of several lines, nothing lost unasked.

use super::{Call, chat_model, fed};
use std::path::Path;

fn chat(home: &Path, input: &str) -> Call {
    let model = chat_model(home);
    fed(home, &["chat", &model, "-n", "4", "--temp", "0", "--ignore-eos"], input.as_bytes())
}

fn saved(home: &Path, file: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(home.join(file)).unwrap();
    // P24.
    assert!(text.ends_with("]\n"), "{text:?}");
    serde_json::from_str(&text).unwrap()
}

/// A31.
#[test]
fn messages_have_several_lines() {
    let home = tempfile::tempdir().unwrap();
    chat(home.path(), "\"\"\"\none\ntwo\n\"\"\"\nthree \\\nfour\n/save s.json\n").good();
    let messages = saved(home.path(), "s.json");
    let users: Vec<_> =
        messages.iter().filter(|one| one["role"] == "user").map(|one| &one["content"]).collect();
    assert_eq!(users, ["one\ntwo", "three \nfour"]);
}

/// A30, A32, A38: every command says what it did; nothing is replaced unasked; what was saved can be loaded.
#[test]
fn commands_confirm_and_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let call = chat(
        home.path(),
        "/system Be brief.\nhello\n/system\n/save a.json\n/system Be long.\n/save b.json\n/save a.json\n/reset\n/save c.json\n/load a.json\n/show\n/save! b.json\n",
    );
    let err = call.err.clone();
    call.good();
    for words in [
        "system message set\n",
        "Be brief.\n",
        "saved 3 messages to a.json",
        "system message set; the conversation continues",
        "a.json: the file exists\nhelp: /save! FILE",
        "2 messages forgotten",
        "loaded 3 messages from a.json",
    ] {
        assert!(err.contains(words), "`{words}` is not in:\n{err}");
    }
    assert_eq!(saved(home.path(), "a.json")[0]["content"], "Be brief.");
    assert_eq!(saved(home.path(), "c.json").len(), 1);
    assert_eq!(saved(home.path(), "b.json"), saved(home.path(), "a.json"));
}

/// A32: options are changed while one talks.
#[test]
fn options_are_set_and_shown() {
    let home = tempfile::tempdir().unwrap();
    let call = chat(
        home.path(),
        "/set temp 0.25\n/set seed 7\n/set max-tokens 2\nhello\n/show\n/set temp cold\n/set top-p 7\n/set tmep 1\n/set reasoning hide\n/set\n",
    );
    let err = call.err.clone();
    let out = call.good();
    assert!(out.contains("temp 0.25, top-k 40") && out.contains("seed        7"), "{out}");
    assert!(out.contains("2 messages") && out.contains("reasoning   hide"), "{out}");
    for words in ["temp is 0.25", "cold", "--top-p is 7", "the nearest is `temp`", "the limit on tokens (-n)"]
    {
        assert!(err.contains(words), "`{words}` is not in:\n{err}");
    }
}

/// P5: a byte that is no text is named, wherever text is read.
#[test]
fn a_message_that_is_no_text_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    fed(home.path(), &["chat", &model], b"ab\xff\n").fails_with(&["standard input: byte 2", "UTF-8"]);
}

#[test]
fn a_command_that_does_not_exist_is_no_message() {
    let home = tempfile::tempdir().unwrap();
    let call = chat(home.path(), "/hlep\n /hlep\n/save s.json\n/help\n");
    assert!(call.err.contains("/hlep; the nearest is `/help`"), "{}", call.err);
    assert!(call.good().contains("/load FILE"));
    assert_eq!(saved(home.path(), "s.json")[0]["content"], "/hlep");
}

#[test]
fn a_file_that_is_no_conversation_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("x.json"), "{}").unwrap();
    let call = chat(home.path(), "hello\n/load x.json\n/load absent.json\n/save s.json\n");
    assert!(call.err.contains("x.json: not a saved conversation"), "{}", call.err);
    assert!(call.err.contains("absent.json"), "{}", call.err);
    call.good();
    assert_eq!(saved(home.path(), "s.json").len(), 2);
}

/// A9: what is advised exists.
#[test]
fn a_model_without_a_template_is_told_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let model = super::fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    fed(home.path(), &["chat", model], b"hi\n").fails_with(&[
        "no chat template",
        "--chat-template: a file, or one of ",
        "chatml",
        "gemma",
    ]);
    std::fs::write(home.path().join("t.jinja"), super::TEMPLATE).unwrap();
    fed(home.path(), &["chat", model, "--chat-template", "t.jinja", "-n", "2"], b"hi\n").good();
}

/// An option that `/set` does not know is named as `/set` has it, not as the command line does.
#[test]
fn a_wrong_option_is_answered_in_the_words_of_a_chat() {
    let home = tempfile::tempdir().unwrap();
    let call = chat(home.path(), "/set tmp 1\n/set temp hot\n");
    for words in [
        "no option tmp can be set; the nearest is `temp`",
        "help: the options of /set are max-tokens, ",
        "`hot` is not a valid value of temp",
    ] {
        assert!(call.err.contains(words), "`{words}` is not in:\n{}", call.err);
    }
    assert!(!call.err.contains("--temp"), "{}", call.err);
    call.good();
}
