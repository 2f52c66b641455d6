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
        ServerError::Model("chat: the state cannot be allocated".to_owned()),
        ServerError::Runtime(in_use()),
    ];
    insta::assert_snapshot!(said);
}
