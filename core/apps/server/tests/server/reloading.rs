//! Files are read again while the server runs.

use crate::client::{get, post_with};
use crate::fake::{model, served};
use crate::running::Running;
use crate::shelf::Shelf;
use menagerie_server::{ApiKeys, LibraryChange};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn status(server: &Running, model: &str, key: &str) -> u16 {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": "ab" }] });
    post_with(server.address, CHAT, &[("x-api-key", key)], &body.to_string()).status
}

fn reload(server: &Running, key: &str) -> (u16, Value) {
    let reply = post_with(server.address, "/admin/reload", &[("x-api-key", key)], "");
    (reply.status, reply.json())
}

#[test]
fn models_that_come_go_and_change_are_reported() {
    let shelf = Shelf::of(&["a", "b", "c"]);
    let server = Running::with_library(&shelf, |_| {});
    assert_eq!(["a", "b", "c"].map(|name| status(&server, name, "")), [200; 3]);
    {
        let mut models = shelf.models.lock().unwrap();
        models.remove("a");
        models.insert("b".to_owned(), 2);
        models.insert("d".to_owned(), 1);
    }
    *shelf.change.lock().unwrap() =
        LibraryChange::new(vec!["llama".to_owned()], vec!["p".to_owned()]).with_models(vec!["c".to_owned()]);
    let (code, change) = reload(&server, "");
    let models = json!({ "added": ["d"], "removed": ["a"], "changed": ["b", "c"] });
    let wanted =
        json!({ "models": models, "specs": ["llama"], "plugins": ["p"], "keys": null, "tls": false });
    assert_eq!((code, change), (200, wanted));
    assert_eq!(["a", "b", "c", "d"].map(|name| status(&server, name, "")), [404, 200, 200, 200]);
    let mut opened = shelf.opened();
    opened.sort();
    assert_eq!(opened, ["a", "b", "b", "c", "c", "d"]);
    *shelf.fault.lock().unwrap() = Some("x.toml:3:1: no".to_owned());
    let (code, fault) = reload(&server, "");
    assert_eq!((code, &fault["error"]["code"]), (500, &json!("reload_failed")));
    assert!(fault["error"]["message"].as_str().unwrap().contains("x.toml:3:1"), "{fault}");
    assert_eq!(status(&server, "b", ""), 200);
}

#[test]
fn keys_change_and_a_file_without_keys_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.txt");
    std::fs::write(&file, "first\nsecond\n").unwrap();
    let server = Running::with(vec![served("m", &model(), 2)], |options| {
        options.keys = ApiKeys::parse("first\nsecond\n");
        options.key_file = Some(file.clone());
    });
    assert_eq!((reload(&server, "nobody").0, reload(&server, "first").0), (401, 200));
    std::fs::write(&file, "second\nthird\n").unwrap();
    assert_eq!(reload(&server, "first").1["keys"], json!({ "added": 1, "removed": 1 }));
    assert_eq!(["first", "second", "third"].map(|key| status(&server, "m", key)), [401, 200, 200]);
    std::fs::write(&file, "# nobody\n").unwrap();
    let (code, fault) = reload(&server, "third");
    assert!(code == 500 && fault["error"]["message"].as_str().unwrap().contains("keys.txt"), "{fault}");
    assert_eq!(status(&server, "m", "third"), 200);
}

#[test]
fn a_flag_reloads_too_and_the_log_says_what_changed() {
    let shelf = Shelf::of(&["a"]);
    let server = Running::with_library(&shelf, |_| {});
    shelf.models.lock().unwrap().insert("z".to_owned(), 1);
    server.reload();
    for _ in 0..2000 {
        if server
            .log
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains("\"reloaded\"") && line.contains("\"z\""))
        {
            assert_eq!(get(server.address, "/v1/models/z").status, 200);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{:?}", server.log);
}
