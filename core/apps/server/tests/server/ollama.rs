//! ollama's interface.

use crate::client::{Reply, get, lines, open, post, read};
use crate::fake::{CONTEXT, model, served, served_without_tools};
use crate::running::Running;
use crate::vectors::{opened, served as encoder};
use menagerie::engine::{EmbeddingOptions, Normalization};
use menagerie_server::{LibraryError, ModelCard, ModelPuller, PullMeter};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

fn server() -> Running {
    Running::new(vec![served("m", &model(), 2).with_card(ModelCard::new("llama", 1234))])
}

fn chat(message: &str, more: Value) -> Value {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": message }] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The error of a reply.
fn fault(reply: &Reply, status: u16) -> String {
    assert_eq!((reply.status, reply.json().as_object().unwrap().len()), (status, 1), "{reply:?}");
    reply.json()["error"].as_str().unwrap().to_owned()
}

/// Checks the last line of an answer.
fn check_end(line: &Value, reason: &str, counts: (u64, u64)) {
    assert_eq!((&line["done"], &line["done_reason"]), (&json!(true), &json!(reason)), "{line}");
    assert_eq!(
        (&line["prompt_eval_count"], &line["eval_count"]),
        (&json!(counts.0), &json!(counts.1)),
        "{line}"
    );
    let time = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name}: {line}"));
    assert!(time("total_duration") >= time("prompt_eval_duration") + time("eval_duration"), "{line}");
    assert!(time("total_duration") >= time("load_duration"), "{line}");
}

#[test]
fn models_are_shown() {
    let server = server();
    let version = get(server.address, "/api/version").good();
    let parts = version["version"].as_str().unwrap().split('.').map(str::parse::<u32>);
    assert_eq!(parts.filter(Result::is_ok).count(), 3);
    let tags = get(server.address, "/api/tags").good();
    let entry = &tags["models"][0];
    assert_eq!(
        (&entry["name"], &entry["model"], &entry["size"]),
        (&json!("m:latest"), &json!("m:latest"), &json!(1234))
    );
    assert_eq!((&entry["details"]["family"], tags["models"].as_array().unwrap().len()), (&json!("llama"), 1));
    assert_eq!(get(server.address, "/api/ps").good()["models"][0]["context_length"], CONTEXT);
    for name in ["m", "m:latest"] {
        let shown = post(server.address, "/api/show", &json!({ "model": name })).good();
        assert_eq!(shown["capabilities"], json!(["completion", "tools", "insert"]));
        assert_eq!(
            shown["model_info"],
            json!({ "general.architecture": "llama", "llama.context_length": CONTEXT })
        );
    }
    assert!(fault(&post(server.address, "/api/show", &json!({ "model": "x" })), 404).contains("x"));
    let pull = fault(&post(server.address, "/api/pull", &json!({ "model": "x" })), 403);
    assert!(pull.contains("--allow-pull") && pull.contains("menagerie pull x"), "{pull}");
    fault(&post(server.address, "/api/copy", &json!({})), 404);
    fault(&get(server.address, "/api/chat"), 405);
}

#[test]
fn a_chat_is_streamed_in_lines() {
    let server = server();
    let body = chat(
        "think",
        json!({ "options": { "temperature": 0, "num_ctx": 64, "num_gpu": 1 }, "keep_alive": -1 }),
    );
    let reply = post(server.address, "/api/chat", &body);
    assert_eq!(reply.headers["x-menagerie-ignored"], "keep_alive, options.num_gpu, options.num_ctx");
    let lines = lines(&reply);
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["done"] == false && line["model"] == "m:latest"));
    assert!(
        others.iter().all(|line| line["message"]["role"] == "assistant" && line["created_at"].is_string())
    );
    let sum =
        |name: &str| -> String { lines.iter().filter_map(|line| line["message"][name].as_str()).collect() };
    assert_eq!((sum("thinking"), sum("content")), ("hm".to_owned(), "ok".to_owned()));
    check_end(last, "stop", (10, 7));
    let whole = post(server.address, "/api/chat", &chat("think", json!({ "stream": false }))).good();
    assert_eq!(whole["message"], json!({ "role": "assistant", "content": "ok", "thinking": "hm" }));
    check_end(&whole, "stop", (10, 7));
    let cut = post(
        server.address,
        "/api/chat",
        &chat("abc", json!({ "stream": false, "options": { "num_predict": 2 } })),
    );
    check_end(&cut.good(), "length", (8, 2));
}

#[test]
fn calls_have_objects() {
    let server = server();
    let tools =
        json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let body = |stream: bool| chat("call", json!({ "tools": tools, "stream": stream }));
    let whole = post(server.address, "/api/chat", &body(false)).good();
    let streamed = lines(&post(server.address, "/api/chat", &body(true)));
    let streamed = streamed.iter().find(|line| line["message"].get("tool_calls").is_some()).unwrap();
    for (message, content) in [(&whole["message"], "so"), (&streamed["message"], "")] {
        let call = &message["tool_calls"][0];
        assert_eq!(call["function"], json!({ "index": 0, "name": "f", "arguments": { "a": 1 } }));
        assert_eq!((&message["content"], call["id"].is_string()), (&json!(content), true));
    }
    // They come back without ids.
    let messages = json!([
        { "role": "user", "content": "call" },
        { "role": "assistant", "content": "so", "tool_calls": [{ "function": { "name": "f", "arguments": { "a": 1 } } }] },
        { "role": "tool", "tool_name": "f", "content": "fine" },
    ]);
    let body =
        json!({ "model": "m", "messages": messages, "stream": false, "options": { "num_predict": 1 } });
    assert_eq!(post(server.address, "/api/chat", &body).status, 200);
}

#[test]
fn texts_are_generated() {
    let server = server();
    let generate = |more: Value| {
        let mut body = json!({ "model": "m", "stream": false, "options": { "num_predict": 4 } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(server.address, "/api/generate", &body)
    };
    let answered = generate(json!({ "prompt": "abc", "system": "be" })).good();
    assert_eq!(answered["response"], "cba");
    check_end(&answered, "stop", (13, 4));
    let raw = generate(json!({ "prompt": "abc", "raw": true })).good();
    let completed = json!({ "prompt": "abc", "max_tokens": 4 });
    let completed = post(server.address, "/v1/completions", &completed).good()["choices"][0]["text"].clone();
    assert_eq!(raw["response"], completed);
    check_end(&raw, "length", (3, 4));
    let between = generate(json!({ "prompt": "abc", "suffix": "def" })).good();
    let completed = json!({ "prompt": "abc", "suffix": "def", "max_tokens": 4 });
    let completed = post(server.address, "/v1/completions", &completed).good()["choices"][0]["text"].clone();
    assert_eq!(between["response"], completed);
    let format = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"], "additionalProperties": false });
    let body = json!({ "model": "m", "prompt": "x", "format": format, "stream": false });
    let constrained = Running::new(vec![served_without_tools("m")]);
    let text =
        post(constrained.address, "/api/generate", &body).good()["response"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["a"], 1);
    // Without a prompt the client wants the model to be loaded.
    assert_eq!(generate(json!({})).good()["done_reason"], "load");
    assert_eq!(post(server.address, "/api/chat", &json!({ "model": "m" })).good()["done_reason"], "load");
}

#[test]
fn vectors_are_those_of_the_pipeline_alone() {
    let server = Running::new(vec![encoder("bert", None)]);
    let pipeline = opened("bert");
    let options = EmbeddingOptions::default().with_normalization(Normalization::Euclidean);
    let texts = ["a b", "c"];
    let answer =
        post(server.address, "/api/embed", &json!({ "model": "bert:latest", "input": texts })).good();
    let found: Vec<Vec<f32>> = serde_json::from_value(answer["embeddings"].clone()).unwrap();
    let tokenizer = pipeline.tokenizer().unwrap();
    let ids: Vec<Vec<u32>> = texts.iter().map(|text| tokenizer.encode_prompt(text).unwrap()).collect();
    for (ids, found) in ids.iter().zip(found) {
        assert_eq!(pipeline.embed(&[ids], &options).remove(0).unwrap(), found);
    }
    assert_eq!(answer["prompt_eval_count"], ids.iter().map(Vec::len).sum::<usize>());
    let wrong = json!({ "model": "bert", "input": "a", "dimensions": 2 });
    assert!(fault(&post(server.address, "/api/embed", &wrong), 400).starts_with("dimensions: "));
}

#[test]
fn errors_name_the_field() {
    let server = server();
    for (path, more, field) in [
        ("/api/chat", json!({ "options": { "temperature": "hot" } }), "options.temperature"),
        ("/api/chat", json!({ "options": { "num_predict": "many" } }), "options.num_predict"),
        ("/api/chat", json!({ "options": { "num_ctx": CONTEXT + 1 } }), "options.num_ctx"),
        ("/api/chat", json!({ "options": { "mirostat": 2 } }), "options.mirostat"),
        ("/api/chat", json!({ "options": { "unknown": 2 } }), "options.unknown"),
        ("/api/chat", json!({ "options": [] }), "options"),
        ("/api/chat", json!({ "format": "xml" }), "format"),
        ("/api/chat", json!({ "format": { "type": "string", "pattern": "(" } }), "format"),
        ("/api/chat", json!({ "think": true }), "think"),
        ("/api/chat", json!({ "think": "hard" }), "think"),
        ("/api/chat", json!({ "stream": 1 }), "stream"),
        ("/api/chat", json!({ "logprobs": true }), "logprobs"),
        ("/api/generate", json!({ "messages": null, "prompt": "a", "context": [1] }), "context"),
        ("/api/generate", json!({ "messages": null, "prompt": "a", "template": "x" }), "template"),
        ("/api/generate", json!({ "messages": null, "prompt": "a", "images": ["a"] }), "images"),
        ("/api/generate", json!({ "messages": null, "prompt": "a", "raw": true, "system": "b" }), "system"),
        ("/api/embed", json!({ "messages": null, "input": "a", "other": 1 }), "other"),
    ] {
        let reply = post(server.address, path, &chat("abc", more.clone()));
        assert!(fault(&reply, 400).starts_with(&format!("{field}: ")), "{more}: {reply:?}");
    }
    assert!(fault(&post(server.address, "/api/chat", &json!({})), 400).starts_with("model: "));
    assert!(
        fault(&post(server.address, "/api/chat", &json!({ "model": "x" })), 404)
            .contains("there is no model")
    );
}

/// The end of a server, in the middle of a stream.
#[test]
fn an_error_in_a_stream_is_a_line() {
    let fake = model();
    fake.during(Some(Box::new(|| {
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    })));
    let server =
        Running::with(vec![served("m", &fake, 1)], |options| options.drain = Duration::from_millis(200));
    let client = open(server.address, "POST", "/api/chat", &[], &chat("long", json!({})).to_string());
    server.wait_for("menagerie_requests_running", 1);
    server.stop();
    let lines = lines(&read(client));
    assert!(lines.last().unwrap()["error"].as_str().unwrap().contains("shutting down"), "{lines:?}");
}

/// Downloads a model byte by byte, one for each message, until there are no more.
struct Slow {
    begun: AtomicUsize,
    ended: AtomicUsize,
    bytes: Mutex<mpsc::Receiver<()>>,
}

impl ModelPuller for Slow {
    fn pull(&self, name: &str, meter: &PullMeter) -> Result<(), LibraryError> {
        if name != "big" {
            return Err(format!("{name}: there is no such model").into());
        }
        self.begun.fetch_add(1, Ordering::SeqCst);
        meter.step("downloading big.gguf", Some(1000), 10);
        let mut stopped = false;
        while !stopped && self.bytes.lock().unwrap().recv().is_ok() {
            meter.advance(1);
            stopped = !meter.is_wanted();
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
        if stopped { Err("stopped".into()) } else { Ok(()) }
    }
}

#[test]
fn a_download_is_shared_and_ends_with_its_last_client() {
    let (send, bytes) = mpsc::channel();
    let slow =
        Arc::new(Slow { begun: AtomicUsize::new(0), ended: AtomicUsize::new(0), bytes: Mutex::new(bytes) });
    let puller = Arc::clone(&slow);
    let server =
        Running::with(vec![served("m", &model(), 2)], move |options| options.puller = Some(puller as _));
    let wait = |count: &AtomicUsize, value: usize| {
        for _ in 0..2000 {
            if count.load(Ordering::SeqCst) == value {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} is not {value}", count.load(Ordering::SeqCst));
    };
    let pull = |more: Value| {
        let mut body = json!({ "model": "big:latest" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        open(server.address, "POST", "/api/pull", &[], &body.to_string())
    };
    let first = pull(json!({}));
    wait(&slow.begun, 1);
    // The client leaves, and so does the download.
    drop(first);
    for _ in 0..2000 {
        if slow.ended.load(Ordering::SeqCst) == 1 {
            break;
        }
        send.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    wait(&slow.ended, 1);
    while slow.bytes.lock().unwrap().try_recv().is_ok() {}
    let streams = [pull(json!({})), pull(json!({ "name": "big", "model": null }))];
    wait(&slow.begun, 2);
    let whole = pull(json!({ "stream": false }));
    std::thread::sleep(Duration::from_millis(100));
    send.send(()).unwrap();
    drop(send);
    for stream in streams {
        let lines = lines(&read(stream));
        let (last, others) = lines.split_last().unwrap();
        assert_eq!(last, &json!({ "status": "success" }));
        assert!(
            others.iter().all(|line| line["total"] == 1000 && line["completed"].as_u64().unwrap() >= 10),
            "{lines:?}"
        );
    }
    assert_eq!(read(whole).good(), json!({ "status": "success" }));
    assert_eq!(slow.begun.load(Ordering::SeqCst), 2, "clients wait for one download");
    let lines = lines(&post(server.address, "/api/pull", &json!({ "model": "none" })));
    assert_eq!(lines, [json!({ "error": "none: there is no such model" })]);
    fault(&post(server.address, "/api/pull", &json!({ "model": "none", "stream": false })), 500);
    let insecure =
        fault(&post(server.address, "/api/pull", &json!({ "model": "big", "insecure": true })), 400);
    assert!(insecure.starts_with("insecure: "), "{insecure}");
}
