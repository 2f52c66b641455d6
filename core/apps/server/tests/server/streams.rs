//! Streams: the order of their events, and that a whole answer is their sum.

use crate::client::post;
use crate::fake::{model, served};
use crate::running::Running;
use serde_json::{Value, json};

fn chat(message: &str, more: Value) -> Value {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": message }] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn stream(server: &Running, body: &Value) -> Vec<Value> {
    let mut body = body.clone();
    body["stream"] = true.into();
    post(server.address, "/v1/chat/completions", &body).events()
}

/// The deltas of a choice, and its `finish_reason`.
fn deltas(events: &[Value], choice: u64) -> (Vec<Value>, Value) {
    let own = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    let own: Vec<&Value> = own.filter(|own| own["index"] == choice).collect();
    let (last, others) = own.split_last().unwrap();
    assert!(others.iter().all(|own| own["finish_reason"].is_null()), "{own:?}");
    assert_eq!(last["delta"], json!({}));
    (others.iter().map(|own| own["delta"].clone()).collect(), last["finish_reason"].clone())
}

#[test]
fn a_stream_has_the_role_then_text_then_the_reason_then_counts() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let usage = json!({ "stream_options": { "include_usage": true } });
    let events = stream(&server, &chat("abc", usage));
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk" && event["model"] == "m"));
    assert!(events.iter().all(|event| event["id"] == events[0]["id"] && event["created"].is_u64()));
    let (last, others) = events.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(
        (&last["usage"]["prompt_tokens"], &last["usage"]["completion_tokens"]),
        (&json!(8), &json!(4))
    );
    assert!(others.iter().all(|event| event["usage"].is_null()));
    let (deltas, finish) = deltas(others, 0);
    assert_eq!(deltas[0], json!({ "role": "assistant", "content": "" }));
    let text: String = deltas[1..].iter().map(|delta| delta["content"].as_str().unwrap()).collect();
    assert_eq!((text.as_str(), finish), ("cba", json!("stop")));
    // Without the option there are no counts.
    let events = stream(&server, &chat("abc", json!({})));
    assert!(events.iter().all(|event| event.get("usage").is_none() && event["choices"] != json!([])));
}

#[test]
fn a_call_has_its_name_once_and_then_only_arguments() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let tools = json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] });
    for (message, arguments) in [("call", "{\"a\": 1}"), ("call nothing", "{}")] {
        let body = chat(message, tools.clone());
        let (deltas, finish) = deltas(&stream(&server, &body), 0);
        let calls: Vec<&Value> = deltas.iter().filter_map(|delta| delta.get("tool_calls")).collect();
        let (first, later) = calls.split_first().unwrap();
        let first = &first[0];
        assert_eq!((&first["index"], &first["type"]), (&json!(0), &json!("function")));
        assert_eq!(first["function"], json!({ "name": "f", "arguments": "" }));
        let mut whole = String::new();
        for call in later {
            let call = call[0].as_object().unwrap();
            assert_eq!(call.keys().collect::<Vec<_>>(), ["index", "function"]);
            assert_eq!(call["function"].as_object().unwrap().len(), 1);
            whole.push_str(call["function"]["arguments"].as_str().unwrap());
        }
        assert_eq!((whole.as_str(), finish), (arguments, json!("tool_calls")));
        // The whole answer has the same call.
        let answer = post(server.address, "/v1/chat/completions", &body).good();
        let choice = &answer["choices"][0];
        let function = json!({ "name": "f", "arguments": arguments });
        assert_eq!(choice["message"]["tool_calls"][0]["function"], function);
        assert_eq!(choice["finish_reason"], "tool_calls");
        let content = if message == "call" { json!("so") } else { Value::Null };
        let streamed: String = deltas.iter().filter_map(|delta| delta["content"].as_str()).collect();
        assert_eq!(streamed, content.as_str().unwrap_or_default());
        assert_eq!(choice["message"]["content"], content);
    }
}

#[test]
fn reasoning_is_apart_and_counted() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let usage = json!({ "stream_options": { "include_usage": true } });
    let events = stream(&server, &chat("think", usage));
    let (last, others) = events.split_last().unwrap();
    let (deltas, _) = deltas(others, 0);
    let sum = |field: &str| deltas.iter().filter_map(|delta| delta[field].as_str()).collect::<String>();
    assert_eq!(
        (sum("reasoning_content"), sum("reasoning"), sum("content")),
        ("hm".into(), "hm".into(), "ok".into())
    );
    let whole = post(server.address, "/v1/chat/completions", &chat("think", json!({}))).good();
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("hm"), &json!("ok")));
    // Both count the same, and the reasoning has at least its two letters, at most its markers too.
    for usage in [&last["usage"], &whole["usage"]] {
        assert_eq!(usage["completion_tokens"], 7);
        let reasoning = usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
        assert!((2..=4).contains(&reasoning), "{usage}");
    }
}

#[test]
fn several_answers_are_numbered_and_end_each_by_itself() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let events = stream(&server, &chat("abc", json!({ "n": 3 })));
    for choice in 0..3 {
        let (deltas, finish) = deltas(&events, choice);
        let text: String = deltas.iter().filter_map(|delta| delta["content"].as_str()).collect();
        assert_eq!((text.as_str(), finish), ("cba", json!("stop")));
    }
}

#[test]
fn log_probabilities_belong_to_the_text_beside_them() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let more = json!({ "logprobs": true, "top_logprobs": 2, "stop": "b" });
    let events = stream(&server, &chat("abc", more.clone()));
    let tokens = |choice: &Value| -> String {
        let content = choice["logprobs"]["content"].as_array().into_iter().flatten();
        content.map(|token| token["token"].as_str().unwrap()).collect()
    };
    let choices = events.iter().map(|event| &event["choices"][0]);
    let shown: String = choices.map(tokens).collect();
    // The stop string is not part of the answer, and neither are its tokens.
    assert_eq!(shown, "c");
    let whole = post(server.address, "/v1/chat/completions", &chat("abc", more)).good();
    let choice = &whole["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("c"), &json!("stop")));
    let content = &choice["logprobs"]["content"];
    assert_eq!(
        (content.as_array().unwrap().len(), content[0]["top_logprobs"].as_array().unwrap().len()),
        (1, 2)
    );
}

#[test]
fn completions_stream_their_text() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let body = json!({ "prompt": ["ab", "cd"], "max_tokens": 5, "n": 2, "echo": true });
    let whole = post(server.address, "/v1/completions", &body).good();
    let texts = whole["choices"].as_array().unwrap().iter().map(|choice| choice["text"].as_str().unwrap());
    let texts: Vec<&str> = texts.collect();
    assert!(texts.len() == 4 && texts[0].starts_with("ab") && texts[2].starts_with("cd"), "{texts:?}");
    assert!(texts.iter().all(|text| text.len() == 7) && texts[0] == texts[1], "{texts:?}");
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let events = post(server.address, "/v1/completions", &streamed).events();
    for (index, text) in texts.iter().enumerate() {
        let own = events.iter().map(|event| &event["choices"][0]).filter(|choice| choice["index"] == index);
        let own: Vec<&Value> = own.collect();
        let sum: String = own.iter().map(|choice| choice["text"].as_str().unwrap()).collect();
        assert_eq!(&sum, text);
        assert_eq!(own.last().unwrap()["finish_reason"], "length");
    }
}

/// `return_progress` and `timings_per_token` of llama-server. Steps have 16 rows, and a prompt of 43 tokens takes three.
#[test]
fn progress_and_timings_are_reported_where_they_are_asked_for() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let message = "abcdefghijklmnopqrstuvwxyz".repeat(2);
    let events = stream(
        &server,
        &chat(&message[..38], json!({ "return_progress": true, "timings_per_token": true, "max_tokens": 3 })),
    );
    let progress: Vec<&Value> = events.iter().filter_map(|event| event.get("prompt_progress")).collect();
    let counts = |one: &&Value| ["processed", "cache", "total"].map(|name| one[name].as_u64().unwrap());
    assert_eq!(progress.iter().map(counts).collect::<Vec<_>>(), [[16, 0, 43], [32, 0, 43], [43, 0, 43]]);
    assert!(progress.iter().all(|one| one["time_ms"].as_f64().unwrap() >= 0.0));
    let timings: Vec<&Value> = events.iter().filter_map(|event| event.get("timings")).collect();
    let predicted: Vec<u64> = timings.iter().map(|one| one["predicted_n"].as_u64().unwrap()).collect();
    assert_eq!(predicted, [1, 2, 3, 3]);
    assert!(timings.iter().all(|one| one["prompt_n"] == 43 && one["cache_n"] == 0), "{timings:?}");
    let body = chat("abc", json!({ "timings_per_token": true }));
    let whole = post(server.address, "/v1/chat/completions", &body).good();
    assert_eq!((&whole["timings"]["predicted_n"], &whole["timings"]["prompt_n"]), (&json!(4), &json!(8)));
    let body = chat("abc", json!({ "timings_per_token": true, "n": 2 }));
    let whole = post(server.address, "/v1/chat/completions", &body).good();
    assert_eq!((&whole["choices"][1]["timings"]["predicted_n"], whole.get("timings")), (&json!(4), None));
    let usual = post(server.address, "/v1/chat/completions", &chat("abc", json!({}))).good();
    assert_eq!(usual.get("timings"), None);
    let alone = chat("abc", json!({ "return_progress": true }));
    assert_eq!(post(server.address, "/v1/chat/completions", &alone).error()["param"], "return_progress");
}
