//! Every interface opens the model that a request names, and says in its own format why it cannot.

use crate::client::{get, open, read};
use crate::running::Running;
use crate::shelf::Shelf;
use serde_json::{Value, json};
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Streams of events: a route, a body for the model `a`, and what the end of its answer has.
fn streams() -> [(&'static str, Value, &'static str); 4] {
    let messages = json!([{ "role": "user", "content": "ab" }]);
    [
        ("/v1/completions", json!({ "model": "a", "prompt": "ab", "stream": true }), "data: [DONE]"),
        (
            "/v1/responses",
            json!({ "model": "a", "input": "ab", "stream": true }),
            "event: response.completed",
        ),
        (
            "/v1/messages",
            json!({ "model": "a", "max_tokens": 9, "messages": messages, "stream": true }),
            "event: message_stop",
        ),
        (
            "/infill",
            json!({ "model": "a", "input_prefix": "a", "input_suffix": "b", "n_predict": 2, "stream": true }),
            "\"stop\":true",
        ),
    ]
}

/// A server whose model cannot be opened yet, and a request that waits for it.
fn waiting(path: &str, body: &Value) -> (Arc<Shelf>, Running, TcpStream) {
    let shelf = Shelf::of(&["a"]);
    shelf.hold(true);
    let server = Running::with_library(&shelf, |_| {});
    let stream = open(server.address, "POST", path, &[], &body.to_string());
    let start = Instant::now();
    while get(server.address, "/v1/models/a").good()["state"] != "loading" {
        assert!(start.elapsed() < Duration::from_secs(20), "{path} does not open its model");
        std::thread::sleep(Duration::from_millis(5));
    }
    (shelf, server, stream)
}

#[test]
fn streams_of_every_interface_begin_while_the_model_is_opened() {
    for (path, body, end) in streams() {
        let (shelf, _server, mut stream) = waiting(path, &body);
        let mut seen = String::new();
        while !seen.contains(": loading a 43 %\n\n") {
            let mut some = [0; 64];
            let count = stream.read(&mut some).unwrap();
            assert!(count > 0, "{path}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&some[..count]));
        }
        shelf.hold(false);
        stream.read_to_string(&mut seen).unwrap();
        assert!(seen.contains(end), "{path}: {seen}");
    }
}

#[test]
fn a_stream_whose_model_cannot_be_opened_ends_with_an_error_of_its_interface() {
    for (path, body, end) in streams() {
        let (shelf, _server, stream) = waiting(path, &body);
        *shelf.fault.lock().unwrap() = Some("a.gguf: no magic".to_owned());
        shelf.hold(false);
        let reply = read(stream);
        assert!(reply.status == 200 && reply.body.contains("no magic"), "{path}: {reply:?}");
        assert!(!reply.body.contains(end), "{path}: {reply:?}");
        let is_named = reply.body.contains("event: error\n");
        assert_eq!(is_named, path == "/v1/messages", "{path}: {reply:?}");
    }
}

/// ollama's clients know the time of a load, and the status of an error.
#[test]
fn a_request_of_ollama_waits_for_its_model() {
    let body = json!({ "model": "a:latest", "messages": [{ "role": "user", "content": "ab" }] });
    let (shelf, _server, stream) = waiting("/api/chat", &body);
    std::thread::sleep(Duration::from_millis(20));
    shelf.hold(false);
    let reply = read(stream);
    let last: Value = serde_json::from_str(reply.body.lines().last().unwrap()).unwrap();
    assert_eq!((reply.status, &last["done"]), (200, &json!(true)), "{reply:?}");
    assert!(last["load_duration"].as_u64().unwrap() > 10_000_000, "{last}");
    let (shelf, server, stream) = waiting("/api/chat", &body);
    *shelf.fault.lock().unwrap() = Some("a.gguf: no magic".to_owned());
    shelf.hold(false);
    let reply = read(stream);
    assert_eq!(reply.status, 500, "{reply:?}");
    assert!(reply.json()["error"].as_str().unwrap().contains("no magic"), "{reply:?}");
    let tags = get(server.address, "/api/tags").good();
    assert_eq!(
        (&tags["models"][0]["name"], tags["models"].as_array().unwrap().len()),
        (&json!("a:latest"), 1)
    );
    assert_eq!(get(server.address, "/api/ps").good()["models"], json!([]));
    // The page shows a model that is not in memory too; what it can do is not known.
    let state = get(server.address, "/page/state").good();
    assert_eq!((&state["models"][0]["id"], &state["models"][0]["chat"]), (&json!("a"), &Value::Null));
}
