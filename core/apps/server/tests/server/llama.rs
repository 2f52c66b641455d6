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
        (json!({ "samplers": ["top_k", "adaptive_p"] }), "samplers"),
        (json!({ "lora": [{ "id": 0, "scale": 1 }] }), "lora[0].id"),
        (json!({ "return_progress": true }), "return_progress"),
    ] {
        let mut wrong = body.clone();
        wrong.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(post(server.address, "/infill", &wrong).error()["param"], param);
    }
}

/// The bodies of llama.vim: for a text at the cursor, for a text that is only to be read, and for an instruction.
#[test]
fn requests_of_llama_vim_are_answered() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let extra = json!([{ "filename": "f", "text": "one\n", "time": 1 }]);
    let names = [
        "content",
        "timings/prompt_n",
        "timings/prompt_ms",
        "timings/prompt_per_token_ms",
        "timings/prompt_per_second",
        "timings/predicted_n",
        "timings/predicted_ms",
        "timings/predicted_per_token_ms",
        "timings/predicted_per_second",
        "truncated",
        "tokens_cached",
    ];
    let body = json!({
        "id_slot": 0, "input_prefix": "a\n", "input_suffix": "\nb", "input_extra": extra, "prompt": "  c",
        "n_predict": 8, "stop": [], "n_indent": 2, "top_k": 40, "top_p": 0.9,
        "samplers": ["top_k", "top_p", "infill"], "stream": false, "cache_prompt": true, "t_max_prompt_ms": 500,
        "t_max_predict_ms": 1000, "response_fields": names,
    });
    let reply = post(server.address, "/infill", &body);
    assert_eq!(
        reply.headers["x-menagerie-ignored"],
        "cache_prompt, id_slot, t_max_prompt_ms, t_max_predict_ms"
    );
    let answer = reply.good();
    assert!(names.iter().all(|name| answer.get(name).is_some()), "{answer}");
    let mut read = body.clone();
    let less = json!({
        "input_prefix": "", "input_suffix": "", "prompt": "", "n_predict": 0, "temperature": 0.0, "samplers": [],
        "t_max_prompt_ms": 1, "t_max_predict_ms": 1, "response_fields": [""],
    });
    read.as_object_mut().unwrap().extend(less.as_object().unwrap().clone());
    for name in ["stop", "n_indent", "top_k", "top_p"] {
        read.as_object_mut().unwrap().remove(name);
    }
    assert_eq!(post(server.address, "/infill", &read).good(), json!({}));
    let messages = json!([{ "role": "system", "content": "be" }, { "role": "user", "content": "abc" }]);
    let warm = json!({
        "id_slot": 1, "messages": messages, "samplers": [], "n_predict": 0, "stream": false, "cache_prompt": true,
        "response_fields": [""],
    });
    let reply = post(server.address, "/v1/chat/completions", &warm);
    assert_eq!(reply.headers["x-menagerie-ignored"], "cache_prompt, id_slot, response_fields");
    assert_eq!(reply.good()["usage"]["completion_tokens"], 0);
    let instruction = json!({
        "id_slot": 1, "messages": messages, "min_p": 0.1, "temperature": 0.1, "samplers": ["min_p", "temperature"],
        "stream": true, "cache_prompt": true,
    });
    assert!(!post(server.address, "/v1/chat/completions", &instruction).events().is_empty());
}

/// A line that is indented less than the cursor ends the text.
#[test]
fn less_indentation_ends_an_answer() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let chat = |message: &str| {
        let messages = json!([{ "role": "user", "content": message }]);
        let body = json!({ "messages": messages, "n_indent": 2 });
        post(server.address, "/v1/chat/completions", &body).good()["choices"][0].clone()
    };
    let cut = chat("d \nc  \nb");
    assert_eq!((&cut["message"]["content"], &cut["finish_reason"]), (&json!("b\n  c\n "), &json!("stop")));
    assert_eq!(chat("c  \nb")["message"]["content"], "b\n  c");
}

#[test]
fn adapters_have_numbers_and_belong_to_requests() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    assert_eq!(get(server.address, "/lora-adapters").good(), json!([]));
    let error = post(server.address, "/lora-adapters", &json!([{ "id": 0, "scale": 1 }])).error();
    assert!(error["message"].as_str().unwrap().contains("field lora"), "{error}");
    let answer = |lora: Value| {
        let body = json!({ "prompt": "ab", "max_tokens": 3, "lora": lora });
        post(server.address, "/v1/completions", &body)
    };
    assert_eq!(answer(json!([])).good()["usage"]["completion_tokens"], 3);
    for (lora, param) in
        [(json!(1), "lora"), (json!([1]), "lora[0]"), (json!([{ "id": 0, "scale": 1 }]), "lora[0].id")]
    {
        assert_eq!(answer(lora).error()["param"], param);
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
