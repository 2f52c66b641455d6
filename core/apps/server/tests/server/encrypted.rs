//! Connections with TLS.

use crate::client::{open, read_from};
use crate::fake::{model, served};
use crate::running::Running;
use menagerie_server::{Server, ServerError, ServerOptions, ServerSocket, TlsFiles};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

fn file(name: &str) -> PathBuf {
    Path::new(FILES).join(name)
}

/// A connection to a server whose certificate must be this one.
fn connect(address: SocketAddr, certificate: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(certificate)).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    StreamOwned::new(client, stream)
}

/// Status and body of the answer to a request.
fn send(
    address: SocketAddr,
    certificate: &str,
    request: (&str, &str),
    body: &str,
) -> Result<(u16, String), String> {
    let mut stream = connect(address, certificate);
    let (method, path) = request;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).map_err(|error| error.to_string())?;
    let reply = read_from(stream);
    Ok((reply.status, reply.body))
}

#[test]
fn answers_are_encrypted_and_the_certificate_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let install = |name: &str| {
        std::fs::copy(file(&format!("{name}.pem")), &files[0]).unwrap();
        std::fs::copy(file(&format!("{name}.key")), &files[1]).unwrap();
    };
    install("first");
    let server = Running::with(vec![served("m", &model(), 2)], |options| {
        options.tls = Some(TlsFiles::new(&files[0], &files[1]));
        options.read_time = Duration::from_secs(2);
    });
    let body = json!({ "messages": [{ "role": "user", "content": "abc" }], "stream": true }).to_string();
    let (status, text) = send(server.address, "first.pem", ("POST", "/v1/chat/completions"), &body).unwrap();
    assert!(status == 200 && text.contains("data: [DONE]"), "{text}");
    let wrong = send(server.address, "second.pem", ("GET", "/health"), "").unwrap_err();
    assert!(wrong.contains("certificate"), "{wrong}");
    // Without TLS there is no answer, and a client that says nothing is gone after the time of a head.
    let mut plain = open(server.address, "GET", "/health", &[], "");
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);
    install("second");
    let (status, change) = send(server.address, "first.pem", ("POST", "/admin/reload"), "").unwrap();
    assert!(status == 200 && change.contains("\"tls\":true"), "{change}");
    assert_eq!(send(server.address, "second.pem", ("GET", "/health"), "").unwrap().0, 200);
    // A certificate that cannot be used changes nothing.
    std::fs::write(&files[1], "no key").unwrap();
    let (status, fault) = send(server.address, "second.pem", ("POST", "/admin/reload"), "").unwrap();
    assert!(status == 500 && fault.contains("key.pem"), "{fault}");
    assert_eq!(send(server.address, "second.pem", ("GET", "/health"), "").unwrap().0, 200);
}

#[test]
fn files_that_are_no_certificate_and_public_addresses_without_keys_are_refused() {
    let start = |certificate: &str, key: &str| {
        let mut options = ServerOptions::default();
        options.tls = Some(TlsFiles::new(file(certificate), file(key)));
        let socket = ServerSocket::bind("127.0.0.1:0", &options).unwrap();
        Server::start(socket, vec![served("m", &model(), 1)], options).map(drop)
    };
    assert!(start("first.pem", "first.key").is_ok());
    for (certificate, key, named) in [
        ("missing.pem", "first.key", "missing.pem"),
        ("first.key", "first.key", "first.key"),
        ("first.pem", "second.pem", "second.pem"),
        ("first.pem", "second.key", "first.pem"),
    ] {
        let fault = start(certificate, key).unwrap_err();
        assert!(
            matches!(&fault, ServerError::Tls { file, .. } if file.ends_with(named)),
            "{certificate}: {fault}"
        );
    }
    let mut options = ServerOptions::default();
    options.tls = Some(TlsFiles::new(file("first.pem"), file("first.key")));
    let public = ServerSocket::bind("0.0.0.0:0", &options).map(drop).unwrap_err();
    assert!(matches!(public, ServerError::Public { .. }), "{public}");
}
