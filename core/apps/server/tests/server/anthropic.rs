//! Anthropic's interface.

use crate::byte_text::{Format, thinking};
use crate::client::{get, named_events, open, post, post_with, read};
use crate::fake::{model, pipeline, pipeline_with, scheduler, served, served_with, served_without_tools};
use crate::running::Running;
use crate::tools::calls_of_f;
use menagerie_engine::{ChatCapable, ChatMessage, RenderOptions, RenderedPrompt, TextError};
use menagerie_server::ApiKeys;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

fn asked(message: &str, more: Value) -> Value {
    let messages = json!([{ "role": "user", "content": message }]);
    let mut body = json!({ "model": "m", "max_tokens": 100, "messages": messages });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn server() -> Running {
    Running::new(vec![served("m", &model(), 2)])
}

/// The message that the events of a stream add up to, as Anthropic's own client adds them; checks their order.
fn folded(server: &Running, body: &Value) -> Value {
    let mut body = body.clone();
    body["stream"] = true.into();
    let events = named_events(&post(server.address, MESSAGES, &body));
    let mut names = events.iter().map(|(name, _)| name.as_str());
    assert!(events.iter().all(|(name, data)| data["type"] == name.as_str()));
    assert_eq!(
        (names.next(), names.next(), names.next_back()),
        (Some("message_start"), Some("ping"), Some("message_stop"))
    );
    let (mut message, mut open, mut begun): (Value, Option<usize>, Value) = (Value::Null, None, Value::Null);
    for (name, data) in events {
        let content = |message: &mut Value| message["content"].as_array_mut().unwrap().clone();
        match name.as_str() {
            "message_start" => {
                message = data["message"].clone();
                assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null));
                assert_eq!(message["usage"]["output_tokens"], 0);
                begun = message["usage"].clone();
            }
            "content_block_start" => {
                let mut blocks = content(&mut message);
                assert_eq!((open, &data["index"]), (None, &json!(blocks.len())));
                open = Some(blocks.len());
                let mut block = data["content_block"].clone();
                match block["type"].as_str().unwrap() {
                    "text" => assert_eq!(block["text"], ""),
                    "thinking" => {
                        assert_eq!((&block["thinking"], &block["signature"]), (&json!(""), &json!("")))
                    }
                    _ => {
                        assert_eq!(block["input"], json!({}));
                        block["input"] = "".into();
                    }
                }
                blocks.push(block);
                message["content"] = blocks.into();
            }
            "content_block_delta" => {
                let at = open.unwrap();
                assert_eq!(data["index"], at);
                let delta = &data["delta"];
                let (field, from) = match delta["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "signature_delta" => ("signature", "signature"),
                    "input_json_delta" => ("input", "partial_json"),
                    other => panic!("{other}"),
                };
                let block = &mut message["content"][at];
                assert!(
                    field == "signature" || block["signature"].as_str().is_none_or(str::is_empty),
                    "the last delta"
                );
                block[field] =
                    (block[field].as_str().unwrap().to_owned() + delta[from].as_str().unwrap()).into();
            }
            "content_block_stop" => {
                let at = open.take().unwrap();
                assert_eq!(data["index"], at);
                let block = &mut message["content"][at];
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(block["input"].as_str().unwrap()).unwrap();
                }
            }
            "message_delta" => {
                assert_eq!(open, None);
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["stop_sequence"] = data["delta"]["stop_sequence"].clone();
                message["usage"] = data["usage"].clone();
            }
            _ => {}
        }
    }
    // What need not be computed is known from the first event on.
    for name in ["input_tokens", "cache_read_input_tokens"] {
        assert_eq!(begun[name], message["usage"][name], "{name}");
    }
    message
}

/// Whole and as a stream; the ids differ.
fn both(server: &Running, body: &Value) -> Value {
    let mut whole = post(server.address, MESSAGES, body).good();
    let mut sum = folded(server, body);
    assert!(whole["id"].as_str().unwrap().starts_with("msg_"));
    (whole["id"], sum["id"]) = (Value::Null, Value::Null);
    let calls = |message: &mut Value| {
        for block in message["content"].as_array_mut().unwrap() {
            if block["type"] == "tool_use" {
                assert!(!block["id"].as_str().unwrap().is_empty());
            }
        }
    };
    calls(&mut whole);
    assert_eq!(whole, sum);
    whole
}

#[test]
fn a_message_is_the_sum_of_its_events() {
    let server = server();
    let message = both(&server, &asked("think", json!({})));
    // `printf hm | sha256sum`
    let signature = "b82e2178ecf4d0c5859dc2e169d7fed8673f9f6eeb9f3591bed5f253b7742408";
    let blocks = &message["content"];
    assert_eq!((&blocks[0]["type"], &blocks[0]["thinking"]), (&json!("thinking"), &json!("hm")));
    assert_eq!(blocks[0]["signature"], signature);
    assert_eq!(blocks[1], json!({ "type": "text", "text": "ok" }));
    assert_eq!(
        (&message["type"], &message["role"], &message["model"]),
        (&json!("message"), &json!("assistant"), &json!("m"))
    );
    assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    let usage = json!({ "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7 });
    assert_eq!(message["usage"], usage);
}

#[test]
fn answers_end_for_a_reason() {
    let server = server();
    let stopped = both(&server, &asked("abc", json!({ "stop_sequences": ["x", "b"] })));
    assert_eq!((&stopped["stop_reason"], &stopped["stop_sequence"]), (&json!("stop_sequence"), &json!("b")));
    assert_eq!(stopped["content"], json!([{ "type": "text", "text": "c" }]));
    let cut =
        both(&server, &asked("abc", json!({ "max_tokens": 2, "temperature": 0, "top_k": 5, "top_p": 0.9 })));
    assert_eq!((&cut["stop_reason"], &cut["content"][0]["text"]), (&json!("max_tokens"), &json!("cb")));
}

#[test]
fn tools_are_called_with_objects() {
    let server = server();
    let tools = json!([{ "name": "f", "description": "d", "input_schema": { "type": "object" } }]);
    for choice in
        [json!(null), json!({ "type": "auto" }), json!({ "type": "auto", "disable_parallel_tool_use": true })]
    {
        let body = asked("call", json!({ "tools": tools, "tool_choice": choice }));
        let message = both(&server, &body);
        let call = &message["content"][1];
        assert_eq!(
            (&call["type"], &call["name"], &call["input"]),
            (&json!("tool_use"), &json!("f"), &json!({ "a": 1 }))
        );
        assert_eq!(
            (&message["content"][0]["text"], &message["stop_reason"]),
            (&json!("so"), &json!("tool_use"))
        );
        // The call and its result come back.
        let result = json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "fine" });
        let turns = json!([
            { "role": "user", "content": "call" }, { "role": "assistant", "content": message["content"] },
            { "role": "user", "content": [result] },
        ]);
        let body = json!({ "max_tokens": 5, "messages": turns, "tools": tools });
        assert_eq!(post(server.address, MESSAGES, &body).status, 200);
    }
    let empty = both(&server, &asked("call nothing", json!({ "tools": tools })));
    assert_eq!(empty["content"][0]["input"], json!({}));
}

#[test]
fn tokens_are_counted_as_the_answer_counts_them() {
    let server = server();
    let header = "x-anthropic-billing-header: cch=00001;";
    let count = |body: &Value| post(server.address, COUNT, body).good()["input_tokens"].clone();
    for body in [
        asked("abc", json!({ "system": "be good" })),
        asked(
            "abc",
            json!({ "system": [{ "type": "text", "text": header }, { "type": "text", "text": "be good" }] }),
        ),
    ] {
        // `S:be good;U:abc;A:`
        assert_eq!(count(&body), 18);
        let reply = post(server.address, MESSAGES, &body);
        assert_eq!(reply.good()["usage"]["input_tokens"], 18);
        let ignored = reply.headers.get("x-menagerie-ignored").map(String::as_str);
        assert_eq!(ignored, body["system"].is_array().then_some("x-anthropic-billing-header"));
    }
    let mut body = asked("abc", json!({}));
    body.as_object_mut().unwrap().remove("max_tokens");
    assert_eq!(count(&body), 8);
    assert_eq!(post(server.address, MESSAGES, &body).status, 400);
}

#[test]
fn tokens_that_need_not_be_computed_are_counted_apart() {
    let scheduler = scheduler(2).with_prefixes(4);
    let server = Running::new(vec![served_with("m", pipeline(&model(), 16), scheduler)]);
    let body = asked("abcdefghijklmnopqrstuvwxyz", json!({ "max_tokens": 2 }));
    post(server.address, MESSAGES, &body).good();
    let usage = both(&server, &body)["usage"].clone();
    let (read, computed) =
        (usage["cache_read_input_tokens"].as_u64().unwrap(), usage["input_tokens"].as_u64().unwrap());
    assert!(read > 0 && read + computed == 31, "{usage}");
}

/// A format with a variable for reasoning.
struct Switch;

impl ChatCapable for Switch {
    fn render_prompt(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, TextError> {
        let mut messages = messages.to_vec();
        if options.arguments.get("enable_thinking") == Some(&json!(false)) {
            messages.insert(0, ChatMessage::system("quick"));
        }
        Format { tags: vec![thinking()], calls: Some(calls_of_f()) }.render_prompt(&messages, options)
    }

    fn identity(&self) -> String {
        "switch".to_owned()
    }
}

#[test]
fn reasoning_is_a_variable_of_the_template() {
    let switched = served_with("m", pipeline_with(&model(), 16, Arc::new(Switch)), scheduler(2));
    let server = Running::new(vec![switched, served("plain", &model(), 2)]);
    let count = |thinking: Value| post(server.address, COUNT, &asked("abc", json!({ "thinking": thinking })));
    for (thinking, tokens) in [
        (json!({ "type": "disabled" }), 16),
        (json!({ "type": "enabled", "budget_tokens": 2000 }), 8),
        (json!({ "type": "adaptive", "display": "summarized" }), 8),
    ] {
        assert_eq!(count(thinking.clone()).good()["input_tokens"], tokens, "{thinking}");
    }
    // A model without the variable cannot be told to reason, and decides not to.
    for (thinking, status) in [("enabled", 400), ("disabled", 200), ("adaptive", 200)] {
        let mut body = asked("abc", json!({ "thinking": { "type": thinking } }));
        body["model"] = "plain".into();
        assert_eq!(post(server.address, MESSAGES, &body).status, status, "{thinking}");
    }
    // The opening tag and three letters; the model would go on for ever.
    let body = asked("ponder", json!({ "thinking": { "type": "enabled", "budget_tokens": 4 } }));
    let message = both(&server, &body);
    assert_eq!(
        (&message["content"][0]["thinking"], &message["content"][1]["text"]),
        (&json!("aaa"), &json!("aaaa"))
    );
    let free = both(&server, &asked("ponder", json!({})));
    assert_eq!(
        (&free["content"][0]["thinking"], free["content"].as_array().unwrap().len()),
        (&json!("aaaaaaaa"), 1)
    );
}

#[test]
fn an_answer_fits_a_schema() {
    let server = Running::new(vec![served_without_tools("m")]);
    let schema = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"], "additionalProperties": false });
    let config = json!({ "format": { "type": "json_schema", "schema": schema }, "effort": "low" });
    let reply = post(server.address, MESSAGES, &asked("abc", json!({ "output_config": config })));
    let text = reply.good()["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ "a": 1 }));
    // The template has no variable for it.
    assert_eq!(reply.headers["x-menagerie-ignored"], "output_config.effort");
}

/// The error in a body, which has all keys.
fn fault(reply: &crate::client::Reply, status: u16, kind: &str) -> String {
    let body = reply.json();
    assert_eq!(
        (reply.status, &body["type"], &body["error"]["type"]),
        (status, &json!("error"), &json!(kind)),
        "{reply:?}"
    );
    assert_eq!(body["request_id"].as_str(), reply.headers.get("request-id").map(String::as_str));
    assert_eq!(body.as_object().unwrap().len(), 3);
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn errors_name_the_field() {
    let server = server();
    let tool = json!([{ "name": "f", "input_schema": {} }]);
    for (more, field) in [
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "max_tokens": "many" }), "max_tokens"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "system": 1 }), "system"),
        (json!({ "stop_sequences": [1] }), "stop_sequences"),
        (json!({ "stop_sequences": "a" }), "stop_sequences"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "thinking": { "type": "sometimes" } }), "thinking.type"),
        (json!({ "thinking": { "type": "disabled", "budget_tokens": 2000 } }), "thinking.budget_tokens"),
        (json!({ "thinking": { "type": "adaptive", "display": "omitted" } }), "thinking.display"),
        (json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] }), "tools[0].type"),
        (json!({ "tools": [{ "name": "f" }] }), "tools[0].input_schema"),
        (json!({ "tools": tool, "tool_choice": { "type": "tool", "name": "g" } }), "tool_choice"),
        (json!({ "tools": tool, "tool_choice": { "type": "always" } }), "tool_choice.type"),
        (json!({ "output_config": { "format": { "type": "xml" } } }), "output_config.format.type"),
        (json!({ "output_config": { "effort": "none" } }), "output_config.effort"),
        (json!({ "mcp_servers": [{}] }), "mcp_servers"),
        (json!({ "context_management": {} }), "context_management"),
    ] {
        let body = asked("abc", more);
        let message = fault(&post(server.address, MESSAGES, &body), 400, "invalid_request_error");
        assert!(message.starts_with(&format!("{field}: ")), "{body}: {message}");
    }
    let mut body = asked("abc", json!({ "metadata": { "user_id": "u" }, "service_tier": "auto" }));
    assert_eq!(
        post(server.address, MESSAGES, &body).headers["x-menagerie-ignored"],
        "metadata, service_tier"
    );
    body["model"] = "none".into();
    fault(&post(server.address, MESSAGES, &body), 404, "not_found_error");
    fault(&get(server.address, MESSAGES), 405, "invalid_request_error");
    let version = [("anthropic-version", "2023-06-01")];
    fault(&read(open(server.address, "GET", "/v1/files", &version, "")), 404, "not_found_error");
}

#[test]
fn errors_of_the_gate_have_the_format_too() {
    let fake = model();
    fake.during(Some(Box::new(|| {
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    })));
    let server = Running::with(vec![served("m", &fake, 1)], |options| {
        options.keys = ApiKeys::parse("key");
        options.body_bytes = 1 << 20;
    });
    fault(&post(server.address, MESSAGES, &asked("abc", json!({}))), 401, "authentication_error");
    let key = [("x-api-key", "key")];
    let large = asked(&"a".repeat(2 << 20), json!({})).to_string();
    fault(&post_with(server.address, MESSAGES, &key, &large), 413, "request_too_large");
    let server = Running::with(vec![served("m", &fake, 1)], |options| {
        options.queue = 0;
        options.drain = Duration::from_millis(200);
    });
    let long = asked("long", json!({ "max_tokens": 4000, "stream": true })).to_string();
    let running = open(server.address, "POST", MESSAGES, &[], &long);
    server.wait_for("menagerie_requests_running", 1);
    let overloaded = post(server.address, MESSAGES, &asked("abc", json!({})));
    fault(&overloaded, 529, "overloaded_error");
    assert!(overloaded.headers.contains_key("retry-after"));
    server.stop();
    let events = named_events(&read(running));
    let (name, data) = events.last().unwrap();
    assert_eq!(
        (name.as_str(), &data["type"], &data["error"]["type"]),
        ("error", &json!("error"), &json!("api_error"))
    );
    assert!(data["request_id"].as_str().unwrap().starts_with("req_"));
}

#[test]
fn models_have_anthropics_format_for_its_clients() {
    let models = ["a", "b", "c"].map(|id| served(id, &model(), 1));
    let server = Running::new(models.into());
    let version = [("anthropic-version", "2023-06-01")];
    let get = |path: &str| read(open(server.address, "GET", path, &version, ""));
    let ids = |list: &Value| -> Vec<String> {
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let list = get("/v1/models").good();
    assert_eq!((ids(&list), &list["has_more"]), (vec!["a".into(), "b".into(), "c".into()], &json!(false)));
    assert_eq!((&list["first_id"], &list["last_id"]), (&json!("a"), &json!("c")));
    for (query, expected, more) in [
        ("limit=2", vec!["a", "b"], true),
        ("limit=2&after_id=b", vec!["c"], false),
        ("limit=1&before_id=c", vec!["b"], true),
        ("after_id=c", vec![], false),
    ] {
        let list = get(&format!("/v1/models?{query}")).good();
        assert_eq!(
            (ids(&list), &list["has_more"]),
            (expected.iter().map(|id| (*id).to_owned()).collect(), &json!(more)),
            "{query}"
        );
    }
    fault(&get("/v1/models?limit=0"), 400, "invalid_request_error");
    fault(&get("/v1/models?after_id=x"), 400, "invalid_request_error");
    let one = get("/v1/models/b").good();
    assert_eq!((&one["type"], &one["id"], &one["display_name"]), (&json!("model"), &json!("b"), &json!("b")));
    assert!(one["created_at"].as_str().unwrap().ends_with('Z'));
    fault(&get("/v1/models/x"), 404, "not_found_error");
}
