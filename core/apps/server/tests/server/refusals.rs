//! What is refused: every status with its body.

use crate::client::{Reply, get, open, post, post_with, read};
use crate::fake::{CONTEXT, model, served};
use crate::running::Running;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

fn refused(reply: &Reply, status: u16, param: &Value, code: &Value) {
    let error = reply.error();
    assert_eq!((reply.status, &error["param"], &error["code"]), (status, param, code), "{error}");
    assert!(
        reply.headers.contains_key("x-request-id") && reply.headers["content-type"] == "application/json"
    );
}

#[test]
fn fields_are_refused_by_name() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let tool = json!([{ "type": "function", "function": { "name": "f" } }]);
    for (path, more, param) in [
        (CHAT, json!({ "min_token": 1 }), "min_token"),
        (CHAT, json!({ "store": true }), "store"),
        (CHAT, json!({ "n": 0 }), "n"),
        (CHAT, json!({ "temperature": "hot" }), "temperature"),
        (CHAT, json!({ "stream": "yes" }), "stream"),
        (CHAT, json!({ "stream_options": {} }), "stream_options"),
        (CHAT, json!({ "audio": {} }), "audio"),
        (CHAT, json!({ "functions": [] }), "functions"),
        (CHAT, json!({ "modalities": ["audio"] }), "modalities"),
        (CHAT, json!({ "response_format": { "type": "xml" } }), "response_format"),
        (CHAT, json!({ "messages": [] }), "messages"),
        (
            CHAT,
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }),
            "messages[0].content[0].type",
        ),
        (CHAT, json!({ "tools": tool, "tool_choice": "sometimes" }), "tool_choice"),
        ("/v1/completions", json!({ "messages": null, "prompt": 1 }), "prompt"),
        ("/v1/completions", json!({ "messages": null, "prompt": vec!["a"; 200] }), "prompt"),
        ("/v1/completions", json!({ "messages": null, "prompt": ["a", "b"], "n": 100 }), "n"),
        ("/v1/completions", json!({ "messages": null, "prompt": "a", "suffix": 1 }), "suffix"),
        (
            "/v1/completions",
            json!({ "messages": null, "prompt": ["a", "b"], "suffix": "b", "echo": true }),
            "echo",
        ),
        ("/v1/completions", json!({ "messages": null, "prompt": "a", "best_of": 2 }), "best_of"),
        ("/tokenize", json!({ "messages": null, "content": 1 }), "content"),
        ("/tokenize", json!({ "messages": null, "content": "a", "other": 1 }), "other"),
        ("/detokenize", json!({ "messages": null, "tokens": ["a"] }), "tokens"),
        ("/apply-template", json!({ "temperature": 1 }), "temperature"),
    ] {
        let mut body = json!({ "model": "m", "messages": messages });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(&post(server.address, path, &body), 400, &json!(param), &Value::Null);
    }
    // A schema that is not understood is no answer without a schema.
    let schema = json!({ "name": "s", "schema": { "type": "string", "pattern": "(" } });
    let format = json!({ "type": "json_schema", "json_schema": schema });
    let body = json!({ "messages": messages, "response_format": format });
    assert_eq!(post(server.address, CHAT, &body).status, 400);
}

#[test]
fn models_and_their_abilities() {
    let server = Running::new(vec![served("m", &model(), 2), served("n", &model(), 2)]);
    let body = json!({ "model": "x", "prompt": "a" });
    let reply = post(server.address, "/v1/completions", &body);
    refused(&reply, 404, &json!("model"), &json!("model_not_found"));
    assert!(reply.error()["message"].as_str().unwrap().contains("m, n"));
    refused(
        &post(server.address, "/v1/completions", &json!({ "prompt": "a" })),
        400,
        &json!("model"),
        &Value::Null,
    );
    let unsupported = json!("unsupported_by_model");
    let body = json!({ "model": "m", "input": "a" });
    refused(&post(server.address, "/v1/embeddings", &body), 400, &json!("model"), &unsupported);
    let body = json!({ "model": "m", "query": "a", "documents": ["b"] });
    refused(&post(server.address, "/v1/rerank", &body), 400, &json!("model"), &unsupported);
}

#[test]
fn prompts_are_not_cut() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    for stream in [false, true] {
        let body = json!({ "prompt": "a".repeat(CONTEXT + 1), "stream": stream });
        let reply = post(server.address, "/v1/completions", &body);
        refused(&reply, 400, &Value::Null, &json!("context_length_exceeded"));
        let error = reply.error();
        assert_eq!((&error["n_prompt_tokens"], &error["n_ctx"]), (&json!(CONTEXT + 1), &json!(CONTEXT)));
        let body = json!({ "prompt": [999], "stream": stream });
        refused(&post(server.address, "/v1/completions", &body), 400, &Value::Null, &Value::Null);
        let body = json!({ "prompt": [], "stream": stream });
        refused(&post(server.address, "/v1/completions", &body), 400, &Value::Null, &Value::Null);
    }
}

#[test]
fn routes_and_methods() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let reply = post(server.address, "/v1/audio/speech", &json!({}));
    refused(&reply, 404, &Value::Null, &json!("unknown_route"));
    assert!(reply.error()["message"].as_str().unwrap().contains("/v1/chat/completions, /v1/completions"));
    refused(&get(server.address, "/../etc/passwd"), 404, &Value::Null, &json!("unknown_route"));
    refused(&get(server.address, CHAT), 405, &Value::Null, &json!("method_not_allowed"));
}

#[test]
fn bodies_have_limits() {
    let server = Running::with(vec![served("m", &model(), 2)], |options| {
        options.body_bytes = 1 << 20;
        options.read_time = Duration::from_millis(300);
    });
    let large = json!({ "prompt": "a".repeat(2 << 20) }).to_string();
    let reply = post_with(server.address, "/v1/completions", &[], &large);
    refused(&reply, 413, &Value::Null, &Value::Null);
    let packed = post_with(server.address, "/v1/completions", &[("content-encoding", "gzip")], "{}");
    refused(&packed, 415, &Value::Null, &Value::Null);
    // A body that does not come.
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .write_all(
            b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 100\r\n\r\n{",
        )
        .unwrap();
    refused(&read(stream), 408, &Value::Null, &Value::Null);
    // A head that does not come: the connection is closed.
    let mut stream = open(server.address, "GET", "/health", &[], "");
    assert_eq!(read(stream.try_clone().unwrap()).status, 200);
    let _ = stream.write_all(b"GET /");
    let mut slow = TcpStream::connect(server.address).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut slow, &mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let fake = model();
    fake.during(Some(Box::new(|| {
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    })));
    let server = Running::with(vec![served("m", &fake, 1)], |options| options.queue = 1);
    let body = json!({ "messages": [{ "role": "user", "content": "long" }], "stream": true }).to_string();
    let open = || open(server.address, "POST", CHAT, &[], &body);
    let running = [open(), open()];
    server.wait_for("menagerie_queue_open", 2);
    let reply = read(open());
    refused(&reply, 429, &Value::Null, &json!("queue_full"));
    assert_eq!(
        (reply.headers["retry-after"].as_str(), reply.headers["retry-after-ms"].as_str()),
        ("2", "2000")
    );
    assert_eq!(reply.error()["type"], "rate_limit_error");
    // More answers than the queue ever has room for.
    let body = json!({ "prompt": "a", "n": 3 });
    drop(running);
    server.wait_for("menagerie_queue_open", 0);
    refused(&post(server.address, "/v1/completions", &body), 400, &json!("n"), &Value::Null);
    assert_eq!(
        post(server.address, "/v1/completions", &json!({ "prompt": "a", "max_tokens": 1 })).status,
        200
    );
}
