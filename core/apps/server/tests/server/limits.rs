//! The time of a request, and its priority.

use crate::client::{post, post_with};
use crate::fake::{model, served};
use crate::running::Running;
use crate::shelf::Shelf;
use menagerie_server::ApiKeys;
use menagerie_testkit::FakeModel;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";

fn slow() -> Arc<FakeModel> {
    let fake = model();
    fake.during(Some(Box::new(|| {
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    })));
    fake
}

fn long(stream: bool) -> Value {
    json!({ "messages": [{ "role": "user", "content": "long" }], "stream": stream })
}

#[test]
fn a_request_ends_at_its_deadline_and_frees_its_place() {
    let server = Running::with(vec![served("m", &slow(), 1)], |options| {
        options.request_time = Some(Duration::from_secs(1));
    });
    let start = Instant::now();
    let whole = post(server.address, CHAT, &long(false));
    assert_eq!((whole.status, &whole.error()["code"]), (504, &json!("deadline_exceeded")));
    assert_eq!(whole.headers["x-should-retry"], "false");
    assert!(whole.error()["message"].as_str().unwrap().contains("than 1 s"), "{whole:?}");
    server.wait_for("menagerie_requests_running", 0);
    let streamed = post(server.address, CHAT, &long(true));
    assert_eq!(streamed.status, 200);
    let last = streamed.body.trim_end().rsplit("\n\n").next().unwrap().strip_prefix("data: ").unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["code"], "deadline_exceeded", "{streamed:?}");
    assert!(streamed.body.contains("\"content\":\"x\"") && !streamed.body.contains("[DONE]"));
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    server.wait_for("menagerie_requests_total{model=\"m\",outcome=\"cancelled\"}", 2);
    let short = json!({ "messages": [{ "role": "user", "content": "ab" }] });
    assert_eq!(post(server.address, CHAT, &short).good()["choices"][0]["message"]["content"], "ba");
}

#[test]
fn a_client_sets_a_shorter_time_and_waiting_for_a_model_counts() {
    let shelf = Shelf::of(&["m"]);
    shelf.hold(true);
    let server =
        Running::with_library(&shelf, |options| options.request_time = Some(Duration::from_secs(60)));
    let with = |time: &str, body: &Value| {
        post_with(server.address, CHAT, &[("x-menagerie-timeout", time)], &body.to_string())
    };
    assert_eq!(with("0.2", &long(false)).status, 504);
    let streamed = with("0.2", &long(true));
    assert!(streamed.status == 200 && streamed.body.contains("deadline_exceeded"), "{streamed:?}");
    let wrong = with("soon", &long(false));
    assert_eq!((wrong.status, &wrong.error()["param"]), (400, &json!("x-menagerie-timeout")));
    shelf.hold(false);
    assert_eq!(with("30", &json!({ "messages": [{ "role": "user", "content": "ab" }] })).status, 200);
}

#[test]
fn priority_is_for_those_who_may() {
    let body = json!({ "prompt": "a", "max_tokens": 1, "priority": 5 }).to_string();
    let send = |server: &Running, key: &str| {
        post_with(server.address, "/v1/completions", &[("x-api-key", key)], &body)
    };
    let server = Running::new(vec![served("m", &model(), 1)]);
    let refused = send(&server, "");
    assert_eq!((refused.status, &refused.error()["param"]), (403, &json!("priority")));
    assert!(refused.error()["message"].as_str().unwrap().contains("--allow-priority"), "{refused:?}");
    let usual = json!({ "prompt": "a", "max_tokens": 1, "priority": 0 });
    assert_eq!(post(server.address, "/v1/completions", &usual).status, 200);
    let server = Running::with(vec![served("m", &model(), 1)], |options| options.allow_priority = true);
    assert_eq!(send(&server, "").status, 200);
    let server = Running::with(vec![served("m", &model(), 1)], |options| {
        options.keys = ApiKeys::parse("usual\nspecial priority\n");
    });
    assert_eq!((send(&server, "usual").status, send(&server, "special").status), (403, 200));
}
