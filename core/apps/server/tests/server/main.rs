//! The server over real sockets, with tiny and with fake models.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../../engine/tests/engine/byte_text.rs"]
#[allow(dead_code)]
mod byte_text;
mod cancelling;
mod client;
mod concurrency;
mod endings;
mod fake;
mod gates;
mod malformed;
mod refusals;
mod running;
mod streams;
#[path = "../../../../engine/tests/engine/tools.rs"]
mod tools;
mod vectors;
mod whole;
