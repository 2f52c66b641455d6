//! Routes of llama-server, and texts with a gap.

use crate::client::{get, post};
use crate::fake::{CONTEXT, model, served};
use crate::running::Running;
use menagerie::engine::{Request, SchedulerOptions};
use menagerie::open::ModelBuilder;
use menagerie_server::{ServedModel, TextService};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn props_and_slots_say_how_a_model_is_served() {
    let server = Running::new(vec![served("m", &model(), 2), served("n:1", &model(), 3)]);
    let props = get(server.address, "/props?model=m").good();
    assert_eq!(
        (&props["default_generation_settings"]["n_ctx"], &props["total_slots"]),
        (&json!(CONTEXT), &json!(2))
    );
    assert_eq!(props["modalities"], json!({ "vision": false, "audio": false }));
    assert_eq!(props["chat_template_caps"]["supports_tools"], true);
    let slots = get(server.address, "/slots?model=n%3A1").good();
    let slot = |id: usize| json!({ "id": id, "n_ctx": CONTEXT, "is_processing": false });
    assert_eq!(slots, json!([slot(0), slot(1), slot(2)]));
    assert_eq!(get(server.address, "/props").error()["param"], "model");
    assert_eq!(get(server.address, "/slots?model=x").error()["code"], "model_not_found");
}

/// The answer to the tokens of a prompt; those of the fake model for a text with a gap are 1, 2 and 3, and 4 before a file.
fn completed(server: &Running, prompt: &[u32]) -> Value {
    let body = json!({ "prompt": prompt, "max_tokens": 5 });
    post(server.address, "/v1/completions", &body).good()["choices"][0]["text"].clone()
}

fn ids(parts: &[&str]) -> Vec<u32> {
    parts.concat().bytes().map(u32::from).collect()
}

#[test]
fn the_text_in_a_gap_continues_the_tokens_of_the_model() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let expected = completed(&server, &ids(&["\u{1}ab", "\u{2}cd\u{3}"]));
    let body = json!({ "prompt": "ab", "suffix": "cd", "max_tokens": 5 });
    let answer = post(server.address, "/v1/completions", &body).good();
    assert_eq!((&answer["choices"][0]["text"], &answer["usage"]["prompt_tokens"]), (&expected, &json!(7)));
    let mut body = json!({ "input_prefix": "a", "prompt": "b", "input_suffix": "cd", "n_predict": 5, "cache_prompt": true });
    let reply = post(server.address, "/infill", &body);
    assert_eq!(reply.headers["x-menagerie-ignored"], "cache_prompt");
    let whole = reply.good();
    assert_eq!(
        (&whole["content"], &whole["stop"], &whole["stop_type"]),
        (&expected, &json!(true), &json!("limit"))
    );
    assert_eq!((&whole["tokens_predicted"], &whole["tokens_evaluated"]), (&json!(5), &json!(7)));
    assert!(whole["timings"]["predicted_ms"].is_f64() && whole["timings"]["prompt_n"] == 7, "{whole}");
    body["stream"] = true.into();
    let stream = post(server.address, "/infill", &body);
    let events: Vec<Value> = (stream.body.split_terminator("\n\n"))
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    let text: String = events.iter().map(|event| event["content"].as_str().unwrap()).collect();
    assert_eq!((json!(text), &events.last().unwrap()["stop"]), (expected, &json!(true)));
}

#[test]
fn other_files_come_before() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let files =
        json!([{ "filename": "f", "text": "one\n" }, { "filename": "g", "text": "two\n", "time": 1 }]);
    let fields = json!(["content", "timings/predicted_n", "none"]);
    let body = json!({ "input_prefix": "a", "input_suffix": "b", "input_extra": files, "n_predict": 5, "response_fields": fields });
    let prompt = ids(&["\u{4}f\none\n", "\u{4}g\ntwo\n", "\u{4}filename\n", "\u{1}a\u{2}b\u{3}"]);
    let answer = post(server.address, "/infill", &body).good();
    assert_eq!(answer, json!({ "content": completed(&server, &prompt), "timings/predicted_n": 5 }));
    for (more, param) in [
        (json!({ "input_suffix": null }), "input_suffix"),
        (json!({ "input_extra": [{ "filename": "f" }] }), "input_extra[0].text"),
        (json!({ "n_predict": "a" }), "n_predict"),
        (json!({ "response_fields": [1] }), "response_fields"),
        (json!({ "lora": [] }), "lora"),
    ] {
        let mut wrong = body.clone();
        wrong.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(post(server.address, "/infill", &wrong).error()["param"], param);
    }
}

#[test]
fn a_model_without_the_tokens_says_so() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/base/llama/model-f32.gguf");
    let model = ModelBuilder::new(file).open_text().unwrap();
    let service = TextService::new(Request::greedy(4), SchedulerOptions::default());
    let server = Running::new(vec![ServedModel::new("m").with_text(Ok(((*model).clone(), service)))]);
    for (path, body, param) in [
        ("/v1/completions", json!({ "prompt": "a", "suffix": "b" }), "suffix"),
        ("/infill", json!({ "input_prefix": "a", "input_suffix": "b" }), "input_prefix"),
    ] {
        let reply = post(server.address, path, &body);
        assert_eq!((reply.status, &reply.error()["param"]), (400, &json!(param)), "{reply:?}");
    }
}
