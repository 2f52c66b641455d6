//! A hub on loopback that can misbehave.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Commit of every repository here until told otherwise.
pub const COMMIT: &str = "c0ffee0000000000000000000000000000000001";

/// A file and the ETag it has.
#[derive(Clone)]
pub struct Remote {
    pub bytes: Vec<u8>,
    pub etag: String,
}

/// What happens to the next request for bytes.
#[derive(Clone)]
pub enum Mishap {
    /// The connection closes after so many bytes.
    Cut(usize),
    /// Silence after so many bytes.
    Stall(usize),
    /// One byte, then a wait, then the rest.
    Slow(Duration),
    /// The range is not heeded: everything comes.
    NoRange,
    /// Head and body as given.
    Answer(String),
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub range: Option<String>,
    pub authorized: bool,
}

#[derive(Default)]
struct Shared {
    files: BTreeMap<String, Remote>,
    commit: String,
    mishaps: VecDeque<Mishap>,
    /// Answers to requests for a list of files or a description, first come first served.
    answers: VecDeque<String>,
    content_server: Option<String>,
    no_length: bool,
    requests: Vec<Request>,
}

/// A hub with one repository, `org/repo`.
#[derive(Clone)]
pub struct HubServer {
    pub address: String,
    shared: Arc<Mutex<Shared>>,
}

impl HubServer {
    /// With these files: name, bytes, ETag.
    pub fn start(files: &[(&str, &[u8], &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { address, shared: Arc::default() };
        server.publish(COMMIT, files);
        let own = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                std::thread::spawn(move || own.serve(stream));
            }
        });
        server
    }

    /// Replaces the files.
    pub fn publish(&self, commit: &str, files: &[(&str, &[u8], &str)]) {
        let mut shared = self.shared.lock().unwrap();
        shared.commit = commit.to_owned();
        shared.files = files
            .iter()
            .map(|(name, bytes, etag)| {
                ((*name).to_owned(), Remote { bytes: bytes.to_vec(), etag: (*etag).to_owned() })
            })
            .collect();
    }

    pub fn mishap(&self, mishap: Mishap) {
        self.shared.lock().unwrap().mishaps.push_back(mishap);
    }

    pub fn answer(&self, answer: impl Into<String>) {
        self.shared.lock().unwrap().answers.push_back(answer.into());
    }

    /// Bytes come from another server, as on the real hub.
    pub fn bytes_from(&self, server: &HubServer) {
        self.shared.lock().unwrap().content_server = Some(server.address.clone());
    }

    /// Descriptions say no length.
    pub fn without_lengths(&self) {
        self.shared.lock().unwrap().no_length = true;
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().unwrap().requests.clone()
    }

    /// Requests for bytes.
    pub fn transfers(&self) -> Vec<Request> {
        self.requests()
            .into_iter()
            .filter(|request| request.method == "GET" && !request.path.starts_with("/api/"))
            .collect()
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let Some(request) = read_request(&mut reader) else {
                // Not HTTP, or the end of the connection.
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
                return;
            };
            self.shared.lock().unwrap().requests.push(request.clone());
            if !self.respond(&request, &mut stream) {
                return;
            }
        }
    }

    /// Answers; false closes the connection.
    fn respond(&self, request: &Request, stream: &mut TcpStream) -> bool {
        let mut shared = self.shared.lock().unwrap();
        let transfer = request.method == "GET" && !request.path.starts_with("/api/");
        if !transfer && let Some(answer) = shared.answers.pop_front() {
            return stream.write_all(answer.as_bytes()).is_ok();
        }
        if let Some(revision) = request.path.strip_prefix("/api/models/org/repo/revision/") {
            let answer = listing(&shared, revision);
            return stream.write_all(answer.as_bytes()).is_ok();
        }
        let (place, content) = match request.path.strip_prefix("/content/") {
            Some(name) => (Some(name), true),
            None => {
                let rest = request.path.strip_prefix("/org/repo/resolve/");
                let rest = rest.and_then(|rest| rest.split_once('/'));
                (rest.filter(|(commit, _)| *commit == shared.commit).map(|(_, name)| name), false)
            }
        };
        let Some((name, file)) = place.and_then(|name| Some((name, shared.files.get(name)?.clone()))) else {
            let code = if request.path.contains("/org/repo/") { "EntryNotFound" } else { "RepoNotFound" };
            let answer =
                format!("HTTP/1.1 404 Not Found\r\nx-error-code: {code}\r\ncontent-length: 0\r\n\r\n");
            return stream.write_all(answer.as_bytes()).is_ok();
        };
        if !content && let Some(server) = &shared.content_server {
            let size = file.bytes.len();
            let answer = format!(
                "HTTP/1.1 302 Found\r\nlocation: {server}/content/{name}\r\nx-linked-etag: \"{}\"\r\nx-linked-size: {size}\r\netag: \"of-the-redirect\"\r\nx-repo-commit: {}\r\ncontent-length: 0\r\n\r\n",
                file.etag, shared.commit
            );
            return stream.write_all(answer.as_bytes()).is_ok();
        }
        if request.method == "HEAD" {
            let length = if shared.no_length {
                String::new()
            } else {
                format!("content-length: {}\r\n", file.bytes.len())
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nx-repo-commit: {}\r\netag: \"{}\"\r\n{length}\r\n",
                shared.commit, file.etag
            );
            return stream.write_all(answer.as_bytes()).is_ok();
        }
        let mishap = shared.mishaps.pop_front();
        drop(shared);
        send(stream, &file.bytes, request.range.as_deref(), mishap)
    }
}

fn listing(shared: &Shared, revision: &str) -> String {
    if revision != "main" && revision != shared.commit {
        return "HTTP/1.1 404 Not Found\r\nx-error-code: RevisionNotFound\r\ncontent-length: 0\r\n\r\n"
            .to_owned();
    }
    let escape = |name: &String| format!("{{\"rfilename\":\"{}\"}}", name.replace('\\', "\\\\"));
    let names: Vec<String> = shared.files.keys().map(escape).collect();
    json(&format!("{{\"siblings\":[{}],\"sha\":\"{}\"}}", names.join(","), shared.commit))
}

/// An answer with a JSON body.
pub fn json(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut request = Request { method, path, range: None, authorized: false };
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            return Some(request);
        }
        request.authorized |= header.starts_with("authorization:");
        if let Some(range) = header.strip_prefix("range: ") {
            request.range = Some(range.to_owned());
        }
    }
}

fn send(stream: &mut TcpStream, bytes: &[u8], range: Option<&str>, mishap: Option<Mishap>) -> bool {
    let range = range.filter(|_| !matches!(mishap, Some(Mishap::NoRange)));
    let from = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let total = bytes.len();
    let (head, body) = match from {
        Some(from) if from >= total => {
            let head = format!(
                "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-range: bytes */{total}\r\ncontent-length: 0\r\n\r\n"
            );
            (head, &bytes[total..])
        }
        Some(from) => {
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {from}-{}/{total}\r\ncontent-length: {}\r\n\r\n",
                total - 1,
                total - from
            );
            (head, &bytes[from..])
        }
        None => (format!("HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n"), bytes),
    };
    let all = |stream: &mut TcpStream, body: &[u8]| {
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_ok()
    };
    match mishap {
        None | Some(Mishap::NoRange) => all(stream, body),
        Some(Mishap::Answer(answer)) => stream.write_all(answer.as_bytes()).is_ok(),
        Some(Mishap::Cut(after)) => {
            all(stream, &body[..after.min(body.len())]);
            false
        }
        Some(Mishap::Stall(after)) => {
            all(stream, &body[..after.min(body.len())]);
            std::thread::sleep(Duration::from_secs(60));
            false
        }
        Some(Mishap::Slow(wait)) => {
            all(stream, &body[..1]);
            std::thread::sleep(wait);
            stream.write_all(&body[1..]).is_ok()
        }
    }
}
