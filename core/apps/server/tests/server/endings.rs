//! The end of a server, and the end of a model.

use crate::client::{get, open, post, read};
use crate::fake::{model, pipeline, scheduler, served};
use crate::running::Running;
use menagerie_engine::{Hookable, PipelineLifecycle, Request, RequestId, RequestStart};
use menagerie_server::{ServedModel, Server, ServerError, ServerOptions, ServerSocket, TextService};
use menagerie_testkit::FakeModel;
use serde_json::{Value, json};
use std::io::Read;
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

fn long(tokens: usize, stream: bool) -> String {
    let messages = json!([{ "role": "user", "content": "long" }]);
    json!({ "messages": messages, "max_tokens": tokens, "stream": stream }).to_string()
}

#[test]
fn running_requests_end_and_new_ones_are_refused() {
    let mut server = Running::new(vec![served("m", &slow(), 2)]);
    let clients = [false, true].map(|stream| open(server.address, "POST", CHAT, &[], &long(100, stream)));
    server.wait_for("menagerie_requests_running", 2);
    server.stop();
    // The flag is seen within a moment.
    std::thread::sleep(Duration::from_millis(150));
    let refused = post(server.address, CHAT, &json!({ "messages": [{ "role": "user", "content": "a" }] }));
    assert_eq!((refused.status, &refused.error()["code"]), (503, &json!("shutting_down")));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!((get(server.address, "/health").status, get(server.address, "/livez").status), (503, 200));
    let [whole, streamed] = clients.map(read);
    assert_eq!(whole.good()["choices"][0]["message"]["content"].as_str().unwrap().len(), 100);
    assert_eq!(streamed.events().last().unwrap()["choices"][0]["finish_reason"], "length");
    server.join();
}

#[test]
fn after_the_time_of_drain_requests_are_cancelled_and_told() {
    let mut server = Running::with(vec![served("m", &slow(), 2)], |options| {
        options.drain = Duration::from_millis(200);
    });
    let clients = [false, true].map(|stream| open(server.address, "POST", CHAT, &[], &long(4000, stream)));
    server.wait_for("menagerie_requests_running", 2);
    let start = Instant::now();
    server.stop();
    let [whole, streamed] = clients.map(read);
    assert_eq!((whole.status, &whole.error()["code"]), (503, &json!("shutting_down")));
    let last = streamed.body.trim_end().rsplit("\n\n").next().unwrap();
    let last: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "shutting_down");
    server.join();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Panics when a request with a prompt of 13 tokens starts.
pub struct Panicking;

impl PipelineLifecycle for Panicking {
    fn initialized(&self, _: RequestId, start: &RequestStart) {
        assert!(start.prompt_tokens != 13, "thirteen tokens");
    }
}

/// Nobody waits for a model whose thread is gone, and everybody is told why.
#[test]
fn a_panic_of_a_model_is_told_to_all() {
    let mut text = pipeline(&slow(), 16);
    text.add_lifecycle(Arc::new(Panicking));
    let service = TextService::new(Request::greedy(4000), scheduler(3));
    let broken = ServedModel::new("broken").with_text(Ok((text, service)));
    let server = Running::new(vec![broken, served("sound", &model(), 2)]);
    let with_model = |stream: bool| {
        let mut body: Value = serde_json::from_str(&long(4000, stream)).unwrap();
        body["model"] = "broken".into();
        body.to_string()
    };
    let mut streamed = open(server.address, "POST", CHAT, &[], &with_model(true));
    let mut some = [0; 600];
    streamed.read_exact(&mut some).unwrap();
    let whole = open(server.address, "POST", CHAT, &[], &with_model(false));
    server.wait_for("menagerie_requests_running{model=\"broken\"}", 2);
    let fatal =
        post(server.address, "/v1/completions", &json!({ "model": "broken", "prompt": "a".repeat(13) }));
    for reply in [fatal, read(whole)] {
        assert_eq!((reply.status, reply.headers["x-should-retry"].as_str()), (500, "false"));
        assert!(reply.error()["message"].as_str().unwrap().contains("thirteen tokens"), "{reply:?}");
    }
    let mut rest = String::new();
    streamed.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("thirteen tokens") && !rest.contains("[DONE]"), "{rest}");
    let health = get(server.address, "/health");
    assert_eq!(health.status, 503);
    assert!(health.error()["message"].as_str().unwrap().contains("broken"), "{health:?}");
    let later = post(server.address, "/v1/completions", &json!({ "model": "broken", "prompt": "a" }));
    assert_eq!(later.status, 500);
    let other =
        post(server.address, "/v1/completions", &json!({ "model": "sound", "prompt": "a", "max_tokens": 1 }));
    assert_eq!(other.status, 200);
}

#[test]
fn names_are_clear() {
    let start = |models: Vec<ServedModel>| {
        let options = ServerOptions::default();
        let socket = ServerSocket::bind("127.0.0.1:0", &options).unwrap();
        Server::start(socket, models, options).map(drop).unwrap_err()
    };
    let twice = start(vec![served("m", &model(), 1), served("n", &model(), 1).with_names(["m".to_owned()])]);
    assert!(matches!(twice, ServerError::SameName { ref name } if name == "m"), "{twice}");
    assert!(matches!(start(Vec::new()), ServerError::NoModel));
}
