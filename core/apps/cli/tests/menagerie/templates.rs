//! Chat templates: given by hand, faulty, from a spec; tools and variables.

use super::{Changed, TEMPLATE, chat_model, fixture, menagerie};
use serde_json::Value;
use std::path::Path;

fn prompt_tokens(home: &Path, model: &str, extra: &[&str]) -> u64 {
    let arguments = [&["run", model, "hi", "--json", "-n", "1"], extra].concat();
    let report: Value = serde_json::from_str(&menagerie(home, &arguments).good()).unwrap();
    report["prompt_tokens"].as_u64().unwrap()
}

/// A5: `--template-var`, `--tools`, `--chat-template`.
#[test]
fn templates_are_given_variables_and_tools() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    std::fs::write(home.path().join("tools.json"), r#"[{"type": "function", "function": {"name": "f"}}]"#)
        .unwrap();
    std::fs::write(home.path().join("short.jinja"), "{{ messages[-1].content }}").unwrap();
    let tokens = |extra: &[&str]| prompt_tokens(home.path(), &model, extra);
    let plain = tokens(&[]);
    assert!(tokens(&["--template-var", "think=true"]) > plain);
    assert!(tokens(&["--tools", "tools.json", "--accept-unverified-calls"]) > plain);
    assert!(tokens(&["--system", "Be brief."]) > plain);
    assert!(tokens(&["--chat-template", "short.jinja"]) < plain);
    let call = menagerie(home.path(), &["run", &model, "hi", "-n", "1", "--template-var", "unknown=1"]);
    assert!(call.err.contains("--template-var unknown has no effect"), "{}", call.err);
    menagerie(home.path(), &["run", &model, "hi", "--template-var", "think"]).refused_with(&["NAME=JSON"]);
    let raw =
        menagerie(home.path(), &["run", &model, "hi", "-n", "1", "--raw", "--template-var", "think=true"]);
    assert!(raw.err.contains("--template-var has no effect: --raw"), "{}", raw.err);
    let base = fixture("base/llama/model-f32.gguf");
    for option in [["--template-var", "think=true"], ["--tools", "tools.json"]] {
        let call = menagerie(home.path(), &[&["run", base.to_str().unwrap(), "hi"], &option[..]].concat());
        call.refused_with(&[option[0], "this model has none", "help: set one with --chat-template"]);
    }
    // P21: what a template does not look at is said wherever one is used.
    std::fs::write(home.path().join("m.json"), r#"[{"role": "user", "content": "hi"}]"#).unwrap();
    let blind = [
        "--chat-template",
        "short.jinja",
        "--tools",
        "tools.json",
        "--accept-unverified-calls",
        "--template-var",
        "think=true",
    ];
    for command in [&["run", &model, "hi", "-n", "1"][..], &["chat", &model], &["render", &model, "m.json"]] {
        let call = menagerie(home.path(), &[command, &blind].concat());
        for option in ["--tools", "--template-var think"] {
            assert!(call.err.contains(&format!("{option} has no effect")), "{command:?}: {}", call.err);
        }
        call.good();
        let sees = menagerie(home.path(), &[command, &blind[2..]].concat());
        assert!(!sees.err.contains("has no effect"), "{}", sees.err);
    }
}

/// No template and a template that cannot be used are two things.
#[test]
fn a_template_that_does_not_compile_is_an_error_in_run_too() {
    let home = tempfile::tempdir().unwrap();
    let broken = Changed::of("base/llama/model-f32.gguf").set("tokenizer.chat_template", "{% if x %}");
    let model = broken.write(home.path());
    menagerie(home.path(), &["run", &model, "hi", "-n", "2"]).fails_with(&["chat format"]);
    menagerie(home.path(), &["run", &model, "hi", "-n", "2", "--raw"]).good();
    // A11.
    menagerie(home.path(), &["check", &model]).fails_with(&["chat format"]);
}

/// A18: `render` shows what `run` uses, the fallback of a spec too; P21: it reads standard input and lists of texts.
#[test]
fn render_uses_specs() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    let fallback = "{% for m in messages %}({{ m.role }}) {{ m.content }}{% endfor %}";
    let spec = format!(
        "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"talker\"\n\n[chat]\nfallback = {fallback:?}\n"
    );
    std::fs::write(home.path().join("menagerie.d/talker.toml"), spec).unwrap();
    let mut changed = Changed::of("base/llama/model-f32.gguf").set("general.architecture", "talker");
    for (key, _) in &mut changed.keys {
        if let Some(rest) = key.strip_prefix("llama.") {
            *key = format!("talker.{rest}");
        }
    }
    let model = changed.write(home.path());
    let messages = br#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}]}]}"#;
    assert_eq!(super::fed(home.path(), &["render", &model, "-"], messages).good(), "(user) hi there");
    std::fs::write(home.path().join("m.json"), "[1,\n").unwrap();
    menagerie(home.path(), &["render", &model, "m.json"]).fails_with(&["m.json:1:3"]);
    std::fs::write(home.path().join("t.jinja"), TEMPLATE).unwrap();
    let given =
        super::fed(home.path(), &["render", &model, "-", "--chat-template", "t.jinja"], messages).good();
    assert_eq!(given, "<user>hi there\n<assistant>");
}

/// The fallback of a spec may name a template of the tables; a name that none has is refused, and the nearest is named.
#[test]
fn fallback_names_a_template() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    let spec = |fallback: &str| {
        let text = format!(
            "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"talker\"\n\n[chat]\nfallback = {fallback:?}\n"
        );
        std::fs::write(home.path().join("menagerie.d/talker.toml"), text).unwrap();
    };
    let mut changed = Changed::of("base/llama/model-f32.gguf").set("general.architecture", "talker");
    for (key, _) in &mut changed.keys {
        if let Some(rest) = key.strip_prefix("llama.") {
            *key = format!("talker.{rest}");
        }
    }
    let model = changed.write(home.path());
    let messages = br#"[{"role": "user", "content": "hi"}]"#;
    spec("chatml");
    let named = super::fed(home.path(), &["render", &model, "-"], messages).good();
    let by_option = ["render", &model, "-", "--chat-template", "chatml"];
    assert_eq!(named, super::fed(home.path(), &by_option, messages).good());
    let answered = menagerie(home.path(), &["run", &model, "hi", "-n", "1", "--json"]).good();
    assert!(answered.contains("\"text\""), "{answered}");
    spec("chatm");
    super::fed(home.path(), &["render", &model, "-"], messages).fails_with(&["chatm", "nearest", "chatml"]);
    menagerie(home.path(), &["run", &model, "hi", "-n", "1"]).fails_with(&["chatm", "nearest", "chatml"]);
}

/// A11, A12: what cannot be used is a fault, in JSON too.
#[test]
fn check_fails_what_cannot_be_used() {
    let home = tempfile::tempdir().unwrap();
    let json = |arguments: &[&str]| {
        let call = menagerie(home.path(), arguments);
        (call.code, serde_json::from_str::<Value>(&call.out).unwrap())
    };
    let file = Changed::of("base/llama/model-f32.gguf").set("tokenizer.ggml.pre", "foo").write(home.path());
    let call = menagerie(home.path(), &["check", &file]);
    assert_eq!(call.err.matches("unknown pre-tokenizer").count(), 1, "{}", call.err);
    call.fails_with(&["unknown pre-tokenizer `foo`", "1 error"]);
    let (code, report) = json(&["check", &file, "--json"]);
    assert_eq!((code, report["good"].as_bool()), (Some(1), Some(false)));
    assert!(report["faults"][0]["message"].as_str().unwrap().contains("foo"), "{report}");

    let mut changed = Changed::of("base/llama/model-f32.gguf");
    changed.tensors.retain(|tensor| tensor.name != "blk.1.ffn_up.weight");
    let (code, report) = json(&["check", &changed.write(home.path()), "--json"]);
    assert_eq!(code, Some(1));
    assert!(report["faults"].to_string().contains("blk.1.ffn_up.weight"), "{report}");

    let good = fixture("base/llama/model-f32.gguf");
    let (code, report) = json(&["check", good.to_str().unwrap(), "--json"]);
    assert_eq!((code, report["good"].as_bool()), (Some(0), Some(true)));
    assert!(report["notes"].to_string().contains("chat template"), "{report}");
}

/// Templates by name: those of the program, and what a file dropped into a spec folder adds.
#[test]
fn templates_have_names() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("m.json"), r#"[{"role": "user", "content": "hi"}]"#).unwrap();
    let render = |name: &str, extra: &[&str]| {
        menagerie(home.path(), &[&["render", "m.json", "--chat-template", name], extra].concat())
    };
    assert_eq!(render("chatml", &[]).good(), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    render("mine", &[]).fails_with(&[
        "mine: ",
        "is neither a file nor the name of a chat template",
        "chatml, command-r",
    ]);
    std::fs::create_dir_all(home.path().join("specs/tokenizers")).unwrap();
    let table = "[[chat_template]]\nname = 'mine'\nsource = '{{ messages[0].content }}!'\n";
    std::fs::write(home.path().join("specs/tokenizers/t.toml"), table).unwrap();
    assert_eq!(render("mine", &["--spec-dir", "specs"]).good(), "hi!");
    let model = fixture("base/llama/model-f32.gguf");
    menagerie(home.path(), &["run", model.to_str().unwrap(), "hi", "-n", "1", "--chat-template", "chatml"])
        .good();
}

/// A message that says nothing is named, whatever the template does with it.
#[test]
fn a_message_without_content_is_named() {
    let home = tempfile::tempdir().unwrap();
    let render = |messages: &str, template: &str| {
        std::fs::write(home.path().join("m.json"), messages).unwrap();
        std::fs::write(home.path().join("t.jinja"), template).unwrap();
        menagerie(home.path(), &["render", "--chat-template", "t.jinja", "m.json"])
    };
    let adds = "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% endfor %}";
    let shows = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    for template in [adds, shows] {
        for messages in [r#"[{"role": "user"}]"#, r#"[{"role": "user", "content": null}]"#] {
            render(messages, template).fails_with(&["message 0 has no content"]);
        }
    }
    // A call of a tool needs none, unless the template does.
    let calls = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": []}]"#;
    assert_eq!(
        render(calls, "{% for m in messages %}<{{ m.role }}>{% endfor %}").good(),
        "<user><assistant>"
    );
    render(calls, adds).fails_with(&["message 1 has no content"]);
}
