//! Bodies that are wrong in random ways.

use crate::client::{Reply, get, post_with};
use crate::fake::{model, served};
use crate::running::Running;
use menagerie_random::SplitMix64;
use serde_json::{Value, json};

/// Good bodies, which are then damaged.
fn good() -> Vec<(&'static str, Value)> {
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let tools =
        json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let format = json!({ "type": "json_object" });
    vec![
        (
            "/v1/chat/completions",
            json!({ "messages": messages, "tools": tools, "temperature": 0.5, "max_tokens": 2, "stop": ["a"], "n": 1 }),
        ),
        (
            "/v1/chat/completions",
            json!({ "messages": messages, "stream": true, "stream_options": { "include_usage": true }, "max_tokens": 1,
                "response_format": format, "logprobs": true, "top_logprobs": 1, "logit_bias": { "5": 1 } }),
        ),
        (
            "/v1/completions",
            json!({ "prompt": ["a", "b"], "max_tokens": 1, "echo": true, "seed": 1, "logprobs": 1 }),
        ),
        ("/v1/completions", json!({ "prompt": "a", "suffix": "b", "max_tokens": 1 })),
        (
            "/v1/messages",
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi" }] }], "max_tokens": 1,
                "system": [{ "type": "text", "text": "be" }], "stop_sequences": ["a"], "temperature": 1, "stream": true,
                "tools": [{ "name": "f", "input_schema": { "type": "object" } }], "tool_choice": { "type": "auto" },
                "thinking": { "type": "disabled" }, "output_config": { "effort": "low" } }),
        ),
        (
            "/v1/messages/count_tokens",
            json!({ "messages": [{ "role": "user", "content": "hi" }], "system": "be" }),
        ),
        (
            "/api/chat",
            json!({ "model": "m", "messages": messages, "tools": tools, "options": { "num_predict": 1, "stop": ["a"] },
                "think": false, "keep_alive": "5m" }),
        ),
        (
            "/api/generate",
            json!({ "model": "m:latest", "prompt": "hi", "system": "be", "format": "json", "stream": false, "raw": false,
                "options": { "num_predict": 1, "num_ctx": 64, "temperature": 0 } }),
        ),
        ("/api/embed", json!({ "model": "m", "input": ["a"], "truncate": true })),
        ("/api/show", json!({ "model": "m", "verbose": false })),
        ("/api/pull", json!({ "model": "x" })),
        (
            "/infill",
            json!({ "input_prefix": "a", "input_suffix": "b", "input_extra": [{ "filename": "f", "text": "t" }],
                "prompt": "c", "n_predict": 1, "response_fields": ["content"] }),
        ),
        ("/v1/embeddings", json!({ "input": ["a"], "encoding_format": "float" })),
        ("/v1/rerank", json!({ "query": "a", "documents": ["b"], "top_n": 1 })),
        ("/tokenize", json!({ "content": "a", "add_special": true })),
        ("/detokenize", json!({ "tokens": [1, 2] })),
        ("/apply-template", json!({ "messages": messages })),
    ]
}

/// Something that does not belong there.
fn odd(random: &mut SplitMix64) -> Value {
    match random.below(12) {
        0 => json!(-1),
        1 => json!(1e300),
        2 => json!(u64::MAX),
        3 => json!([]),
        4 => json!({}),
        5 => json!([[[]]]),
        6 => json!("\u{0}\u{ffff}"),
        7 => json!(true),
        8 => json!({ "type": "unknown", "text": [] }),
        9 => json!([1, "a", null, {}]),
        10 => json!(0.5),
        _ => (0..100).fold(json!(1), |inner, _| json!([inner])),
    }
}

/// Replaces a random value in a body.
fn damage(value: &mut Value, random: &mut SplitMix64) {
    let count = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if count == 0 || random.below(3) == 0 {
        *value = odd(random);
        return;
    }
    let at = random.below(count);
    match value {
        Value::Array(items) => damage(&mut items[at], random),
        Value::Object(fields) => damage(fields.values_mut().nth(at).unwrap(), random),
        _ => {}
    }
}

/// A body as bytes: damaged JSON, or JSON with damaged values or more fields.
fn body(good: &Value, random: &mut SplitMix64) -> String {
    let mut value = good.clone();
    match random.below(4) {
        0 => {
            let text = value.to_string();
            let mut at = random.below(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text[..at].to_owned()
        }
        1 => {
            value[format!("field_{}", random.below(1000))] = odd(random);
            value.to_string()
        }
        2 => "[".repeat(random.below(300)) + &value.to_string(),
        _ => {
            damage(&mut value, random);
            value.to_string()
        }
    }
}

/// Checks that an error has the body of its interface.
fn check_fault(path: &str, reply: &Reply) {
    let error = match path {
        "/v1/messages" | "/v1/messages/count_tokens" => {
            let body = reply.json();
            assert!(body["type"] == "error" && body["request_id"].is_string(), "{reply:?}");
            assert!(body["error"]["type"].is_string(), "{reply:?}");
            body["error"]["message"].clone()
        }
        _ if path.starts_with("/api/") => {
            let body = reply.json();
            assert_eq!(body.as_object().unwrap().len(), 1, "{reply:?}");
            body["error"].clone()
        }
        _ => reply.error()["message"].clone(),
    };
    assert!(error.as_str().is_some_and(|message| !message.is_empty()), "{path}: {reply:?}");
}

/// An error of the client for each of them; never one of the server, and the server answers afterwards.
/// `MENAGERIE_MALFORMED` is the number of requests.
#[test]
fn a_damaged_body_is_an_error_of_the_client() {
    let server = Running::new(vec![served("m", &model(), 4)]);
    let (mut random, good) = (SplitMix64::new(11), good());
    let count = std::env::var("MENAGERIE_MALFORMED").map_or(600, |count| count.parse().unwrap());
    let mut refused = 0;
    for number in 0..count {
        let (path, value) = &good[number % good.len()];
        let body = body(value, &mut random);
        let reply = post_with(server.address, path, &[("content-type", "application/json")], &body);
        assert!(reply.status == 200 || (400..500).contains(&reply.status), "{path} {body}: {reply:?}");
        assert!(reply.status != 422 && reply.status != 429, "{reply:?}");
        if reply.status != 200 {
            check_fault(path, &reply);
            refused += 1;
        }
    }
    // Some damage is none: a list with one more field, another seed.
    assert!(refused * 4 > count * 3, "{refused}");
    for (path, value) in &good {
        let reply = post_with(server.address, path, &[], &value.to_string());
        // The tool of the fake model excludes constraints.
        let is_free = value.get("response_format").is_none() && value.get("format").is_none();
        let is_possible = is_free && !["/v1/embeddings", "/v1/rerank", "/api/embed"].contains(path);
        let expected = match *path {
            // This server downloads nothing.
            "/api/pull" => 403,
            _ if is_possible => 200,
            _ => 400,
        };
        assert_eq!(reply.status, expected, "{path}: {reply:?}");
    }
    assert_eq!(get(server.address, "/health").status, 200);
    assert_eq!(server.wait_for("menagerie_queue_open", 0).as_secs(), 0);
}
