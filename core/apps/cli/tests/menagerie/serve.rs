//! `serve`: the process, its options, and the same answers as `batch`.

use super::{Changed, TEMPLATE, chat_model, disk_cache, fixture, menagerie};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server process. It is killed when this is dropped.
pub(super) struct Serving {
    child: Child,
    address: String,
    /// Reads the log while the server runs: a pipe holds only so much.
    log: Option<std::thread::JoinHandle<String>>,
}

impl Serving {
    pub(super) fn new(home: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.arg("serve").args(arguments).args(["--listen", "127.0.0.1:0", "-t", "1"]).current_dir(home);
        command.env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line:?}"));
        let mut stderr = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).unwrap();
            log
        });
        Self { address: address.to_owned(), child, log: Some(log) }
    }

    /// Status and body of an answer.
    pub(super) fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.send_as("nobody", (method, path), body)
    }

    /// Status and body of an answer to the client with this key.
    pub(super) fn send_as(&self, key: &str, (method, path): (&str, &str), body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    /// Sends a file for a batch; returns its id.
    fn upload(&self, text: &str) -> Value {
        let part = "--part\r\ncontent-disposition: form-data; name=";
        let form = format!(
            "{part}\"purpose\"\r\n\r\nbatch\r\n{part}\"file\"; filename=\"in.jsonl\"\r\n\r\n{text}\r\n--part--\r\n"
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = form.len();
        let head = format!(
            "POST /v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\
             content-type: multipart/form-data; boundary=part\r\n\r\n"
        );
        stream.write_all(format!("{head}{form}").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(body).unwrap()["id"].clone()
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send("POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Sends a signal to the process.
    #[cfg(unix)]
    pub(super) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Ends the process by SIGTERM; returns its exit code and its log.
    #[cfg(unix)]
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let log = self.log.take().unwrap().join().unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn answers_are_those_of_batch() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let body = |text: &str| {
        let messages = json!([{ "role": "user", "content": text }]);
        json!({ "model": "changed", "messages": messages, "temperature": 1, "top_k": 0, "seed": 3, "max_tokens": 12,
            "n": 2, "logprobs": true, "top_logprobs": 1 })
    };
    let texts = ["one", "two and more", "three"];
    let lines: Vec<String> = texts
        .iter()
        .map(|text| {
            json!({ "custom_id": text, "method": "POST", "url": "/v1/chat/completions", "body": body(text) })
                .to_string()
        })
        .collect();
    std::fs::write(home.path().join("in.jsonl"), lines.join("\n")).unwrap();
    menagerie(home.path(), &["batch", &model, "in.jsonl", "out.jsonl", "-t", "1"]).good();
    let out = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();
    let batch: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let server = Serving::new(home.path(), &[&model]);
    for text in texts {
        let line = batch.iter().find(|line| line["custom_id"] == text).unwrap();
        let (wanted, found) = (&line["response"]["body"], server.post("/v1/chat/completions", &body(text)));
        for index in 0..2 {
            let (wanted, found) = (&wanted["choices"][index], &found["choices"][index]);
            assert_eq!(found["message"]["content"], wanted["message"]["content"]);
            assert_eq!(found["finish_reason"], wanted["finish_reason"]);
            // Control tokens, and the one that ends an answer, are not part of its text.
            let wanted = wanted["logprobs"]["content"].as_array().unwrap().iter();
            let wanted: Vec<&Value> = wanted.filter(|token| !token["bytes"].is_null()).collect();
            let shown: Vec<&Value> = found["logprobs"]["content"].as_array().unwrap().iter().collect();
            assert_eq!(shown, wanted);
        }
        assert_eq!(found["usage"]["completion_tokens"], wanted["usage"]["completion_tokens"]);
    }
    #[cfg(unix)]
    {
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(lines.iter().all(|line| line["path"] == "/v1/chat/completions" && line["status"] == 200));
    }
}

#[cfg(unix)]
#[test]
fn states_on_disk_are_found_after_a_restart_and_only_by_the_same_key() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    std::fs::write(home.path().join("keys.txt"), "one\ntwo\n").unwrap();
    let usual = [model.to_str().unwrap(), "--cache", "states", "--api-key-file", "keys.txt", "--log", "off"];
    let body = json!({ "prompt": disk_cache::TEXT, "temperature": 0, "max_tokens": 6, "ignore_eos": true,
        "logprobs": 1 });
    let complete = |server: &Serving, key: &str| {
        let (status, answer) = server.send_as(key, ("POST", "/v1/completions"), &body.to_string());
        assert_eq!(status, 200, "{answer}");
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        (answer["choices"][0].clone(), cached)
    };
    let server = Serving::new(home.path(), &usual);
    let (cold, cached) = complete(&server, "one");
    assert_eq!(cached, 0);
    assert_eq!(server.end(), (Some(0), String::new()));

    // Guesses change no answer either.
    let server = Serving::new(home.path(), &[&usual[..], &["--draft", model.to_str().unwrap()]].concat());
    let (other, cached) = complete(&server, "two");
    assert_eq!((&other, cached), (&cold, 0), "another key starts with nothing");
    let (warm, cached) = complete(&server, "one");
    assert_eq!(warm, cold);
    assert!(cached >= 64, "{cached} tokens came from the disk");
    assert_eq!(server.end(), (Some(0), String::new()));
}

/// The process is killed in the middle of a batch: the next one goes on, no line is lost or doubled, and the answers are
/// those of the command.
#[test]
fn a_batch_goes_on_after_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let line = |number: usize| {
        let messages = json!([{ "role": "user", "content": format!("number {number}") }]);
        let body = json!({ "messages": messages, "temperature": 0, "max_tokens": 24, "ignore_eos": true });
        let url = "/v1/chat/completions";
        json!({ "custom_id": format!("n{number}"), "method": "POST", "url": url, "body": body }).to_string()
            + "\n"
    };
    let text: String = (0..80).map(line).collect();
    std::fs::write(home.path().join("in.jsonl"), &text).unwrap();
    menagerie(home.path(), &["batch", &model, "in.jsonl", "out.jsonl", "-t", "1"]).good();
    let said = |path: &Path| -> BTreeMap<String, Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let content = |line: &Value| line["response"]["body"]["choices"][0]["message"]["content"].clone();
        let said: BTreeMap<String, Value> =
            lines.iter().map(|line| (line["custom_id"].to_string(), content(line))).collect();
        assert_eq!(said.len(), lines.len(), "a line is there twice");
        said
    };
    let arguments = [model.as_str(), "--batch-dir", "batches", "--log", "off"];
    let server = Serving::new(home.path(), &arguments);
    let file = server.upload(&text);
    let body =
        json!({ "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h" });
    let batch = server.post("/v1/batches", &body)["id"].as_str().unwrap().to_owned();
    let results = home.path().join("batches/batches").join(format!("{batch}.jsonl"));
    let start = Instant::now();
    let count = || std::fs::read_to_string(&results).map_or(0, |text| text.lines().count());
    while count() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
    // By SIGKILL.
    drop(server);
    assert!((1..80).contains(&count()), "{} lines were answered before the kill", count());
    let server = Serving::new(home.path(), &arguments);
    let batch = loop {
        let (_, batch) = server.send("GET", &format!("/v1/batches/{batch}"), "");
        if batch["status"] == "completed" {
            break batch;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{batch}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(batch["request_counts"], json!({ "total": 80, "completed": 80, "failed": 0 }));
    let output = home.path().join("batches/files").join(batch["output_file_id"].as_str().unwrap());
    assert_eq!(said(&output.with_extension("jsonl")), said(&home.path().join("out.jsonl")));
}

#[test]
fn several_models_have_their_own_abilities() {
    let home = tempfile::tempdir().unwrap();
    let text =
        Changed::of("base/llama/model-f32.gguf").set("tokenizer.chat_template", TEMPLATE).write(home.path());
    let encoder = fixture("zoo/bert/model-f16.gguf");
    let ranker = fixture("zoo/bert-rank/model-f16.gguf");
    let models = [text.as_str(), encoder.to_str().unwrap(), ranker.to_str().unwrap()];
    let names = ["--alias", "talk", "--alias", "vectors", "--alias", "rank", "--log", "off"];
    let server = Serving::new(home.path(), &[&models[..], &names].concat());
    let (_, list) = server.send("GET", "/v1/models", "");
    let abilities = |at: usize| list["data"][at]["capabilities"].clone();
    assert_eq!(abilities(0), json!(["completions", "chat"]));
    assert_eq!((abilities(1), abilities(2)), (json!(["embeddings"]), json!(["rerank"])));
    assert_eq!(list["data"][0]["id"], "talk");
    server.post("/v1/completions", &json!({ "model": "changed", "prompt": "a", "max_tokens": 2 }));
    let vector = server.post("/v1/embeddings", &json!({ "model": "vectors", "input": [[5, 6, 7]] }));
    let vector: Vec<f32> = serde_json::from_value(vector["data"][0]["embedding"].clone()).unwrap();
    let length = vector.iter().map(|value| value * value).sum::<f32>();
    assert!((length - 1.0).abs() < 1e-4, "{length}");
    let scores =
        server.post("/v1/rerank", &json!({ "model": "rank", "query": "a", "documents": ["b", "c d"] }));
    assert_eq!(scores["results"].as_array().unwrap().len(), 2);
    // The page shows the layers and tensors of each model.
    for (name, architecture, tensor) in
        [("talk", "llama", "blk.0.attn_q.weight"), ("vectors", "bert", "blk.0.attn_q.weight")]
    {
        let (_, map) = server.send("GET", &format!("/page/tensors/{name}"), "");
        assert_eq!(
            (&map["architecture"], &map["layers"][0]["mixer"]),
            (&json!(architecture), &json!("attention"))
        );
        let tensor = map["tensors"].as_array().unwrap().iter().find(|one| one["name"] == tensor).unwrap();
        assert!(tensor["layer"] == 0 && tensor["bytes"].as_u64().unwrap() > 0, "{tensor}");
        assert!(tensor["type"].is_string() && tensor["shape"].as_array().unwrap().len() == 2, "{tensor}");
    }
    #[cfg(unix)]
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn a_server_that_others_could_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let serve = |more: &[&str]| menagerie(home.path(), &[&["serve", &model], more].concat());
    serve(&["--listen", "0.0.0.0:0"]).fails_with(&["0.0.0.0:0", "--api-key-file", "--insecure"]);
    serve(&["--listen", "nowhere"]).fails_with(&["cannot listen on nowhere"]);
    serve(&["--api-key-file", "none.txt"]).fails_with(&["none.txt"]);
    std::fs::write(home.path().join("keys.txt"), "# nobody\n").unwrap();
    serve(&["--api-key-file", "keys.txt"]).fails_with(&["keys.txt", "one per line"]);
    serve(&["--alias", "a", "--alias", "b"]).refused_with(&["--alias", "1 model"]);
    serve(&["--parallel", "0"]).refused_with(&["--parallel"]);
    serve(&[&model, "--listen", "127.0.0.1:0"]).fails_with(&["two models have the name changed", "--alias"]);
}
