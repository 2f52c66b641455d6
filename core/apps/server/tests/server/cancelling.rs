//! Clients that leave.

use crate::client::{open, post};
use crate::fake::{CONTEXT, model, served};
use crate::running::Running;
use menagerie_testkit::FakeModel;
use serde_json::json;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

const OPEN: &str = "menagerie_requests_open";
const CANCELLED: &str = "menagerie_requests_total{model=\"m\",outcome=\"cancelled\"}";

/// A model whose steps take this time.
fn slow(millis: u64) -> Arc<FakeModel> {
    let fake = model();
    fake.during(Some(Box::new(move || {
        std::thread::sleep(Duration::from_millis(millis));
        Ok(())
    })));
    fake
}

/// Rows that the model has computed.
fn rows(fake: &FakeModel) -> usize {
    fake.take_seen().iter().map(|part| part.tokens.len()).sum()
}

/// While a long prompt is read, with and without a stream: the sequence is free at once, and the next request runs.
#[test]
fn leaving_while_the_prompt_is_read_frees_the_sequence() {
    let fake = slow(5);
    let server = Running::new(vec![served("m", &fake, 1)]);
    for (number, stream) in [false, true].into_iter().enumerate() {
        let body = json!({ "prompt": "ab".repeat(CONTEXT / 2 - 8), "max_tokens": 1, "stream": stream });
        let client = open(server.address, "POST", "/v1/completions", &[], &body.to_string());
        server.wait_for("menagerie_requests_running", 1);
        drop(client);
        server.wait_for(OPEN, 0);
        // The whole prompt has 255 steps.
        let computed = rows(&fake);
        assert!(computed < CONTEXT / 2, "{computed} rows");
        server.wait_for(CANCELLED, 1 + number as u64);
        let body = json!({ "prompt": "a", "max_tokens": 1 });
        assert_eq!(post(server.address, "/v1/completions", &body).status, 200);
        rows(&fake);
    }
}

#[test]
fn leaving_in_the_middle_of_an_answer_ends_it() {
    let fake = slow(2);
    let server = Running::new(vec![served("m", &fake, 1)]);
    let body = json!({ "messages": [{ "role": "user", "content": "long" }], "stream": true });
    let mut client = open(server.address, "POST", "/v1/chat/completions", &[], &body.to_string());
    let mut bytes = [0; 2000];
    client.read_exact(&mut bytes).unwrap();
    drop(client);
    server.wait_for(OPEN, 0);
    server.wait_for(CANCELLED, 1);
    let left = "menagerie_http_requests_total{route=\"/v1/chat/completions\",status=\"499\"}";
    server.wait_for(left, 1);
    assert!(rows(&fake) < 1000);
}

/// The one that runs is not touched.
#[test]
fn leaving_the_queue_leaves_the_others() {
    let server = Running::new(vec![served("m", &slow(2), 1)]);
    let body =
        |message: &str| json!({ "messages": [{ "role": "user", "content": message }], "stream": true });
    let path = "/v1/chat/completions";
    let long = json!({ "messages": [{ "role": "user", "content": "long" }], "max_tokens": 300 }).to_string();
    let first = open(server.address, "POST", path, &[], &long);
    server.wait_for("menagerie_requests_running", 1);
    let waiting = open(server.address, "POST", path, &[], &body("abc").to_string());
    server.wait_for(OPEN, 2);
    drop(waiting);
    server.wait_for(OPEN, 1);
    let answer = crate::client::read(first).good();
    assert_eq!(answer["choices"][0]["message"]["content"].as_str().unwrap().len(), 300);
    assert_eq!(server.metric(CANCELLED), 1);
}
