//! Whole answers, and the smaller routes.

use crate::client::{get, post, post_with};
use crate::fake::{model, served};
use crate::running::Running;
use serde_json::{Value, json};

fn server() -> Running {
    Running::new(vec![
        served("m", &model(), 2),
        served("other", &model(), 2).with_names(["second".to_owned()]),
    ])
}

#[test]
fn a_chat_completion_has_every_key() {
    let server = server();
    let messages = json!([{ "role": "user", "content": "abc" }]);
    let body = json!({ "model": "m", "messages": messages, "user": "u", "store": false, "max_tokens": 2.0 });
    let reply = post(server.address, "/v1/chat/completions", &body);
    assert_eq!(reply.headers["x-menagerie-ignored"], "user, store");
    let answer = reply.good();
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("m")));
    let message = json!({ "role": "assistant", "content": "cb", "refusal": null });
    let choice = json!({ "message": message, "logprobs": null, "index": 0, "finish_reason": "length" });
    assert_eq!(answer["choices"], json!([choice]));
    let usage = json!({
        "prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10,
        "prompt_tokens_details": { "cached_tokens": 0 },
        "completion_tokens_details": {
            "reasoning_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    });
    assert_eq!(answer["usage"], usage);
    // The same without the version.
    assert_eq!(post(server.address, "/chat/completions", &body).good()["choices"], answer["choices"]);
}

/// The field `prediction` changes no answer, and its tokens are counted; the fake model is fast, so that few of them or none
/// are computed.
#[test]
fn a_predicted_answer_is_the_same() {
    let server = server();
    let messages = json!([{ "role": "user", "content": "abcdefghij" }]);
    let mut body = json!({ "model": "m", "messages": messages, "n": 2 });
    let plain = post(server.address, "/v1/chat/completions", &body).good();
    let parts = json!([{ "type": "text", "text": "jihg" }, { "type": "text", "text": "fedcba" }]);
    body["prediction"] = json!({ "type": "content", "content": parts });
    let predicted = post(server.address, "/v1/chat/completions", &body).good();
    assert_eq!(predicted["choices"], plain["choices"]);
    let details = &predicted["usage"]["completion_tokens_details"];
    let count = |name: &str| details[format!("{name}_prediction_tokens")].as_u64().unwrap();
    assert!(count("accepted") <= 18 && count("rejected") <= 40, "{details}");
    body["prediction"] = json!({ "type": "text" });
    let error = post(server.address, "/v1/chat/completions", &body).error();
    assert_eq!(error["param"], "prediction.type");
}

#[test]
fn fields_of_other_servers_are_honored() {
    let server = server();
    let chat = |more: Value| {
        let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "abc" }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(server.address, "/v1/chat/completions", &body)
    };
    let text = |more: Value| {
        let mut body = json!({ "model": "m", "prompt": "abc" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(server.address, "/v1/completions", &body).good()["choices"][0]["text"].clone()
    };
    assert_eq!(text(json!({ "grammar": "start: \"xyz\"" })), "xyz");
    assert_eq!(text(json!({ "json_schema": { "const": 17 } })), "17");
    let dry = json!({ "dry_multiplier": 1000.0, "dry_allowed_length": 1, "dry_sequence_breakers": [], "max_tokens": 3 });
    assert_eq!(chat(dry).status, 200);
    // The template of this model reads no effort.
    let reply = chat(json!({ "reasoning_effort": "low" }));
    assert_eq!((reply.status, reply.headers["x-menagerie-ignored"].as_str()), (200, "reasoning_effort"));
    for (more, field) in [
        (json!({ "reasoning_effort": "huge" }), "reasoning_effort"),
        (json!({ "grammar": "start: nothing" }), "grammar"),
        (json!({ "json_schema": {}, "response_format": { "type": "json_object" } }), "json_schema"),
        (json!({ "repeat_last_n": "all" }), "repeat_last_n"),
        (json!({ "min_tokens": -3 }), "min_tokens"),
        (json!({ "stop_token_ids": ["x"] }), "stop_token_ids"),
        (json!({ "lora": {} }), "lora"),
    ] {
        let reply = chat(more.clone());
        assert_eq!((reply.status, &reply.error()["param"]), (400, &json!(field)), "{more}");
    }
}

#[test]
fn the_tokens_of_a_prompt_are_shown() {
    let server = server();
    let body = json!({ "model": "m", "prompt": "abc", "echo": true, "logprobs": 1, "max_tokens": 0 });
    let choice = post(server.address, "/v1/completions", &body).good()["choices"][0].clone();
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("abc"), &json!("length")));
    let logprobs = &choice["logprobs"];
    assert_eq!((&logprobs["tokens"], &logprobs["text_offset"]), (&json!(["a", "b", "c"]), &json!([0, 1, 2])));
    assert!(logprobs["token_logprobs"][0].is_null() && logprobs["token_logprobs"][1].is_f64());
    let mut streamed = body;
    streamed["stream"] = true.into();
    assert_eq!(post(server.address, "/v1/completions", &streamed).error()["param"], "echo");
}

/// As clients ask that score a text: with the prompt, one more token, which may end the answer at once.
#[test]
fn the_token_that_ends_an_answer_is_among_the_tokens_of_a_completion() {
    let server = server();
    let prompt = "U:abc;A:cba";
    let body = json!({ "model": "m", "prompt": prompt, "echo": true, "logprobs": 1, "max_tokens": 1 });
    let choice = post(server.address, "/v1/completions", &body).good()["choices"][0].clone();
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(prompt), &json!("stop")));
    let logprobs = &choice["logprobs"];
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[list].as_array().unwrap().len(), prompt.len() + 1, "{list}");
    }
    let end = prompt.len();
    assert_eq!((&logprobs["tokens"][end], &logprobs["text_offset"][end]), (&json!(""), &json!(end)));
    assert!(logprobs["token_logprobs"][end].as_f64().unwrap() > -5.0, "{logprobs}");
    // In a stream, it comes after the text.
    let body = json!({ "model": "m", "prompt": "U:abc;A:", "logprobs": 0, "stream": true });
    let chunks = post(server.address, "/v1/completions", &body).events();
    let tokens = chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["tokens"].as_array());
    let tokens: Vec<&str> = tokens.flatten().filter_map(Value::as_str).collect();
    assert_eq!(tokens, ["c", "b", "a", ""]);
    // The tokens of a message are those of its content.
    let messages = json!([{ "role": "user", "content": "abc" }]);
    let body = json!({ "model": "m", "messages": messages, "logprobs": true });
    let choice = post(server.address, "/v1/chat/completions", &body).good()["choices"][0].clone();
    assert_eq!(choice["logprobs"]["content"].as_array().unwrap().len(), 3);
}

#[test]
fn models_have_names() {
    let server = server();
    let list = get(server.address, "/v1/models").good();
    let ids: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!((&list["object"], ids), (&json!("list"), vec![&json!("m"), &json!("other")]));
    let one = get(server.address, "/models/second").good();
    assert_eq!((&one["id"], &one["object"]), (&json!("other"), &json!("model")));
    assert_eq!(
        (&one["context_length"], &one["capabilities"]),
        (&json!(4096), &json!(["completions", "chat"]))
    );
    let missing = get(server.address, "/v1/models/none");
    assert_eq!((missing.status, &missing.error()["code"]), (404, &json!("model_not_found")));
    // By its other name, it answers under its id.
    let body = json!({ "model": "second", "prompt": "a", "max_tokens": 1 });
    assert_eq!(post(server.address, "/v1/completions", &body).good()["model"], "other");
}

#[test]
fn texts_and_tokens() {
    let server = server();
    let post = |path: &str, body: Value| post(server.address, path, &body);
    let tokens = post("/tokenize", json!({ "model": "m", "content": "aé" })).good();
    assert_eq!(tokens, json!({ "tokens": [97, 195, 169] }));
    let pieces = post("/tokenize", json!({ "model": "m", "content": "aé", "with_pieces": true })).good();
    let (whole, half) = (json!({ "id": 97, "piece": "a" }), json!({ "id": 195, "piece": [195] }));
    assert_eq!((&pieces["tokens"][0], &pieces["tokens"][1]), (&whole, &half));
    let special = post("/tokenize", json!({ "model": "m", "content": "a", "parse_special": true }));
    assert_eq!(special.error()["param"], "parse_special");
    let text = post("/detokenize", json!({ "model": "m", "tokens": [97, 195, 169] })).good();
    assert_eq!(text, json!({ "content": "aé" }));
    let messages = json!([{ "role": "system", "content": "be" }, { "role": "user", "content": "hi" }]);
    let prompt = post("/apply-template", json!({ "model": "m", "messages": messages })).good();
    assert_eq!(prompt, json!({ "prompt": "S:be;U:hi;A:" }));
}

#[test]
fn health_metrics_and_the_log() {
    let server = server();
    for path in ["/health", "/livez", "/readyz"] {
        assert_eq!(get(server.address, path).good(), json!({ "status": "ok" }));
    }
    let body = json!({ "model": "m", "prompt": "abc", "max_tokens": 3 }).to_string();
    let reply = post_with(server.address, "/v1/completions", &[("x-request-id", "mine-1")], &body);
    assert_eq!(reply.headers["x-request-id"], "mine-1");
    assert_eq!(server.metric("menagerie_generated_tokens_total{model=\"m\"}"), 3);
    assert_eq!(server.metric("menagerie_generated_tokens_total{model=\"other\"}"), 0);
    let answered = "menagerie_http_requests_total{route=\"/v1/completions\",status=\"200\"}";
    assert_eq!(server.metric(answered), 1);
    let lines = server.log.lock().unwrap().clone();
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own = lines.filter(|line| line["id"] == "mine-1").collect::<Vec<_>>();
    assert_eq!(own.len(), 1);
    assert_eq!((&own[0]["status"], &own[0]["path"]), (&json!(200), &json!("/v1/completions")));
    assert_eq!((&own[0]["bytes"], &own[0]["peer"]), (&json!(reply.body.len()), &json!("127.0.0.1")));
}
