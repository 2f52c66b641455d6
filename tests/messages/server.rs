//! The server.

use menagerie_server::ServerError;
use std::io;

#[test]
fn server() {
    let in_use = || io::Error::new(io::ErrorKind::AddrInUse, "Address already in use");
    let said = messages![
        ServerError::NoModel,
        ServerError::Public { address: "0.0.0.0:8080".to_owned() },
        ServerError::Listen { address: "127.0.0.1:8080".to_owned(), source: in_use() },
        ServerError::SameName { name: "chat".to_owned() },
        ServerError::Pin { name: "chat".to_owned() },
        ServerError::Memory { needed: "9.0 GB".to_owned(), budget: "6.0 GB".to_owned() },
        ServerError::Tls { file: "server.pem".to_owned(), reason: "no items found".to_owned() },
        ServerError::Model("chat: the state cannot be allocated".to_owned()),
        ServerError::BatchFolder("batches: another process uses it".to_owned()),
        ServerError::Runtime(in_use()),
        ServerError::Collector {
            endpoint: "collector:4318".to_owned(),
            reason: "expected http://HOST:PORT or https://HOST:PORT".to_owned(),
        },
    ];
    insta::assert_snapshot!(said);
}
