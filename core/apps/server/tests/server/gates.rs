//! Keys and web pages.

use crate::client::{get, open, post_with, read};
use crate::fake::{model, served};
use crate::running::Running;
use menagerie_server::{ApiKeys, ServerError, ServerOptions, ServerSocket};
use serde_json::json;

#[test]
fn keys_are_needed_where_there_are_any() {
    let server = Running::with(vec![served("m", &model(), 2)], |options| {
        options.keys = ApiKeys::parse("first\nsecond\n");
    });
    let body = json!({ "prompt": "a", "max_tokens": 1 }).to_string();
    let with = |headers: &[(&str, &str)]| post_with(server.address, "/v1/completions", headers, &body);
    for headers in [
        &[][..],
        &[("authorization", "Bearer wrong")],
        &[("authorization", "Basic first")],
        &[("authorization", "first")],
        &[("x-api-key", "")],
    ] {
        let reply = with(headers);
        assert_eq!((reply.status, &reply.error()["code"]), (401, &json!("invalid_api_key")), "{headers:?}");
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
    }
    for headers in
        [[("authorization", "Bearer first")], [("Authorization", "bearer second")], [("x-api-key", "second")]]
    {
        assert_eq!(with(&headers).status, 200, "{headers:?}");
    }
    assert_eq!((get(server.address, "/health").status, get(server.address, "/metrics").status), (200, 401));
    assert_eq!(get(server.address, "/v1/models").status, 401);
    let keys: Vec<String> =
        server.log.lock().unwrap().iter().filter(|line| line.contains("\"key\":2")).cloned().collect();
    assert_eq!(keys.len(), 2);
    assert!(server.log.lock().unwrap().iter().all(|line| !line.contains("second")));
}

#[test]
fn pages_of_others_are_refused_unless_they_are_allowed() {
    let body = json!({ "prompt": "a", "max_tokens": 1 }).to_string();
    let page = ("origin", "http://page.example");
    let server = Running::new(vec![served("m", &model(), 2)]);
    let reply = post_with(server.address, "/v1/completions", &[page], &body);
    assert_eq!((reply.status, &reply.error()["code"]), (403, &json!("origin_not_allowed")));
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
    let server = Running::with(vec![served("m", &model(), 2)], |options| {
        options.origins = vec!["http://page.example".to_owned()];
        options.keys = ApiKeys::parse("key");
    });
    let reply = post_with(server.address, "/v1/completions", &[page, ("x-api-key", "key")], &body);
    assert_eq!((reply.status, reply.headers["access-control-allow-origin"].as_str()), (200, page.1));
    // The question before it has no key.
    let asks =
        [page, ("access-control-request-method", "POST"), ("access-control-request-headers", "x-api-key")];
    let reply = read(open(server.address, "OPTIONS", "/v1/completions", &asks, ""));
    assert_eq!((reply.status, reply.headers["access-control-allow-headers"].as_str()), (204, "x-api-key"));
    let other = [("origin", "http://other.example"), ("access-control-request-method", "POST")];
    assert_eq!(read(open(server.address, "OPTIONS", "/v1/completions", &other, "")).status, 403);
}

#[test]
fn public_addresses_need_keys() {
    let mut options = ServerOptions::default();
    let public = ServerSocket::bind("0.0.0.0:0", &options).map(drop).unwrap_err();
    assert!(matches!(public, ServerError::Public { .. }), "{public}");
    assert!(ServerSocket::bind("127.0.0.1:0", &options).is_ok());
    options.insecure = true;
    assert!(ServerSocket::bind("0.0.0.0:0", &options).is_ok());
    (options.insecure, options.keys) = (false, ApiKeys::parse("key"));
    assert!(ServerSocket::bind("0.0.0.0:0", &options).is_ok());
    let taken = ServerSocket::bind("no-such-host.invalid:80", &options).map(drop).unwrap_err();
    assert!(matches!(taken, ServerError::Listen { .. }), "{taken}");
}
