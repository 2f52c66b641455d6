//! Error messages: the error, its place with a caret, and help; colors only if enabled.

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
    call.fails_with(&["--> broken.toml:8:", "--> broken.toml:11:1", "2 errors"]);
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
fn colors_are_there_only_where_they_are_wanted() {
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
    for words in [
        "from the model file, else 0.8",
        "from the model file, else 40",
        "[default: stderr]",
        "--chat-template",
    ] {
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
    assert!(serde_json::from_str::<Value>(&list).unwrap()["shapes"]["llama-3.2-1b"].is_object(), "{list}");
    assert!(
        menagerie(home.path(), &["synth", "--help"])
            .good()
            .contains("a name with canonical keys that change it")
    );
}

/// Faults of a template given as a file have their place in it, when it is read and when it is used.
#[test]
fn faults_of_a_template_point_into_it() {
    let home = tempfile::tempdir().unwrap();
    let model = super::chat_model(home.path());
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    write("m.json", r#"[{"role": "user", "content": "hi"}]"#);
    write("broken.jinja", "{{ messages }}\n  text {% if x %%}\n");
    write("refuses.jinja", "{{ messages[0].content }}\n{{ raise_exception('no system') }}");
    write("fails.jinja", "\n{{ messages[0].content.nothing.at }}");
    for (template, words) in [
        ("broken.jinja", &["--> broken.jinja:2:8", "2 |   text {% if x %%}", "^^^"][..]),
        (
            "refuses.jinja",
            &["--> refuses.jinja:2:1", "the template rejects this conversation: no system", "^^^"],
        ),
        ("fails.jinja", &["--> fails.jinja:2:1", "cannot render", "help: check the messages"]),
    ] {
        let given = ["--chat-template", template];
        menagerie(home.path(), &[&["run", &model, "hi"], &given[..]].concat()).fails_with(words);
        menagerie(home.path(), &[&["render", "m.json"], &given[..]].concat()).fails_with(words);
        let chat = super::fed(home.path(), &[&["chat", &model], &given[..]].concat(), b"hi\n");
        assert!(words.iter().all(|word| chat.err.contains(word)), "{}", chat.err);
    }
    write("name.jinja", "gemma");
    menagerie(home.path(), &["run", &model, "hi", "--chat-template", "name.jinja"])
        .fails_with(&["name.jinja", "never mentions `messages`"]);
    menagerie(home.path(), &["run", &model, "hi", "--chat-template", "absent.jinja"])
        .fails_with(&["absent.jinja: "]);
}

/// A7: what holds until the same text comes in every case.
#[test]
fn help_of_the_seed_says_what_holds() {
    let home = tempfile::tempdir().unwrap();
    for command in ["run", "chat"] {
        let help = menagerie(home.path(), &[command, "--help"]).good();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            help.contains("with the same model, options and prompt produces the same text on every machine"),
            "{help}"
        );
    }
}

/// A9: three pieces of advice, each of something that exists.
#[test]
fn advice_is_of_what_exists() {
    let home = tempfile::tempdir().unwrap();
    // Token ids are taken by `logits` alone, and `bench` needs no text.
    let mut changed = super::Changed::of("base/llama/model-f32.gguf");
    changed.keys.retain(|(key, _)| !key.starts_with("tokenizer."));
    let model = changed.write(home.path());
    for command in ["run", "chat"] {
        let call = super::fed(home.path(), &[command, &model], b"hi\n");
        call.fails_with(&["`logits --tokens` and `bench` need none"]);
    }
    menagerie(home.path(), &["logits", &model, "--tokens", "1,2", "--out", "o"]).good();
    // A template can be given where the note says so.
    let base = super::fixture("base/llama/model-f32.gguf");
    let base = base.to_str().unwrap();
    let note = menagerie(home.path(), &["check", base]).good();
    assert!(note.contains("--chat-template"), "{note}");
    std::fs::write(home.path().join("t.jinja"), super::TEMPLATE).unwrap();
    menagerie(home.path(), &["run", base, "hi", "-n", "1", "--chat-template", "t.jinja"]).good();
    // A file alone means its folder, and both say what the folder lacks.
    let folder = home.path().join("hf");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    let file = menagerie(home.path(), &["run", "hf/model.safetensors", "hi"]).err;
    let folder = menagerie(home.path(), &["run", "./hf", "hi"]).err;
    for said in [file, folder] {
        assert!(said.contains("it has no config.json") && !said.contains("give the folder"), "{said}");
    }
}

/// A27, P9: what takes the memory is what is named, in the units of listings.
#[test]
fn advice_on_memory_names_the_cause() {
    let home = tempfile::tempdir().unwrap();
    let model = super::fixture("base/llama/model-f32.gguf");
    let run = |extra: &[&str]| {
        menagerie(home.path(), &[&["run", model.to_str().unwrap(), "hi", "--raw"], extra].concat())
    };
    let call = run(&["--chunk", "4294967295"]);
    assert!(!call.err.contains("even the weights") && !call.err.contains("iB"), "{}", call.err);
    call.fails_with(&[
        "a step of the prompt takes most of it",
        "help: compute fewer tokens at once (--chunk 512)",
    ]);
    run(&["-c", "4294967295"]).fails_with(&["TB", "help: ask for a smaller context (-c "]);
}

/// P15, P23, P27: what is offered instead is what was meant, or nothing.
#[test]
fn suggestions_are_near() {
    let home = tempfile::tempdir().unwrap();
    let err = |arguments: &[&str]| {
        let call = menagerie(home.path(), arguments);
        assert_eq!(call.code, Some(2), "{call:?}");
        call.err
    };
    assert!(!err(&["nosuch"]).contains("similar"));
    assert!(err(&["chta"]).contains("the nearest command is `chat`"));
    let other = err(&["run", "m.gguf", "x", "--kv-type", "q4_0"]);
    assert!(other.contains("f32, f16, q8_0") && !other.contains("similar"), "{other}");
    #[cfg(feature = "hub")]
    assert!(err(&["--json", "models"]).contains("'models --json' exists"));
}

/// P16: nothing but text goes into a pipe, logs included.
#[test]
fn logs_have_no_colors() {
    let home = tempfile::tempdir().unwrap();
    let model = super::fixture("base/llama/model-f32.gguf");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(["run", model.to_str().unwrap(), "a", "--raw", "-n", "1"]).env_clear();
    command.env("HOME", home.path()).env("RUST_LOG", "info");
    let call = super::call(command);
    assert!(call.err.contains("model opened") && !call.err.contains('\x1b'), "{}", call.err);
}
