//! A client: HTTP by hand over a socket.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Names in small letters.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a success.
    pub fn good(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The error in the body, which has all keys.
    pub fn error(&self) -> Value {
        let error = self.json()["error"].clone();
        for key in ["message", "type", "param", "code"] {
            assert!(error.get(key).is_some(), "{key} is missing: {self:?}");
        }
        assert!(!error["message"].as_str().unwrap().is_empty());
        error
    }

    /// The data of all events of a stream; the last one is `[DONE]`, which is left out.
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(
            (self.status, self.headers["content-type"].as_str()),
            (200, "text/event-stream"),
            "{self:?}"
        );
        let mut data: Vec<&str> =
            self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{self:?}");
        data.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

/// The events of a stream in which each has a name, with their data.
pub fn named_events(reply: &Reply) -> Vec<(String, Value)> {
    assert_eq!(
        (reply.status, reply.headers["content-type"].as_str()),
        (200, "text/event-stream"),
        "{reply:?}"
    );
    let event = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap_or_else(|| panic!("{event}"));
        let name = name.strip_prefix("event: ").unwrap_or_else(|| panic!("{event}")).to_owned();
        (name, serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap())
    };
    reply.body.split_terminator("\n\n").map(event).collect()
}

/// The lines of a stream of JSON.
pub fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(
        (reply.status, reply.headers["content-type"].as_str()),
        (200, "application/x-ndjson"),
        "{reply:?}"
    );
    reply
        .body
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Connects, and sends the head and the body of a request.
pub fn open(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses a request does not read its body.
    let _ = stream.write_all(body.as_bytes());
    stream
}

/// Reads an answer to its end.
pub fn read(stream: TcpStream) -> Reply {
    read_from(stream)
}

/// [`read`] of any connection.
pub fn read_from(mut stream: impl Read) -> Reply {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        panic!("no answer ({end:?}): {:?}", String::from_utf8_lossy(&bytes));
    };
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_lowercase(), value.trim().to_owned())
    };
    let headers: BTreeMap<String, String> = lines.map(header).collect();
    let body = bytes[at + 4..].to_vec();
    let body = match headers.get("transfer-encoding").map(String::as_str) {
        Some("chunked") => unchunked(&body),
        _ => body,
    };
    Reply { status, headers, body: String::from_utf8(body).unwrap() }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(at) = body.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&body[at + 2..at + 2 + size]);
        body = &body[at + 2 + size + 2..];
    }
    whole
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    read(open(address, "GET", path, &[], ""))
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    post_with(address, path, &[], &body.to_string())
}

pub fn post_with(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    read(open(address, "POST", path, headers, body))
}
