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
        line("unknown-choice", json!([user]), json!("any")),
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
    for (id, field) in [("unknown-choice", "tool_choice"), ("unknown", "messages[1].tool_call_id")] {
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

/// Tools whose arguments have every kind of value.
fn two_tools() -> Value {
    let city = json!({ "type": "string", "maxLength": 6 });
    let weather = json!({
        "type": "object", "required": ["city", "days"],
        "properties": { "city": city, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
    });
    let tool = |name: &str, parameters: &Value| json!({ "type": "function", "function": { "name": name, "description": "d", "parameters": parameters } });
    json!([tool("get_weather", &weather), tool("now", &json!({ "type": "object", "properties": {} }))])
}

/// Checks calls of [`two_tools`]; returns their names.
fn checked_names(calls: &Value) -> Vec<String> {
    let name = |call: &Value| {
        let function = &call["function"];
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        match function["name"].as_str().unwrap() {
            "now" => assert_eq!(arguments, json!({})),
            name => {
                assert_eq!(name, "get_weather");
                assert!((1..=9).contains(&arguments["days"].as_u64().unwrap()), "{arguments}");
                assert!(arguments["city"].as_str().unwrap().chars().count() <= 6, "{arguments}");
            }
        }
        function["name"].as_str().unwrap().to_owned()
    };
    calls.as_array().unwrap().iter().map(name).collect()
}

/// Weights are random and the temperature is high, so what is not constrained is noise.
#[test]
fn a_call_can_be_required() {
    let home = tempfile::tempdir().unwrap();
    let model = model(home.path(), TEMPLATE);
    std::fs::write(home.path().join("two.json"), two_tools().to_string()).unwrap();
    let run = |choice: &str, seed: &str| {
        let arguments =
            ["run", &model, "hi", "-n", "300", "--json", "--tools", "two.json", "--temp", "3", "-t", "1"];
        menagerie(home.path(), &[&arguments[..], &["--tool-choice", choice, "--seed", seed]].concat())
    };
    for seed in ["1", "2", "3"] {
        let report: Value = serde_json::from_str(&run("required", seed).good()).unwrap();
        // The beginning of a call that `-n` cuts off is text.
        let is_cut = report["stop"]["reason"] == "max-tokens";
        let is_empty = checked_names(&report["tool_calls"]).is_empty();
        assert!(!is_empty && (is_cut || report["text"] == ""), "{report}");
        let report: Value = serde_json::from_str(&run("now", seed).good()).unwrap();
        assert!(checked_names(&report["tool_calls"]).iter().all(|name| name == "now"), "{report}");
    }
    let none: Value = serde_json::from_str(&run("none", "1").good()).unwrap();
    assert_eq!(none["tool_calls"], json!([]));
    run("rm", "1").refused_with(&["no tool has the name `rm`", "get_weather, now"]);
    menagerie(home.path(), &["run", &model, "hi", "--tool-choice", "auto"]).refused_with(&["--tools"]);
    let unsupported = json!([{ "name": "f", "parameters": { "type": "object", "not": {} } }]);
    std::fs::write(home.path().join("two.json"), unsupported.to_string()).unwrap();
    run("required", "1").fails_with(&["tool `f`", "`not`"]);
    run("auto", "1").good();
    let strict = json!([{ "name": "f", "strict": true, "parameters": { "type": "object", "not": {} } }]);
    std::fs::write(home.path().join("two.json"), strict.to_string()).unwrap();
    run("auto", "1").fails_with(&["tool `f`", "`not`"]);
}

#[test]
fn a_line_of_a_batch_chooses_its_tools() {
    let home = tempfile::tempdir().unwrap();
    let model = model(home.path(), TEMPLATE);
    let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let allowed = json!({ "type": "allowed_tools", "allowed_tools": { "mode": "required", "tools": [function("now")] } });
    let line = |id: &str, more: Value| {
        let mut body = json!({
            "messages": [{ "role": "user", "content": "Weather?" }], "tools": two_tools(), "max_tokens": 300,
            "temperature": 3, "seed": 7,
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body }).to_string()
    };
    let schema = json!({
        "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"], "additionalProperties": false,
    });
    let format = |schema: Value| json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    let lines = [
        line("required", json!({ "tool_choice": "required" })),
        line("named", json!({ "tool_choice": function("get_weather"), "parallel_tool_calls": false })),
        line("allowed", json!({ "tool_choice": allowed, "parallel_tool_calls": false })),
        line("one", json!({ "tool_choice": "required", "parallel_tool_calls": false })),
        line("auto", json!({ "max_tokens": 8 })),
        line("missing", json!({ "tool_choice": function("rm") })),
        line("both", json!({ "response_format": format(schema.clone()) })),
        line("both again", json!({ "response_format": format(schema.clone()), "seed": 8 })),
        line("both, required", json!({ "response_format": format(schema), "tool_choice": "required" })),
        line("both, unsupported", json!({ "response_format": format(json!({ "uniqueItems": true })) })),
        line(
            "unsupported",
            json!({
                "tool_choice": "required",
                "tools": [{ "type": "function", "function": { "name": "f", "parameters": { "uniqueItems": true } } }],
            }),
        ),
    ];
    std::fs::write(home.path().join("in.jsonl"), lines.join("\n")).unwrap();
    let done = menagerie(home.path(), &["batch", &model, "in.jsonl", "out.jsonl", "--parallel", "8"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let text = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: &str| &lines.iter().find(|line| line["custom_id"] == id).unwrap()["response"];
    let names = |id: &str| {
        let choice = &of(id)["body"]["choices"][0];
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["content"]),
            (&json!("tool_calls"), &Value::Null),
            "{text}"
        );
        checked_names(&choice["message"]["tool_calls"])
    };
    assert!(!names("required").is_empty());
    assert_eq!(names("named"), ["get_weather"]);
    assert!(names("allowed").iter().all(|name| name == "now"));
    assert_eq!(names("one").len(), 1);
    assert_eq!(of("auto")["body"]["choices"][0]["finish_reason"], "length", "{text}");
    assert!(!names("both, required").is_empty());
    for id in ["both", "both again"] {
        let choice = &of(id)["body"]["choices"][0];
        match choice["finish_reason"].as_str() {
            Some("tool_calls") => assert!(!names(id).is_empty()),
            _ => {
                let content = choice["message"]["content"].as_str().unwrap();
                assert!(["{\"ok\": true}", "{\"ok\": false}"].contains(&content), "{choice}");
            }
        }
    }
    for (id, field, words) in [
        ("both, unsupported", json!("response_format"), "`uniqueItems` at the root"),
        ("missing", json!("tool_choice"), "no tool has the name \"rm\""),
        ("unsupported", json!("tool_choice"), "tool `f`: JSON schema: `uniqueItems` at the root"),
    ] {
        let error = &of(id)["body"]["error"];
        assert_eq!((&of(id)["status_code"], &error["param"]), (&json!(400), &field), "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
}
