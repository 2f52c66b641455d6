//! The page: its files, and the routes that it uses.

use crate::client::{get, open, post, post_with, read};
use crate::fake::{CONTEXT, model, served};
use crate::running::Running;
use menagerie_server::ApiKeys;
use serde_json::{Value, json};

#[test]
fn files_have_strict_headers_and_need_no_key() {
    let server =
        Running::with(vec![served("m", &model(), 2)], |options| options.keys = ApiKeys::parse("key"));
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ] {
        let reply = get(server.address, path);
        assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, kind), "{path}");
        let policy = &reply.headers["content-security-policy"];
        for rule in
            ["default-src 'self'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"]
        {
            assert!(policy.split("; ").any(|known| known == rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        assert_eq!(reply.headers["referrer-policy"], "no-referrer");
        let tag = reply.headers["etag"].as_str();
        for known in [tag.to_owned(), format!("\"other\", W/{tag}")] {
            let again = read(open(server.address, "GET", path, &[("if-none-match", &known)], ""));
            assert_eq!((again.status, again.body.as_str(), again.headers["etag"].as_str()), (304, "", tag));
        }
        let changed = read(open(server.address, "GET", path, &[("if-none-match", "\"other\"")], ""));
        assert_eq!((changed.status, changed.body == reply.body), (200, true));
    }
    assert!(get(server.address, "/").body.contains("<script type=\"module\" src=\"/page/page.js\">"));
    // Everything else needs the key.
    for path in ["/page/state", "/page/architectures", "/page/none.js"] {
        assert_eq!(get(server.address, path).status, 401, "{path}");
    }
    let with_key = read(open(server.address, "GET", "/page/none.js", &[("x-api-key", "key")], ""));
    assert_eq!((with_key.status, &with_key.error()["code"]), (404, &json!("unknown_route")));
}

#[test]
fn the_page_knows_the_models_and_their_defaults() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let state = get(server.address, "/page/state").good();
    let entry = &state["models"][0];
    assert_eq!(
        (&entry["id"], &entry["chat"], &entry["context"]),
        (&json!("m"), &json!(true), &json!(CONTEXT))
    );
    assert_eq!((&entry["architecture"], &entry["embeddings"]), (&Value::Null, &json!(false)));
    // Every default is the name of a field that a request may have.
    let mut body = entry["defaults"].clone();
    assert_eq!(body["temperature"], 0.0);
    body["messages"] = json!([{ "role": "user", "content": "abc" }]);
    let answer = post(server.address, "/v1/chat/completions", &body).good();
    assert_eq!(answer["choices"][0]["message"]["content"], "cba");
    // A fake model has no file.
    assert_eq!(get(server.address, "/page/tensors/m").status, 404);
    assert_eq!(get(server.address, "/page/tensors/x").error()["code"], "model_not_found");
}

#[test]
fn markdown_is_safe_and_bounded() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let render = |text: &str| post(server.address, "/page/markdown", &json!({ "text": text }));
    let html = render("**a** <script>alert(1)</script> ![x](https://a.example/b.png)").good()["html"].clone();
    let html = html.as_str().unwrap();
    assert!(html.contains("<strong>a</strong> &lt;script&gt;") && !html.contains("<img"), "{html}");
    assert_eq!(render(&"a".repeat(300 << 10)).status, 413);
    assert_eq!(post(server.address, "/page/markdown", &json!({ "text": 1 })).error()["param"], "text");
    let more = post(server.address, "/page/markdown", &json!({ "text": "a", "unsafe": true }));
    assert_eq!((more.status, &more.error()["param"]), (400, &json!("unsafe")));
}

#[test]
fn faults_of_a_spec_have_their_places() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let check = |text: &str| post(server.address, "/specs/check", &json!({ "text": text }));
    let llama = get(server.address, "/page/architectures/llama").good();
    let text = llama["text"].as_str().unwrap();
    let good = check(text).good();
    assert_eq!((&good["good"], &good["faults"], &good["id"]), (&json!(true), &json!([]), &json!("llama")));
    assert_eq!(good["outline"]["branches"][0]["name"], "mixer");
    let line = text.lines().position(|line| line.starts_with("norm")).unwrap();
    let broken = text.replacen("\nnorm", "\nnorn", 1);
    let faulty = check(&broken).good();
    assert_eq!(faulty["good"], false);
    let faults = faulty["faults"].as_array().unwrap();
    let fault = faults.iter().find(|fault| fault["message"].as_str().unwrap().contains("norm")).unwrap();
    assert_eq!((&fault["line"], &fault["file"]), (&json!(line + 1), &json!("spec.toml")), "{faults:?}");
    assert!(fault["column"].is_u64());
    // What is not TOML has a place too, and a variation is checked with its base.
    assert!(check("a = [").good()["faults"][0]["line"].is_u64());
    let child = "schema = 1\nextends = \"llama\"\n[architecture]\nid = \"mine\"\n";
    assert_eq!(check(child).good()["good"], true, "{}", check(child).body);
    let unknown = check(&child.replace("llama", "lama")).good();
    assert!(unknown["faults"][0]["message"].as_str().unwrap().contains("llama"), "{unknown}");
    assert_eq!(check(&"a".repeat(300 << 10)).status, 413);
}

#[test]
fn architectures_are_listed_described_and_compared() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let all = get(server.address, "/page/architectures").good();
    let all = all["architectures"].as_array().unwrap();
    let llama = all.iter().find(|entry| entry["id"] == "llama").unwrap();
    assert_eq!((&llama["family"], &llama["error"]), (&json!("llama"), &Value::Null));
    assert!(all.len() > 50 && llama["parts"].as_array().unwrap().iter().any(|part| part == "attention"));
    let qwen = get(server.address, "/page/architectures/qwen3").good();
    assert!(
        qwen["merged"].as_str().unwrap().contains("id = \"qwen3\"") && qwen["outline"]["output"].is_array()
    );
    let compared = get(server.address, "/page/differences/llama/qwen3").good();
    assert!(!compared["differences"].as_array().unwrap().is_empty());
    let same = get(server.address, "/page/differences/llama/llama").good();
    assert_eq!(same["differences"], json!([]));
    let missing = get(server.address, "/page/architectures/none");
    assert_eq!((missing.status, &missing.error()["code"]), (404, &json!("unknown_architecture")));
}

/// A page whose name was rebound to this machine is refused, and the page of the server itself is not.
#[test]
fn only_own_names_and_the_own_page_are_answered() {
    let body = json!({ "prompt": "a", "max_tokens": 1 }).to_string();
    let server = Running::with(vec![served("m", &model(), 2)], |options| {
        options.hosts = vec!["models.example".to_owned()];
    });
    let own = server.address.to_string();
    let send = |host: &str, origin: Option<&str>| {
        let mut headers = vec![("host", host)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        raw(server.address, &headers, &body)
    };
    let page = format!("http://{own}");
    assert_eq!(send(&own, Some(&page)), (200, String::new()));
    assert_eq!(send("models.example", Some("http://models.example")), (200, String::new()));
    assert_eq!(send("evil.example", None), (403, "host_not_allowed".to_owned()));
    assert_eq!(send("evil.example:80", Some("http://evil.example:80")), (403, "host_not_allowed".to_owned()));
    assert_eq!(send(&own, Some("http://evil.example")), (403, "origin_not_allowed".to_owned()));
    assert_eq!(send(&own, Some("http://127.0.0.1:1")), (403, "origin_not_allowed".to_owned()));
    // No browser: no name.
    let reply = post_with(server.address, "/v1/completions", &[], &body);
    assert_eq!(reply.status, 200);
}

/// Status and code of the answer to a request with only these headers.
fn raw(address: std::net::SocketAddr, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let mut head =
        format!("POST /v1/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let reply = read(stream);
    let code = reply.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
    (reply.status, code)
}

/// The answer goes on where the last message ends; the answer of a fake model depends on the message before it.
#[test]
fn an_answer_can_continue_a_message() {
    let server = Running::new(vec![served("m", &model(), 2)]);
    let messages = json!([{ "role": "user", "content": "abcd" }, { "role": "assistant", "content": "dc" }]);
    let body =
        json!({ "messages": messages, "continue_final_message": true, "add_generation_prompt": false });
    let answer = post(server.address, "/v1/chat/completions", &body).good();
    assert_eq!(answer["choices"][0]["message"]["content"], "ba");
    let prompt = post(server.address, "/apply-template", &body).good();
    assert_eq!(prompt, json!({ "prompt": "U:abcd;A:dc" }));
    let mut shown = body.clone();
    shown["with_pieces"] = true.into();
    let shown = post(server.address, "/apply-template", &shown).good();
    let pieces = shown["tokens"].as_array().unwrap().iter().map(|token| token["piece"].as_str().unwrap());
    assert_eq!(pieces.collect::<String>(), "U:abcd;A:dc");
    assert_eq!(shown["tokens"][0], json!({ "id": 85, "piece": "U", "control": false }));
    for more in [
        json!({ "add_generation_prompt": true }),
        json!({ "continue_final_message": 1 }),
        json!({ "response_format": { "type": "json_object" } }),
    ] {
        let mut wrong = body.clone();
        wrong.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = post(server.address, "/v1/chat/completions", &wrong);
        assert_eq!(
            (reply.status, &reply.error()["param"]),
            (400, &json!("continue_final_message")),
            "{more}"
        );
    }
}
