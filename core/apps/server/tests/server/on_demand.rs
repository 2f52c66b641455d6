//! Models that are opened when a request names them, and dropped when memory is needed.

use crate::client::{get, open, post, read};
use crate::running::Running;
use crate::shelf::{BYTES, Shelf};
use serde_json::{Value, json};
use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

fn body(model: &str, text: &str, stream: bool) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": text }], "stream": stream })
}

/// The answer of a model to `ab`, or the status and the code of its error.
fn ask(server: &Running, model: &str) -> Result<String, (u16, String)> {
    let reply = post(server.address, CHAT, &body(model, "ab", false));
    match reply.status {
        200 => Ok(reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()),
        status => Err((status, reply.error()["code"].as_str().unwrap_or_default().to_owned())),
    }
}

/// States of all models, in their order.
fn states(server: &Running) -> Vec<String> {
    let list = get(server.address, "/v1/models").good();
    let state =
        |model: &Value| format!("{} {}", model["id"].as_str().unwrap(), model["state"].as_str().unwrap());
    list["data"].as_array().unwrap().iter().map(state).collect()
}

fn wait_for_states(server: &Running, wanted: &[&str]) {
    for _ in 0..2000 {
        if states(server) == wanted {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{:?}, not {wanted:?}", states(server));
}

/// Routes that describe a model open none.
#[test]
fn a_model_is_not_opened_to_be_described() {
    let shelf = Shelf::of(&["a", "b"]);
    let server = Running::with_library(&shelf, |_| {});
    for path in ["/props?model=a", "/slots?model=a", "/page/tensors/a"] {
        let reply = get(server.address, path);
        assert_eq!((reply.status, &reply.error()["code"]), (400, &json!("model_not_loaded")), "{path}");
    }
    assert_eq!(
        (states(&server), shelf.opened().len()),
        (vec!["a absent".to_owned(), "b absent".to_owned()], 0)
    );
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    assert_eq!(get(server.address, "/props?model=a").status, 200);
    assert_eq!(get(server.address, "/slots?model=a").status, 200);
    assert_eq!(get(server.address, "/props?model=c").error()["code"], "model_not_found");
}

#[test]
fn a_request_opens_its_model_and_only_that() {
    let shelf = Shelf::of(&["a", "b"]);
    let server = Running::with_library(&shelf, |_| {});
    assert_eq!(states(&server), ["a absent", "b absent"]);
    assert!(get(server.address, "/v1/models").good()["data"][0]["capabilities"].is_null());
    assert_eq!(ask(&server, "b"), Ok("ba".to_owned()));
    assert_eq!(ask(&server, "b-alias"), Ok("ba".to_owned()));
    assert_eq!(
        (states(&server), shelf.opened()),
        (vec!["a absent".to_owned(), "b ready".to_owned()], vec!["b".to_owned()])
    );
    let tokens = post(server.address, "/tokenize", &json!({ "model": "a", "content": "xy" })).good();
    assert_eq!((tokens["tokens"].as_array().unwrap().len(), shelf.opened().len()), (2, 2));
    let entry = get(server.address, "/v1/models/a").good();
    assert_eq!(
        (&entry["capabilities"], &entry["memory_bytes"]),
        (&json!(["completions", "chat"]), &json!(BYTES))
    );
    // Names are looked up, and never paths.
    for name in ["../a", "/a", "a/", "a/../a", "a.gguf", "", "a:x"] {
        assert_eq!(ask(&server, name), Err((404, "model_not_found".to_owned())), "{name}");
    }
    assert_eq!(
        post(server.address, CHAT, &json!({ "messages": [] })).status,
        400,
        "there are several models"
    );
    assert_eq!(shelf.opened().len(), 2);
}

#[test]
fn requests_wait_for_a_load_and_streams_say_how_far_it_is() {
    let shelf = Shelf::of(&["a"]);
    shelf.hold(true);
    let server = Running::with_library(&shelf, |options| options.queue = 2);
    let whole = open(server.address, "POST", CHAT, &[], &body("a", "ab", false).to_string());
    wait_for_states(&server, &["a loading"]);
    assert_eq!(get(server.address, "/v1/models/a").good()["loading_percent"], 43);
    let mut stream = open(server.address, "POST", CHAT, &[], &body("a", "abc", true).to_string());
    let mut seen = String::new();
    while !seen.contains(": loading a 43 %\n\n") {
        let mut some = [0; 64];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&some[..count]));
    }
    assert!(
        seen.contains("200 OK") && seen.contains("text/event-stream") && !seen.contains("data:"),
        "{seen}"
    );
    // Two requests wait, and no more may.
    let refused = post(server.address, CHAT, &body("a", "ab", false));
    assert_eq!((refused.status, &refused.error()["code"]), (429, &json!("queue_full")));
    assert!(refused.headers.contains_key("retry-after"));
    shelf.hold(false);
    assert_eq!(read(whole).good()["choices"][0]["message"]["content"], "ba");
    stream.read_to_string(&mut seen).unwrap();
    assert!(seen.contains("\"content\":\"c\"") && seen.contains("data: [DONE]"), "{seen}");
    assert_eq!(shelf.opened(), ["a"], "one load for all");
}

#[test]
fn a_client_that_leaves_a_load_frees_its_place() {
    let shelf = Shelf::of(&["a"]);
    shelf.hold(true);
    let server = Running::with_library(&shelf, |options| options.queue = 1);
    for stream in [false, true] {
        let client = open(server.address, "POST", CHAT, &[], &body("a", "ab", stream).to_string());
        wait_for_states(&server, &["a loading"]);
        std::thread::sleep(Duration::from_millis(50));
        drop(client);
        let left = format!(
            "menagerie_http_requests_total{{route=\"/v1/chat/completions\",status=\"499\"}} {}",
            1 + u64::from(stream)
        );
        let mut tries = 0..2000;
        while !get(server.address, "/metrics").body.contains(&left) {
            assert!(tries.next().is_some(), "{left}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    shelf.hold(false);
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
}

#[test]
fn a_model_that_cannot_be_opened_says_why() {
    let shelf = Shelf::of(&["a", "b"]);
    *shelf.fault.lock().unwrap() = Some("models/a.gguf: no magic".to_owned());
    let server = Running::with_library(&shelf, |_| {});
    let reply = post(server.address, CHAT, &body("a", "ab", false));
    assert_eq!((reply.status, &reply.error()["code"]), (500, &json!("model_load_failed")));
    assert_eq!(reply.headers["x-should-retry"], "false");
    assert!(reply.error()["message"].as_str().unwrap().contains("models/a.gguf: no magic"), "{reply:?}");
    let streamed = post(server.address, CHAT, &body("a", "ab", true));
    assert!(streamed.status == 500 && streamed.body.contains("no magic"), "{streamed:?}");
    assert_eq!(shelf.opened(), ["a"], "it is not tried again at once");
    assert!(get(server.address, "/v1/models/a").good()["error"].as_str().unwrap().contains("no magic"));
    // A stream that waits gets the error as an event.
    shelf.hold(true);
    let stream = open(server.address, "POST", CHAT, &[], &body("b", "ab", true).to_string());
    wait_for_states(&server, &["a failed", "b loading"]);
    shelf.hold(false);
    let reply = read(stream);
    assert!(
        reply.status == 200 && reply.body.contains("model_load_failed") && !reply.body.contains("[DONE]")
    );
    *shelf.fault.lock().unwrap() = None;
    assert_eq!(post(server.address, "/admin/reload", &json!({})).status, 200);
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()), "after a reload it is tried again");
}

#[test]
fn idle_models_make_room_and_busy_ones_stay() {
    let shelf = Shelf::slow(&["a", "b", "c", "d"], 3);
    let server = Running::with_library(&shelf, |options| {
        options.memory = Some(2 * BYTES + BYTES / 2);
        options.pins = vec!["d".to_owned()];
    });
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    assert_eq!(ask(&server, "b"), Ok("ba".to_owned()));
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    // b was used longer ago than a.
    assert_eq!(ask(&server, "c"), Ok("ba".to_owned()));
    assert_eq!(states(&server), ["a ready", "b absent", "c ready", "d absent"]);
    let metric = |name: &str| server.metric(&format!("menagerie_model_loaded{{model=\"{name}\"}}"));
    assert_eq!((metric("a"), metric("b")), (1, 0));
    // d is never dropped once it is there.
    assert_eq!(ask(&server, "d"), Ok("ba".to_owned()));
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    assert_eq!(states(&server), ["a ready", "b absent", "c absent", "d ready"]);
    let long = open(server.address, "POST", CHAT, &[], &body("a", "long", true).to_string());
    server.wait_for("menagerie_requests_running{model=\"a\"}", 1);
    let refused = post(server.address, CHAT, &body("b", "ab", false));
    assert_eq!((refused.status, &refused.error()["code"]), (503, &json!("insufficient_memory")));
    let message = refused.error()["message"].as_str().unwrap().to_owned();
    for part in ["the model b needs 100 B", "250 B (--memory)", "200 B", "a, d"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(states(&server)[0], "a ready");
    drop(long);
    server.wait_for("menagerie_requests_open", 0);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(ask(&server, "b"), Ok("ba".to_owned()), "a has no request any more");
    assert_eq!(states(&server), ["a absent", "b ready", "c absent", "d ready"]);
    assert_eq!(server.metric("menagerie_requests_total{model=\"a\",outcome=\"end\"}"), 3, "counters go on");
}

#[test]
fn models_that_never_fit_are_refused() {
    let shelf = Shelf::of(&["a"]);
    let server = Running::with_library(&shelf, |options| options.memory = Some(BYTES - 1));
    let refused = post(server.address, CHAT, &body("a", "ab", false));
    assert_eq!((refused.status, refused.headers["x-should-retry"].as_str()), (503, "false"));
    assert_eq!(refused.error()["code"], "insufficient_memory");
}

#[test]
fn models_without_requests_are_dropped_after_their_time() {
    let shelf = Shelf::of(&["a", "b"]);
    let server = Running::with_library(&shelf, |options| {
        options.idle = Some(Duration::from_millis(300));
        options.pins = vec!["b".to_owned()];
    });
    assert_eq!((ask(&server, "a").is_ok(), ask(&server, "b").is_ok()), (true, true));
    wait_for_states(&server, &["a absent", "b ready"]);
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    assert_eq!(shelf.opened(), ["a", "b", "a"]);
}

#[test]
fn a_changed_file_is_another_model_and_requests_keep_the_old_one() {
    let shelf = Shelf::slow(&["a"], 2);
    let server = Running::with_library(&shelf, |_| {});
    let mut long = body("a", "long", false);
    long["max_tokens"] = 400.into();
    let running = open(server.address, "POST", CHAT, &[], &long.to_string());
    server.wait_for("menagerie_requests_running{model=\"a\"}", 1);
    shelf.models.lock().unwrap().insert("a".to_owned(), 2);
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    assert_eq!(shelf.opened(), ["a", "a"]);
    let answer = read(running).good();
    assert_eq!(answer["choices"][0]["message"]["content"].as_str().unwrap().len(), 400);
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    assert_eq!(shelf.opened().len(), 2);
}

#[test]
fn the_end_of_a_server_ends_loads() {
    let shelf = Shelf::of(&["a"]);
    shelf.hold(true);
    let mut server = Running::with_library(&shelf, |options| options.drain = Duration::from_millis(100));
    let waiting = open(server.address, "POST", CHAT, &[], &body("a", "ab", false).to_string());
    wait_for_states(&server, &["a loading"]);
    server.stop();
    let reply = read(waiting);
    assert_eq!((reply.status, &reply.error()["code"]), (503, &json!("shutting_down")));
    server.join();
}

/// The failed model is dropped, and the server can answer again.
#[test]
fn a_model_that_panics_is_opened_again() {
    let shelf = Shelf::of(&["a"]);
    shelf.is_fragile.store(true, Ordering::SeqCst);
    let server = Running::with_library(&shelf, |_| {});
    let fatal = json!({ "model": "a", "prompt": "a".repeat(13) });
    let reply = post(server.address, "/v1/completions", &fatal);
    assert!(reply.status == 500 && reply.body.contains("thirteen tokens"), "{reply:?}");
    wait_for_states(&server, &["a absent"]);
    assert_eq!(get(server.address, "/health").status, 200);
    assert_eq!(ask(&server, "a"), Ok("ba".to_owned()));
    assert_eq!(shelf.opened(), ["a", "a"]);
    let log = server.log.lock().unwrap().join("\n");
    assert!(log.contains("\"model_failed\"") && log.contains("thirteen tokens"), "{log}");
}
