//! Tools: formats that are verified with the chat template, conversations with calls and results.

use super::{Call, Changed, fed, menagerie};
use serde_json::{Value, json};
use std::path::Path;

/// A chat template that writes calls in the format `hermes`.
const TEMPLATE: &str = "{% if tools %}{{ tools|tojson }}\n{% endif %}{% for m in messages %}<{{ m.role }}{% if m.role == 'tool' %} {{ m.name }}{% endif %}>{{ m.content }}{% for c in m.tool_calls %}{{ '<tool_call>\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' + c.function.arguments|tojson + '}\n</tool_call>\n' }}{% endfor %}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

/// A tiny model with this template, and a file of tools.
fn model(home: &Path, template: &str) -> String {
    let tool =
        json!({ "type": "function", "function": { "name": "get_weather", "description": "Weather." } });
    std::fs::write(home.join("tools.json"), json!([tool]).to_string()).unwrap();
    Changed::of("base/llama/model-f32.gguf").set("tokenizer.chat_template", template).write(home)
}

fn run(home: &Path, template: &str, more: &[&str]) -> Call {
    let model = model(home, template);
    menagerie(home, &[&["run", &model, "hi", "-n", "2", "--json", "--tools", "tools.json"], more].concat())
}

#[test]
fn tools_are_refused_where_calls_could_not_be_read() {
    let home = tempfile::tempdir().unwrap();
    let report: Value = serde_json::from_str(&run(home.path(), TEMPLATE, &[]).good()).unwrap();
    assert_eq!(report["tool_calls"], json!([]));
    let lost = TEMPLATE.replace("\"arguments\": ", "\"argument\": ");
    run(home.path(), &lost, &[])
        .fails_with(&["calls are not read as the chat template writes them", "`hermes`"]);
    let unknown = TEMPLATE.replace("tool_call>", "a_call>");
    run(home.path(), &unknown, &[]).fails_with(&["no [[call]] entry fits this chat template"]);
    run(home.path(), &unknown, &["--accept-unverified-calls"]).good();
    // An entry of a spec folder is used.
    let folder = home.path().join("menagerie.d/tokenizers");
    std::fs::create_dir_all(&folder).unwrap();
    let entry = "[[call]]\nname = 'mine'\nwhere = ['<a_call>']\ncall = \"<a_call>\\n${object}\\n</a_call>\"\n\
                 object = { name = 'name', arguments = 'arguments' }\n";
    std::fs::write(folder.join("mine.toml"), entry).unwrap();
    run(home.path(), &unknown, &[]).good();
    menagerie(home.path(), &["run", "m.gguf", "hi", "--accept-unverified-calls"]).refused_with(&["--tools"]);
}

/// The call of a conversation.
fn call(id: &str) -> Value {
    let function = json!({ "name": "get_weather", "arguments": "{\"city\": \"Bern\"}" });
    json!({ "id": id, "type": "function", "function": function })
}

#[test]
fn a_chat_takes_the_results_of_calls() {
    let home = tempfile::tempdir().unwrap();
    let model = model(home.path(), TEMPLATE);
    let talk = json!([
        { "role": "user", "content": "Weather?" },
        { "role": "assistant", "content": null, "tool_calls": [call("c1"), call("c2")] },
    ]);
    std::fs::write(home.path().join("talk.json"), talk.to_string()).unwrap();
    let arguments = [
        "chat",
        &model,
        "-n",
        "4",
        "--temp",
        "0",
        "--ignore-eos",
        "--tools",
        "tools.json",
        "--reasoning",
        "hide",
    ];
    let input = "/load talk.json\nrain\nsun\nthanks\n/save out.json\n";
    let done = fed(home.path(), &arguments, input.as_bytes());
    for note in [
        "the next message is the result of get_weather (call 1 of 2)",
        "the next message is the result of get_weather (call 2 of 2)",
    ] {
        assert!(done.err.contains(note), "{}", done.err);
    }
    done.good();
    let saved: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(home.path().join("out.json")).unwrap()).unwrap();
    let roles: Vec<&str> = saved.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]);
    assert_eq!(saved[1]["tool_calls"], talk[1]["tool_calls"]);
    let result = |id: &str, content: &str| json!({ "role": "tool", "content": content, "tool_call_id": id, "name": "get_weather" });
    assert_eq!(saved[2..4], [result("c1", "rain"), result("c2", "sun")]);
}

#[test]
fn a_batch_has_tools_and_results() {
    let home = tempfile::tempdir().unwrap();
    let model = model(home.path(), TEMPLATE);
    let tools: Value =
        serde_json::from_str(&std::fs::read_to_string(home.path().join("tools.json")).unwrap()).unwrap();
    let line = |id: &str, messages: Value, choice: Value| {
        let body = json!({ "messages": messages, "tools": tools, "tool_choice": choice, "max_tokens": 2 });
        json!({ "custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body }).to_string()
    };
    let user = json!({ "role": "user", "content": [{ "type": "text", "text": "Weather?" }] });
    let asked = json!({ "role": "assistant", "content": null, "tool_calls": [call("c1")] });
    let result = json!({ "role": "tool", "tool_call_id": "c1", "content": "rain" });
    let lines = [
        line("plain", json!([user]), json!("auto")),
        line("results", json!([user, asked, result]), json!("auto")),
        line("none", json!([user]), json!("none")),
        line("required", json!([user]), json!("required")),
        line("unknown", json!([user, result]), json!("auto")),
    ];
    std::fs::write(home.path().join("in.jsonl"), lines.join("\n")).unwrap();
    let done = menagerie(home.path(), &["batch", &model, "in.jsonl", "out.jsonl", "--temp", "0"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let text = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: &str| &lines.iter().find(|line| line["custom_id"] == id).unwrap()["response"];
    let tokens = |id: &str| of(id)["body"]["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens("none") < tokens("plain") && tokens("plain") < tokens("results"), "{text}");
    for (id, field) in [("required", "tool_choice"), ("unknown", "messages[1].tool_call_id")] {
        assert_eq!((&of(id)["status_code"], &of(id)["body"]["error"]["param"]), (&json!(400), &json!(field)));
    }
    // Tools of a template whose calls cannot be read are refused by name.
    let blind =
        Changed::of("base/llama/model-f32.gguf").set("tokenizer.chat_template", "{{ messages[-1].content }}");
    let blind = blind.write(home.path());
    std::fs::write(home.path().join("in.jsonl"), line("blind", json!([user]), json!("auto"))).unwrap();
    menagerie(home.path(), &["batch", &blind, "in.jsonl", "blind.jsonl"]);
    let text = std::fs::read_to_string(home.path().join("blind.jsonl")).unwrap();
    assert!(text.contains("no [[call]] entry fits") && text.contains("\"param\":\"tools\""), "{text}");
}
