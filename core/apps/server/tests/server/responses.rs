//! `/v1/responses`: its items, its events, and what it refuses.

use crate::client::post;
use crate::fake::{model, served};
use crate::running::Running;
use serde_json::{Value, json};

const PATH: &str = "/v1/responses";

fn server() -> Running {
    Running::new(vec![served("m", &model(), 2)])
}

fn body(input: Value, more: Value) -> Value {
    let mut body = json!({ "model": "m", "input": input });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn whole(server: &Running, body: &Value) -> Value {
    post(server.address, PATH, body).good()
}

/// The events of a stream. Their names are their types, and their numbers rise by one.
fn events(server: &Running, body: &Value) -> Vec<Value> {
    let mut body = body.clone();
    body["stream"] = true.into();
    let reply = post(server.address, PATH, &body);
    assert_eq!(
        (reply.status, reply.headers["content-type"].as_str()),
        (200, "text/event-stream"),
        "{reply:?}"
    );
    let events = reply.body.trim_end().split("\n\n").enumerate().map(|(number, event)| {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"], "{data}");
        assert_eq!(data["sequence_number"], number, "{data}");
        data
    });
    events.collect()
}

/// The types of events, without their common beginning.
fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap()).collect()
}

/// What is the same in the response of a stream and in a whole one.
fn plain(response: &Value) -> Value {
    let text =
        response.to_string().replace(response["id"].as_str().unwrap().strip_prefix("resp_").unwrap(), "ID");
    let mut response: Value = serde_json::from_str(&text).unwrap();
    response["created_at"] = Value::Null;
    // The second one starts with states of the first one.
    response["usage"]["input_tokens_details"] = Value::Null;
    for item in response["output"].as_array_mut().unwrap() {
        if item.get("call_id").is_some() {
            item["call_id"] = "call".into();
        }
    }
    response
}

fn tools() -> Value {
    json!([{ "type": "function", "name": "f", "parameters": { "type": "object" } }])
}

#[test]
fn a_response_has_every_key() {
    let server = server();
    let more = json!({ "max_output_tokens": 2, "instructions": "be", "metadata": { "a": "b" }, "user": "u", "store": true });
    let reply = post(server.address, PATH, &body(json!("abc"), more));
    assert_eq!(reply.headers["x-menagerie-ignored"], "user, store");
    let response = reply.good();
    assert!(response["id"].as_str().unwrap().starts_with("resp_") && response["created_at"].is_u64());
    for (key, value) in [
        ("object", json!("response")),
        ("status", json!("incomplete")),
        ("incomplete_details", json!({ "reason": "max_output_tokens" })),
        ("error", Value::Null),
        ("model", json!("m")),
        ("instructions", json!("be")),
        ("metadata", json!({ "a": "b" })),
        ("max_output_tokens", json!(2)),
        ("parallel_tool_calls", json!(true)),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("store", json!(false)),
        ("temperature", json!(0.0)),
        ("text", json!({ "format": { "type": "text" } })),
        ("truncation", json!("disabled")),
        ("background", json!(false)),
    ] {
        assert_eq!(response[key], value, "{key}");
    }
    let item = &response["output"][0];
    let content = json!([{ "type": "output_text", "text": "cb", "annotations": [], "logprobs": [] }]);
    assert_eq!(
        (&item["type"], &item["role"], &item["content"]),
        (&json!("message"), &json!("assistant"), &content)
    );
    assert_eq!(item["status"], "incomplete");
    let usage = json!({
        "input_tokens": 13, "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
        "output_tokens": 2, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 15,
    });
    assert_eq!(response["usage"], usage);
    // The same without the version, and its prompt can be counted.
    assert_eq!(
        post(server.address, "/responses", &body(json!("abc"), json!({}))).good()["status"],
        "completed"
    );
    let count = post(server.address, "/v1/responses/input_tokens", &body(json!("abc"), json!({})));
    assert_eq!(count.good(), json!({ "object": "response.input_tokens", "input_tokens": 8 }));
    let chat = json!({ "model": "m", "messages": [{ "role": "user", "content": "abc" }] });
    let count = post(server.address, "/v1/chat/completions/input_tokens", &chat).good();
    assert_eq!(count["input_tokens"], 8);
}

/// Every event of an item names it, and a whole response is the one at the end of its stream.
#[test]
fn the_events_of_a_stream_are_in_order_and_sum_up_to_the_whole() {
    let server = server();
    let beginning = ["created", "in_progress"];
    let text = [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ];
    let reasoning = ["output_item.added", "reasoning_text.delta", "reasoning_text.done", "output_item.done"];
    let call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ];
    for (message, more, items) in [
        ("abc", json!({}), vec![&text[..]]),
        ("abc", json!({ "max_output_tokens": 2 }), vec![&text[..]]),
        ("think", json!({}), vec![&reasoning[..], &text[..]]),
        ("call", json!({ "tools": tools() }), vec![&text[..], &call[..]]),
        ("call nothing", json!({ "tools": tools(), "top_logprobs": 1 }), vec![&call[..]]),
    ] {
        let body = body(json!(message), more);
        let events = events(&server, &body);
        let end = if body.get("max_output_tokens").is_some() { "incomplete" } else { "completed" };
        let expected: Vec<&str> = beginning.into_iter().chain(items.concat()).chain([end]).collect();
        // Several deltas of one kind are like one.
        let mut found = types(&events);
        found.dedup();
        assert_eq!(found, expected, "{message}");
        for event in events.iter().filter(|event| event.get("output_index").is_some()) {
            let id = event.get("item_id").unwrap_or_else(|| &event["item"]["id"]);
            let place = event["output_index"].as_u64().unwrap() as usize;
            assert_eq!(&events.last().unwrap()["response"]["output"][place]["id"], id, "{event}");
        }
        let first = &events[0]["response"];
        assert_eq!(
            (&first["status"], &first["output"], &first["usage"]),
            (&json!("in_progress"), &json!([]), &Value::Null)
        );
        assert_eq!(plain(&events.last().unwrap()["response"]), plain(&whole(&server, &body)), "{message}");
    }
}

#[test]
fn text_has_its_log_probabilities() {
    let server = server();
    for more in [json!({ "top_logprobs": 2 }), json!({ "include": ["message.output_text.logprobs"] })] {
        let top = more["top_logprobs"].as_u64().unwrap_or(0) as usize;
        let body = body(json!("abc"), more);
        let response = whole(&server, &body);
        let logprobs = response["output"][0]["content"][0]["logprobs"].as_array().unwrap();
        let tokens: String = logprobs.iter().map(|token| token["token"].as_str().unwrap()).collect();
        assert_eq!(tokens, "cba");
        assert!(logprobs.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() == top));
        let events = events(&server, &body);
        let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
        let streamed: Vec<&Value> = deltas.flat_map(|event| event["logprobs"].as_array().unwrap()).collect();
        assert_eq!(streamed, logprobs.iter().collect::<Vec<_>>());
    }
}

/// What a response returned can be sent back with the results of its calls.
#[test]
fn items_of_an_answer_are_input() {
    let server = server();
    let first = whole(&server, &body(json!("call"), json!({ "tools": tools() })));
    let output = first["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
    assert_ne!(call["call_id"], call["id"]);
    assert_eq!((&call["name"], &call["arguments"]), (&json!("f"), &json!("{\"a\": 1}")));
    let mut input = vec![json!({ "role": "user", "content": "call" })];
    input.extend(output.clone());
    input.push(json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "1" }));
    input.push(json!({ "role": "user", "content": "abc" }));
    let tokens = |input: Vec<Value>| {
        let body = body(input.into(), json!({ "tools": tools() }));
        post(server.address, "/v1/responses/input_tokens", &body).good()["input_tokens"].as_u64().unwrap()
    };
    assert_eq!(tokens(input) as usize, "U:call;A:so;T:1;U:abc;A:".len());
    let thought = whole(&server, &body(json!("think"), json!({})));
    let mut input = vec![json!({ "role": "user", "content": "think" })];
    input.extend(thought["output"].as_array().unwrap().clone());
    input.push(json!({ "role": "user", "content": "xy" }));
    assert_eq!(tokens(input) as usize, "U:think;A:ok;U:xy;A:".len());
    assert_eq!(thought["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
}

#[test]
fn what_is_not_there_is_refused_or_left_out_by_name() {
    let server = server();
    for (more, field) in [
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "conversation": "c" }), "conversation"),
        (json!({ "prompt": { "id": "p" } }), "prompt"),
        (json!({ "background": true }), "background"),
        (json!({ "colour": 1 }), "colour"),
        (json!({ "max_output_tokens": -1 }), "max_output_tokens"),
        (json!({ "text": { "format": { "type": "json_schema" } } }), "text.format"),
        (json!({ "input": [{ "type": "item_reference", "id": "x" }] }), "input[0].type"),
        (json!({ "tool_choice": "required", "tools": [{ "type": "web_search" }] }), "tool_choice"),
        (json!({ "reasoning": { "effort": "huge" } }), "reasoning.effort"),
        (json!({ "store": 1 }), "store"),
    ] {
        let reply = post(server.address, PATH, &body(json!("abc"), more.clone()));
        assert_eq!((reply.status, &reply.error()["param"]), (400, &json!(field)), "{more}");
    }
    let more = json!({
        "tools": [{ "type": "web_search" }, { "type": "image_generation" }], "parallel_tool_calls": false,
        "include": ["reasoning.encrypted_content"], "reasoning": { "effort": "low", "summary": "auto" },
    });
    let reply = post(server.address, PATH, &body(json!([]), more));
    let ignored =
        "tools[0], tools[1], reasoning.summary, include (reasoning.encrypted_content), reasoning.effort";
    assert_eq!(reply.headers["x-menagerie-ignored"], ignored);
    assert_eq!(reply.good()["output"], json!([]), "a probe has an empty answer");
    let unknown = post(server.address, PATH, &json!({ "model": "none", "input": "a" }));
    assert_eq!((unknown.status, &unknown.error()["code"]), (404, &json!("model_not_found")));
}

#[test]
fn the_oldest_turns_are_left_out_if_asked() {
    let server = server();
    let turn = |text: &str| {
        [json!({ "role": "user", "content": text }), json!({ "role": "assistant", "content": "ok" })]
    };
    let long = "x".repeat(2500);
    let mut input = vec![json!({ "role": "system", "content": "s" })];
    input.extend(turn(&long));
    input.extend(turn(&long));
    input.push(json!({ "role": "user", "content": "abc" }));
    let refused = post(server.address, PATH, &body(input.clone().into(), json!({})));
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("context_length_exceeded")));
    let response = whole(&server, &body(input.into(), json!({ "truncation": "auto" })));
    // One of the two long turns is left.
    assert_eq!((&response["truncation"], &response["usage"]["input_tokens"]), (&json!("auto"), &json!(2520)));
}

/// A server that ends tells it with the event of a failure, and nothing says that the response is complete.
#[test]
fn a_failure_is_the_last_event() {
    let fake = model();
    fake.during(Some(Box::new(|| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        Ok(())
    })));
    let mut server = Running::with(vec![served("m", &fake, 2)], |options| {
        options.drain = std::time::Duration::from_millis(200);
    });
    let body = body(json!("long"), json!({ "stream": true }));
    let client = crate::client::open(server.address, "POST", PATH, &[], &body.to_string());
    server.wait_for("menagerie_requests_running", 1);
    server.stop();
    let reply = crate::client::read(client);
    let last = reply.body.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("event: response.failed\n"), "{last}");
    let data: Value = serde_json::from_str(last.split_once("data: ").unwrap().1).unwrap();
    let response = &data["response"];
    assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("server_error")));
    assert!(response["error"]["message"].as_str().unwrap().contains("shutting down"));
    assert_eq!(response["output"][0]["status"], "incomplete");
    server.join();
}
