//! Spans of requests at a collector, which is a small HTTP server here.

use crate::client::{post, post_with};
use crate::fake::{model, served};
use crate::running::Running;
use menagerie_server::OtlpExport;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Takes bodies of requests, and answers them.
struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                let (mut length, mut path) = (0, String::new());
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                        break;
                    }
                    if path.is_empty() {
                        path.clone_from(&line);
                    }
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                }
                assert!(path.starts_with("POST /v1/traces "), "{path}");
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                kept.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
                let _ = write!(reader.get_mut(), "{answer}content-length: 2\r\n\r\n{{}}");
            }
        });
        Self { address, bodies }
    }

    /// All spans so far.
    fn spans(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        for body in &*self.bodies.lock().unwrap() {
            for resource in body["resourceSpans"].as_array().unwrap() {
                let named = json!({ "key": "service.name", "value": { "stringValue": "menagerie" } });
                assert!(
                    resource["resource"]["attributes"].as_array().unwrap().contains(&named),
                    "{resource}"
                );
                for scope in resource["scopeSpans"].as_array().unwrap() {
                    spans.extend(scope["spans"].as_array().unwrap().clone());
                }
            }
        }
        spans
    }
}

fn attribute<'v>(span: &'v Value, key: &str) -> &'v Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("{key}: {span}"));
    found["value"].as_object().unwrap().values().next().unwrap()
}

fn number(value: &Value) -> u128 {
    value.as_str().map_or_else(|| value.as_u64().map(u128::from), |text| text.parse().ok()).unwrap()
}

#[test]
fn a_request_is_a_span_with_the_parts_of_its_answer() {
    let collector = Collector::start();
    let export =
        Arc::new(OtlpExport::start(&format!("http://{}", collector.address), Arc::new(|_| {})).unwrap());
    let observer = Arc::clone(&export);
    let mut server = Running::with(vec![served("m", &model(), 2)], move |options| {
        options.observer = Some(observer as _);
    });
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "abc" }] });
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", parent.as_str()), ("x-request-id", "mine")];
    let reply = post_with(server.address, "/v1/chat/completions", &headers, &body.to_string());
    let usage = reply.good()["usage"].clone();
    let answered = reply.headers["traceparent"].clone();
    assert!(answered.starts_with(&format!("00-{TRACE}-")) && answered.ends_with("-01"), "{answered}");
    // A client without a span begins a trace.
    let stream = json!({ "model": "m", "messages": body["messages"], "stream": true });
    let other = post(server.address, "/v1/chat/completions", &stream).headers["traceparent"].clone();
    assert!(!other.contains(TRACE), "{other}");
    server.join();
    export.finish();
    let spans = collector.spans();
    let own: Vec<&Value> = spans.iter().filter(|span| span["traceId"] == TRACE).collect();
    let named = |name: &str| {
        *own.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {own:?}"))
    };
    let request = named("POST /v1/chat/completions");
    assert_eq!((&request["parentSpanId"], own.len()), (&json!(PARENT), 4));
    assert!(answered.contains(request["spanId"].as_str().unwrap()));
    assert_eq!(attribute(request, "menagerie.request.id"), "mine");
    assert_eq!(number(attribute(request, "http.response.status_code")), 200);
    let (queue, prompt, generation) = (named("queue"), named("prompt"), named("generation"));
    let counts = [
        (prompt, "gen_ai.usage.input_tokens", "prompt_tokens"),
        (generation, "gen_ai.usage.output_tokens", "completion_tokens"),
    ];
    for (span, key, name) in counts {
        assert_eq!(number(attribute(span, key)), number(&usage[name]), "{span}");
    }
    let time = |span: &Value, name: &str| number(&span[name]);
    let mut last = time(request, "startTimeUnixNano");
    for span in [queue, prompt, generation] {
        assert_eq!(span["parentSpanId"], request["spanId"]);
        assert_eq!(attribute(span, "gen_ai.request.model"), "m");
        assert!(last <= time(span, "startTimeUnixNano"), "{span}");
        last = time(span, "endTimeUnixNano");
    }
    assert!(last <= time(request, "endTimeUnixNano"));
    assert_eq!(spans.len(), 8, "{spans:?}");
}

/// Nobody answers at the address: requests are answered, and the log says once that spans are lost.
#[test]
fn a_collector_that_is_gone_delays_nothing() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&said);
    let log = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let export = Arc::new(OtlpExport::start(&format!("http://{gone}"), log).unwrap());
    let observer = Arc::clone(&export);
    let mut server = Running::with(vec![served("m", &model(), 2)], move |options| {
        options.observer = Some(observer as _);
    });
    let start = Instant::now();
    for _ in 0..20 {
        let body = json!({ "model": "m", "prompt": "a", "max_tokens": 2 });
        post(server.address, "/v1/completions", &body).good();
    }
    assert!(start.elapsed() < Duration::from_secs(20));
    server.join();
    export.finish();
    let said = said.lock().unwrap();
    assert!(said.len() == 1 && said[0].contains("spans are lost"), "{said:?}");
    for wrong in ["collector:4318", "ftp://a", "http://"] {
        assert!(OtlpExport::start(wrong, Arc::new(|_| {})).is_err(), "{wrong}");
    }
}
