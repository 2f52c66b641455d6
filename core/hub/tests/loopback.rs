//! A hub on loopback: what is asked for is fetched, cached, found again offline, and refused when its bytes are wrong.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_hub::{Environment, Hub, HubError, ModelReference, Silent, Verdict, store};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// SHA-256 of `hello`, from `printf hello | sha256sum`.
const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

type Files = BTreeMap<String, (Vec<u8>, String)>;

fn serve(files: Files) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let files = Arc::new(files);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = Arc::clone(&files);
            std::thread::spawn(move || answer(stream, &files));
        }
    });
    address
}

fn answer(mut stream: TcpStream, files: &Files) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut range = None;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (from, to) =
                    value.trim().split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
                range = Some((from.parse::<usize>().unwrap(), to.parse::<usize>().ok()));
            }
        }
        let path = request.split(' ').nth(1).unwrap().to_owned();
        stream.write_all(&respond(&path, range, files)).unwrap();
    }
}

fn respond(path: &str, range: Option<(usize, Option<usize>)>, files: &Files) -> Vec<u8> {
    if path.starts_with("/api/models/org/repo") {
        let names: Vec<String> = files.keys().map(|name| format!("{{\"rfilename\":\"{name}\"}}")).collect();
        let body = format!("{{\"siblings\":[{}],\"sha\":\"c0ffee\"}}", names.join(","));
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        return [head.into_bytes(), body.into_bytes()].concat();
    }
    let Some((bytes, etag)) = path.strip_prefix("/org/repo/resolve/main/").and_then(|name| files.get(name))
    else {
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec();
    };
    let (from, to) = range.unwrap_or((0, None));
    let end = to.map_or(bytes.len(), |to| (to + 1).min(bytes.len()));
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nx-repo-commit: c0ffee\r\netag: \"{etag}\"\r\ncontent-range: bytes {from}-{}/{}\r\ncontent-length: {}\r\n\r\n",
        end.saturating_sub(1),
        bytes.len(),
        end - from
    );
    [head.into_bytes(), bytes[from..end].to_vec()].concat()
}

fn environment(folder: &Path, endpoint: &str) -> Environment {
    Environment {
        endpoint: endpoint.to_owned(),
        hub_cache: folder.join("hub"),
        models: folder.join("models"),
        token: None,
        offline: false,
    }
}

fn files(etag: &str) -> Files {
    let mut files = Files::new();
    files.insert("README.md".to_owned(), (b"readme".to_vec(), "etag-readme".to_owned()));
    files.insert("m-Q4_K_M.gguf".to_owned(), (b"hello".to_vec(), etag.to_owned()));
    files
}

#[test]
fn pulls_verifies_lists_and_removes() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = serve(files(HELLO_SHA256));
    let hub = Hub::new(environment(folder.path(), &endpoint));
    let reference = ModelReference::parse("org/repo").unwrap();
    assert_eq!(hub.locate(&reference).unwrap(), None);

    let path = hub.pull(&reference, &mut Silent).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"hello");
    assert!(path.starts_with(folder.path().join("hub/models--org--repo/snapshots/c0ffee")));

    let offline = Hub::new(Environment { offline: true, ..environment(folder.path(), "http://127.0.0.1:1") });
    assert_eq!(offline.pull(&reference, &mut Silent).unwrap(), path);

    let model = hub.find("hf:org/repo/m-Q4_K_M.gguf").unwrap();
    assert_eq!(store::verify(&model, &mut Silent).unwrap(), Verdict::Good);
    std::fs::write(&path, b"other").unwrap();
    assert!(matches!(store::verify(&model, &mut Silent).unwrap(), Verdict::Bad(_)));
    store::remove(&model).unwrap();
    assert!(hub.installed().is_empty());
}

#[test]
fn other_bytes_than_promised_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = serve(files(&HELLO_SHA256.replace('2', "3")));
    let hub = Hub::new(environment(folder.path(), &endpoint));
    let error = hub.pull(&ModelReference::parse("org/repo").unwrap(), &mut Silent).unwrap_err();
    assert!(matches!(error, HubError::Checksum { .. }), "{error}");
}

#[test]
fn errors_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = serve(files(HELLO_SHA256));
    let hub = Hub::new(environment(folder.path(), &endpoint));
    let pull =
        |text: &str| hub.pull(&ModelReference::parse(text).unwrap(), &mut Silent).unwrap_err().to_string();
    assert!(pull("org/repo:Q8_0").contains("it has: m-Q4_K_M.gguf"));
    assert!(pull("org/other").contains("check the name"), "{}", pull("org/other"));
    let offline = Hub::new(Environment { offline: true, ..environment(folder.path(), &endpoint) });
    let error = offline.pull(&ModelReference::parse("org/repo").unwrap(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("HF_HUB_OFFLINE"), "{error}");
    assert!(hub.find("nothing").unwrap_err().to_string().contains("no models are installed"));
}
