//! Files and batches: what a client sends is answered once, whatever happens, and only the client sees it.

use crate::client::{Reply, get, open, post, post_with, read};
use crate::fake::{model, served};
use crate::running::Running;
use crate::shelf::{BYTES, Shelf};
use menagerie_server::{Server, ServerError, ServerOptions, ServerSocket};
use menagerie_testkit::FakeModel;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";

/// A new folder, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("menagerie-batches-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(folder: &Path, fake: &Arc<FakeModel>) -> Running {
    Running::with(vec![served("m", fake, 2)], |options| {
        options.batch_dir = Some(folder.to_owned());
        options.file_bytes = 1 << 20;
        options.drain = Duration::from_millis(100);
    })
}

/// A form with fields and a file.
fn form(fields: &[(&str, &str)], file: Option<&str>) -> String {
    let mut form = String::new();
    for (name, value) in fields {
        form += &format!("--part\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    if let Some(file) = file {
        let name = "form-data; name=\"file\"; filename=\"../in.jsonl\"";
        form += &format!("--part\r\ncontent-disposition: {name}\r\n\r\n{file}\r\n");
    }
    form + "--part--\r\n"
}

fn send(address: SocketAddr, headers: &[(&str, &str)], form: &str) -> Reply {
    let kind = ("content-type", "multipart/form-data; boundary=part");
    post_with(address, "/v1/files", &[headers, &[kind]].concat(), form)
}

fn upload(address: SocketAddr, lines: &str) -> String {
    let file = send(address, &[], &form(&[("purpose", "batch")], Some(lines))).good();
    file["id"].as_str().unwrap().to_owned()
}

/// Lines that ask for chat completions of these messages.
fn lines(messages: &[String]) -> String {
    let line = |(number, message): (usize, &String)| {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": message }] });
        json!({ "custom_id": format!("n{number}"), "method": "POST", "url": CHAT, "body": body }).to_string()
            + "\n"
    };
    messages.iter().enumerate().map(line).collect()
}

fn create(address: SocketAddr, file: &str, endpoint: &str) -> Value {
    let body = json!({ "input_file_id": file, "endpoint": endpoint, "completion_window": "24h", "metadata": { "a": "b" } });
    post(address, "/v1/batches", &body).good()
}

/// Waits until a batch has ended.
fn ended(address: SocketAddr, batch: &Value) -> Value {
    let start = Instant::now();
    loop {
        let batch = get(address, &format!("/v1/batches/{}", batch["id"].as_str().unwrap())).good();
        if matches!(batch["status"].as_str().unwrap(), "completed" | "failed" | "cancelled") {
            return batch;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{batch}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The lines of a file.
fn content(address: SocketAddr, id: &Value) -> Vec<Value> {
    let reply = get(address, &format!("/v1/files/{}/content", id.as_str().unwrap()));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn slow(millis: u64) -> Arc<FakeModel> {
    let fake = model();
    fake.during(Some(Box::new(move || {
        std::thread::sleep(Duration::from_millis(millis));
        Ok(())
    })));
    fake
}

#[test]
fn a_batch_answers_every_line_and_keeps_failures_apart() {
    let folder = Folder::new("whole");
    let server = start(&folder.0, &model());
    let address = server.address;
    let mut text = lines(&["abc".to_owned(), "xy".to_owned()]);
    let wrong = json!({ "model": "m", "messages": [], "colour": 1 });
    text += &json!({ "custom_id": "wrong", "method": "POST", "url": CHAT, "body": wrong }).to_string();
    let file = upload(address, &text);
    let shown = get(address, &format!("/v1/files/{file}")).good();
    assert_eq!((&shown["filename"], &shown["purpose"]), (&json!("../in.jsonl"), &json!("batch")));
    assert_eq!((&shown["bytes"], &shown["object"]), (&json!(text.len()), &json!("file")));
    assert_eq!(get(address, &format!("/v1/files/{file}/content")).body, text);
    let batch = create(address, &file, CHAT);
    assert_eq!((&batch["object"], &batch["status"]), (&json!("batch"), &json!("validating")));
    let batch = ended(address, &batch);
    assert_eq!((&batch["status"], &batch["metadata"]), (&json!("completed"), &json!({ "a": "b" })));
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    let mut answers = content(address, &batch["output_file_id"]);
    answers.sort_by_key(|answer| answer["custom_id"].to_string());
    let said = |answer: &Value| answer["response"]["body"]["choices"][0]["message"]["content"].clone();
    assert_eq!(answers.iter().map(said).collect::<Vec<_>>(), [json!("cba"), json!("yx")]);
    assert_eq!((&answers[0]["response"]["status_code"], &answers[0]["error"]), (&json!(200), &Value::Null));
    let failures = content(address, &batch["error_file_id"]);
    assert_eq!((failures.len(), &failures[0]["custom_id"]), (1, &json!("wrong")));
    assert_eq!(failures[0]["response"]["status_code"], 400);
    // Nothing is left of the work, and the lists know everything.
    let names: Vec<String> = std::fs::read_dir(folder.0.join("batches"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let files = get(address, "/v1/files?purpose=batch_output").good();
    assert_eq!(files["data"].as_array().unwrap().len(), 2);
    assert_eq!(get(address, "/v1/batches?limit=1").good()["data"][0]["id"], batch["id"]);
    let deleted = read(open(address, "DELETE", &format!("/v1/files/{file}"), &[], "")).good();
    assert_eq!(deleted, json!({ "id": file, "object": "file", "deleted": true }));
    assert_eq!(get(address, &format!("/v1/files/{file}")).status, 404);
}

/// Every endpoint of a batch, with the answers that its route gives.
#[test]
fn lines_are_answered_as_their_route_does() {
    let folder = Folder::new("routes");
    let server = start(&folder.0, &model());
    for (endpoint, body, answer) in [
        ("/v1/completions", json!({ "model": "m", "prompt": "abc", "max_tokens": 3 }), "choices"),
        ("/v1/responses", json!({ "model": "m", "input": "abc" }), "status"),
    ] {
        let line = json!({ "custom_id": "a", "method": "POST", "url": endpoint, "body": body });
        let batch = create(server.address, &upload(server.address, &line.to_string()), endpoint);
        let batch = ended(server.address, &batch);
        let line = &content(server.address, &batch["output_file_id"])[0];
        let alone = post(server.address, endpoint, &body).good();
        assert_eq!(line["response"]["body"][answer], alone[answer], "{endpoint}");
    }
    // A model that makes no vectors says so for each line.
    let body = json!({ "model": "m", "input": "abc" });
    let line = json!({ "custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": body });
    let batch = create(server.address, &upload(server.address, &line.to_string()), "/v1/embeddings");
    let batch = ended(server.address, &batch);
    assert_eq!((&batch["status"], &batch["output_file_id"]), (&json!("completed"), &Value::Null));
    let error = &content(server.address, &batch["error_file_id"])[0]["response"]["body"]["error"];
    assert_eq!(error["code"], "unsupported_by_model");
}

#[test]
fn a_file_with_other_lines_fails_as_a_whole() {
    let folder = Folder::new("lines");
    let server = start(&folder.0, &model());
    let good = lines(&["abc".to_owned()]);
    for (text, line, named) in [
        ("not JSON\n".to_owned(), json!(1), "JSON"),
        (good.clone() + &good, Value::Null, "both have the id"),
        (good.replace("chat/completions", "embeddings"), json!(1), "url"),
        (good.replace("custom_id", "id"), json!(1), "custom_id"),
        (String::new(), Value::Null, "no lines"),
    ] {
        let batch = create(server.address, &upload(server.address, &text), CHAT);
        let batch = ended(server.address, &batch);
        assert_eq!(batch["status"], "failed", "{text}");
        let error = &batch["errors"]["data"][0];
        assert_eq!(error["line"], line, "{text}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(named) && !message.contains("menagerie-batches"), "{message}");
    }
}

/// The server ends in the middle and starts again on the same folder, again and again: no line is lost or doubled, and each
/// answer is the one that its request gets alone.
#[test]
fn a_batch_goes_on_after_a_restart() {
    let folder = Folder::new("restart");
    let messages: Vec<String> = (0..30).map(|number| format!("message {number}")).collect();
    let fake = slow(2);
    let server = start(&folder.0, &fake);
    let batch = create(server.address, &upload(server.address, &lines(&messages)), CHAT);
    drop(server);
    let mut starts = 1;
    let (batch, answers) = loop {
        let server = start(&folder.0, &fake);
        starts += 1;
        std::thread::sleep(Duration::from_millis(150));
        let now = get(server.address, &format!("/v1/batches/{}", batch["id"].as_str().unwrap())).good();
        if now["status"] == "completed" || starts > 5 {
            let batch = ended(server.address, &batch);
            break (batch.clone(), content(server.address, &batch["output_file_id"]));
        }
        // What a kill leaves of a line that was being written.
        let results = folder.0.join("batches").join(format!("{}.jsonl", batch["id"].as_str().unwrap()));
        drop(server);
        if results.exists() {
            let mut text = std::fs::read_to_string(&results).unwrap();
            text.push_str("{\"custom_id\": \"n29\", \"respo");
            std::fs::write(&results, text).unwrap();
        }
    };
    assert!(starts > 2, "the batch was complete before the server ended");
    assert_eq!(batch["request_counts"], json!({ "total": 30, "completed": 30, "failed": 0 }));
    assert_eq!(answers.len(), 30);
    let ids: BTreeSet<&str> = answers.iter().map(|answer| answer["custom_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 30);
    for answer in &answers {
        let number: usize = answer["custom_id"].as_str().unwrap()[1..].parse().unwrap();
        let expected: String = messages[number].chars().rev().collect();
        assert_eq!(answer["response"]["body"]["choices"][0]["message"]["content"], expected);
    }
}

/// Results of another model are not continued, and one folder has one server.
#[test]
fn a_batch_of_other_models_fails() {
    let folder = Folder::new("made");
    let start = |made: u32| {
        let made = json!({ "weights": made }).as_object().unwrap().clone();
        let model = served("m", &slow(2), 2).with_made(made);
        Running::with(vec![model], |options| {
            options.batch_dir = Some(folder.0.clone());
            options.drain = Duration::from_millis(100);
        })
    };
    let server = start(1);
    let options = {
        let mut options = ServerOptions::default();
        options.batch_dir = Some(folder.0.clone());
        options
    };
    let socket = ServerSocket::bind("127.0.0.1:0", &options).unwrap();
    let second = Server::start(socket, vec![served("m", &model(), 1)], options).map(drop).unwrap_err();
    assert!(matches!(&second, ServerError::BatchFolder(_)), "{second}");
    let messages: Vec<String> = (0..200).map(|number| format!("message {number}")).collect();
    let batch = create(server.address, &upload(server.address, &lines(&messages)), CHAT);
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap());
    let begun = Instant::now();
    while get(server.address, &path).good()["request_counts"]["completed"] == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(server);
    let server = start(2);
    let batch = ended(server.address, &batch);
    let message = batch["errors"]["data"][0]["message"].as_str().unwrap();
    assert!(message.contains("weights of m was 1 and is now 2"), "{message}");
    assert!(!message.contains("menagerie-batches"), "{message}");
}

#[test]
fn a_batch_that_is_cancelled_keeps_its_answers() {
    let folder = Folder::new("cancel");
    let server = start(&folder.0, &slow(2));
    // As many lines are in progress at once.
    let mut messages: Vec<String> = vec!["abc".to_owned(); 4];
    messages.extend((0..40).map(|_| "long".to_owned()));
    let file = upload(server.address, &lines(&messages));
    let batch = create(server.address, &file, CHAT);
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap());
    let start = Instant::now();
    loop {
        let now = get(server.address, &path).good();
        if now["request_counts"]["completed"] == 4 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{now}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let in_use = read(open(server.address, "DELETE", &format!("/v1/files/{file}"), &[], ""));
    assert_eq!((in_use.status, &in_use.error()["code"]), (400, &json!("file_in_use")));
    let cancelling = post(server.address, &format!("{path}/cancel"), &json!({})).good();
    assert_eq!(cancelling["status"], "cancelling");
    let batch = ended(server.address, &batch);
    assert_eq!((&batch["status"], batch["cancelled_at"].is_u64()), (&json!("cancelled"), true));
    assert_eq!(content(server.address, &batch["output_file_id"]).len(), 4);
    server.wait_for("menagerie_requests_open", 0);
    assert_eq!(post(server.address, &format!("{path}/cancel"), &json!({})).good()["status"], "cancelled");
}

/// Lines wait for clients, and take none of their places in the queue.
#[test]
fn clients_come_first() {
    let folder = Folder::new("first");
    let server = Running::with(vec![served("m", &slow(1), 1)], |options| {
        options.batch_dir = Some(folder.0.clone());
        options.queue = 0;
        options.drain = Duration::from_millis(100);
    });
    let messages: Vec<String> =
        (0..40).map(|number| format!("a long message with number {number}")).collect();
    let batch = create(server.address, &upload(server.address, &lines(&messages)), CHAT);
    server.wait_for("menagerie_requests_running", 1);
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "abc" }] });
    let answer = post(server.address, CHAT, &body).good();
    assert_eq!(answer["choices"][0]["message"]["content"], "cba");
    let now = get(server.address, &format!("/v1/batches/{}", batch["id"].as_str().unwrap())).good();
    assert!(now["request_counts"]["completed"].as_u64().unwrap() < 20, "{now}");
}

#[test]
fn another_key_sees_nothing() {
    let folder = Folder::new("keys");
    let server = Running::with(vec![served("m", &model(), 2)], |options| {
        options.batch_dir = Some(folder.0.clone());
        options.keys = menagerie_server::ApiKeys::parse("one\ntwo");
        options.drain = Duration::from_millis(100);
    });
    let [one, two] = [("x-api-key", "one"), ("x-api-key", "two")];
    let as_client = |key, method: &str, path: &str| read(open(server.address, method, path, &[key], ""));
    let file =
        send(server.address, &[one], &form(&[("purpose", "batch")], Some(&lines(&["abc".to_owned()]))))
            .good();
    let file = file["id"].as_str().unwrap();
    let body = json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "24h" }).to_string();
    let refused = post_with(server.address, "/v1/batches", &[two], &body);
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("input_file_id")));
    let batch = post_with(server.address, "/v1/batches", &[one], &body).good();
    let batch = batch["id"].as_str().unwrap();
    for (method, path) in [
        ("GET", format!("/v1/files/{file}")),
        ("GET", format!("/v1/files/{file}/content")),
        ("DELETE", format!("/v1/files/{file}")),
        ("GET", format!("/v1/batches/{batch}")),
        ("POST", format!("/v1/batches/{batch}/cancel")),
        ("GET", "/v1/files/..%2f..%2fbatches%2flock/content".to_owned()),
    ] {
        assert_eq!(as_client(two, method, &path).status, 404, "{method} {path}");
    }
    for path in ["/v1/files", "/v1/batches"] {
        assert_eq!(as_client(two, "GET", path).good()["data"], json!([]));
        // The results of a batch that has ended are files too.
        assert!(!as_client(one, "GET", path).good()["data"].as_array().unwrap().is_empty());
    }
}

#[test]
fn what_is_not_a_file_for_a_batch_is_refused_by_name() {
    let folder = Folder::new("forms");
    let server = start(&folder.0, &model());
    let batch = ("purpose", "batch");
    for (form, field) in [
        (form(&[("purpose", "vision")], Some("x")), "purpose"),
        (form(&[], Some("x")), "purpose"),
        (form(&[batch], None), "file"),
        (form(&[batch, ("expires_after[anchor]", "created_at")], Some("x")), "expires_after[anchor]"),
    ] {
        let refused = send(server.address, &[], &form);
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(field)), "{form}");
    }
    let large = send(server.address, &[], &form(&[batch], Some(&"x".repeat(1 << 21))));
    assert_eq!((large.status, &large.error()["param"]), (413, &json!("file")));
    assert_eq!(post(server.address, "/v1/files", &json!({})).status, 400);
    // Nothing of them is left.
    let left = std::fs::read_dir(folder.0.join("files")).unwrap().count();
    assert_eq!(left, 0);
    let file = upload(server.address, "x");
    let request = |more: Value| {
        let mut body = json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "24h" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(server.address, "/v1/batches", &body)
    };
    for (more, field) in [
        (json!({ "endpoint": "/v1/moderations" }), "endpoint"),
        (json!({ "completion_window": "1h" }), "completion_window"),
        (json!({ "input_file_id": "file-x" }), "input_file_id"),
        (json!({ "output_expires_after": {} }), "output_expires_after"),
        (json!({ "metadata": 1 }), "metadata"),
    ] {
        let refused = request(more.clone());
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(field)), "{more}");
    }
    let without = Running::new(vec![served("m", &model(), 2)]);
    let refused = get(without.address, "/v1/files");
    assert_eq!((refused.status, &refused.error()["code"]), (404, &json!("batches_disabled")));
    assert!(refused.error()["message"].as_str().unwrap().contains("--batch-dir"));
}

/// Lines wait for their models, also if these do not fit into memory together.
#[test]
fn the_lines_of_a_batch_open_their_models() {
    let (folder, shelf) = (Folder::new("models"), Shelf::of(&["a", "b"]));
    let server = Running::with_library(&shelf, |options| {
        options.batch_dir = Some(folder.0.clone());
        options.memory = Some(BYTES + BYTES / 2);
        options.queue = 0;
    });
    let line = |model: &str| {
        lines(&["ab".to_owned()])
            .replace("\"n0\"", &format!("\"{model}\""))
            .replace("\"m\"", &format!("\"{model}\""))
    };
    let file = upload(server.address, &(line("a") + &line("b") + &line("c")));
    let batch = ended(server.address, &create(server.address, &file, CHAT));
    assert_eq!(batch["status"], "completed", "{batch}");
    let counts = &batch["request_counts"];
    assert_eq!((&counts["completed"], &counts["failed"]), (&json!(2), &json!(1)));
    let failed = content(server.address, &batch["error_file_id"]);
    assert_eq!((&failed[0]["custom_id"], &failed[0]["response"]["status_code"]), (&json!("c"), &json!(404)));
    let opened = shelf.opened();
    assert!(["a", "b"].iter().all(|name| opened.iter().any(|one| one == name)), "{opened:?}");
}
