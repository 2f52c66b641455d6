//! A35: each cause by its name, with what to do about it.

use super::server::{Mishap, json};
use super::{HELLO, MODEL, Place};
use menagerie_hub::{Cause, Hub, HubError, HubSettings, ModelReference};

fn cause(error: HubError) -> (Cause, String) {
    let text = error.to_string();
    match error {
        HubError::Remote { cause, .. } => (cause, text),
        other => panic!("{other}"),
    }
}

fn status(line: &str, headers: &str) -> String {
    format!("HTTP/1.1 {line}\r\n{headers}content-length: 0\r\n\r\n")
}

#[test]
fn each_status_has_its_cause_and_advice() {
    let gated = "x-error-code: GatedRepo\r\n";
    let invalid = "x-error-message: Invalid credentials in Authorization header\r\n";
    for (token, answer, wanted, advice) in [
        (false, status("401 Unauthorized", ""), Cause::NoRepositoryOrPrivate, "check the spelling"),
        (false, status("401 Unauthorized", gated), Cause::Gated, "accept its terms"),
        (true, status("403 Forbidden", gated), Cause::Gated, "accept its terms"),
        (true, status("401 Unauthorized", invalid), Cause::Token, "new token"),
        (true, status("403 Forbidden", ""), Cause::Forbidden(String::new()), "read access"),
        (false, status("404 Not Found", ""), Cause::NoRepository, "org/repo"),
        (
            false,
            status("404 Not Found", "x-error-code: RevisionNotFound\r\n"),
            Cause::NoRevision,
            "after the @",
        ),
        (false, status("418 Teapot", ""), Cause::Status(418), "HF_ENDPOINT"),
    ] {
        let mut place = Place::hello();
        place.settings.token = token.then(|| "secret".to_owned());
        place.server.answer(answer);
        let (found, text) = cause(place.pull("org/repo").unwrap_err());
        assert_eq!(found, wanted);
        assert!(text.contains(advice) && !text.contains("kept") && !text.contains("secret"), "{text}");
        assert_eq!(place.server.requests().len(), 1, "asking again does not help");
    }
}

#[test]
fn what_passes_is_asked_for_again_before_it_is_an_error() {
    let place = Place::hello();
    for _ in 0..2 {
        place.server.answer(status("503 Service Unavailable", ""));
    }
    place.pull("org/repo").unwrap();

    let place = Place::hello();
    for _ in 0..3 {
        place.server.answer(status("500 Internal Server Error", ""));
    }
    let (found, text) = cause(place.pull("org/repo").unwrap_err());
    assert_eq!(found, Cause::Server(500));
    assert!(text.contains("try again later"), "{text}");

    let place = Place::hello();
    for _ in 0..3 {
        place.server.answer(status("429 Too Many Requests", "retry-after: 0\r\n"));
    }
    let (found, text) = cause(place.pull("org/repo").unwrap_err());
    assert_eq!(found, Cause::TooMany { after: Some(0) });
    assert!(text.contains("HF_TOKEN"), "{text}");
}

/// A login page of a network answers 200 to everything.
#[test]
fn a_captive_portal_is_no_hub() {
    let place = Place::hello();
    place.server.answer("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n<html>Log in!</html>");
    let (found, text) = cause(place.pull("org/repo").unwrap_err());
    assert!(matches!(found, Cause::NotAHub(_)), "{text}");
    assert!(text.contains("login"), "{text}");
    // Speaking something else than HTTP is no hub either.
    let place = Place::hello();
    place.server.answer("220 smtp.example.com ESMTP\r\n\r\n");
    let (found, text) = cause(place.pull("org/repo").unwrap_err());
    assert!(matches!(found, Cause::NotAHub(_)), "{text}");
}

#[test]
fn what_the_network_refuses_is_told_apart() {
    let place = Place::hello();
    let pull = |endpoint: &str| {
        let hub = Hub::new(HubSettings { endpoint: endpoint.to_owned(), ..place.settings.clone() });
        let reference = ModelReference::parse("org/repo").unwrap();
        cause(hub.pull(&reference, &mut menagerie_hub::NoProgress).unwrap_err())
    };
    assert_eq!(pull("http://127.0.0.1:1").0, Cause::Refused);
    let (found, text) = pull("http://no-such-host.invalid");
    assert_eq!(found, Cause::HostNotFound, "{text}");
    assert!(text.contains("HF_ENDPOINT"), "{text}");
    // The server speaks plain HTTP.
    let (found, text) = pull(&place.server.address.replace("http://", "https://"));
    assert!(matches!(found, Cause::Tls(_)), "{text}");
    assert!(text.contains("SSL_CERT_FILE"), "{text}");
    let (found, text) = pull("not an address");
    assert!(matches!(found, Cause::Address(_)), "{text}");
}

/// Where no hub answers, the copy on this machine serves, and the reason is told.
#[test]
fn without_an_answer_the_copy_serves() {
    let place = Place::hello();
    let path = place.pull("org/repo").unwrap();
    let settings = HubSettings { endpoint: "http://127.0.0.1:1".into(), ..place.settings.clone() };
    let mut told = super::Told::default();
    let reference = ModelReference::parse("org/repo").unwrap();
    assert_eq!(Hub::new(settings).pull(&reference, &mut told).unwrap(), path);
    assert!(told.notes[0].contains("refused"), "{:?}", told.notes);
}

#[test]
fn a_file_of_another_length_than_announced_is_not_written_on() {
    let place = Place::hello();
    place.server.mishap(Mishap::Answer("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello!".into()));
    let (found, text) = cause(place.pull("org/repo").unwrap_err());
    assert!(matches!(found, Cause::Changed(_)), "{text}");
    assert!(!place.blob(HELLO).exists());
}

/// What a hostile hub says never names a file outside the cache.
#[test]
fn hostile_names_stay_inside() {
    let outside = |place: &Place| {
        let names: Vec<String> = std::fs::read_dir(place.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.iter().all(|name| name == "hub" || name == "own"), "{names:?}");
    };
    let place =
        Place::with(&[("../../../../evil.gguf", b"hello", HELLO), ("a\\..\\evil.gguf", b"hello", HELLO)]);
    let error = place.pull("org/repo").unwrap_err();
    assert!(error.to_string().contains("no GGUF files"), "{error}");
    outside(&place);
    for etag in ["../../../../evil", "..", ".hidden", "a/b", ""] {
        let place = Place::with(&[(MODEL, b"hello", etag)]);
        let (found, text) = cause(place.pull("org/repo").unwrap_err());
        assert!(matches!(found, Cause::NotAHub(_)), "{text}");
        outside(&place);
    }
    for commit in ["../../../../evil", "", "a/b"] {
        let place = Place::hello();
        place
            .server
            .answer(json(&format!("{{\"siblings\":[{{\"rfilename\":\"{MODEL}\"}}],\"sha\":\"{commit}\"}}")));
        let (found, text) = cause(place.pull("org/repo").unwrap_err());
        assert!(matches!(found, Cause::NotAHub(_)), "{text}");
        outside(&place);
    }
}
