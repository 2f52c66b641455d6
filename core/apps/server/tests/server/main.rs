//! The server over real sockets, with tiny and with fake models.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod anthropic;
mod batches;
#[path = "../../../../engine/tests/engine/byte_text.rs"]
#[allow(dead_code)]
mod byte_text;
mod cancelling;
mod client;
mod concurrency;
mod encrypted;
mod endings;
mod fake;
mod gates;
mod lens;
mod limits;
mod llama;
mod malformed;
mod ollama;
mod on_demand;
mod opening;
mod page;
mod refusals;
mod reloading;
mod responses;
mod running;
mod shelf;
#[cfg(feature = "opentelemetry")]
mod spans;
mod streams;
#[path = "../../../../engine/tests/engine/tools.rs"]
mod tools;
mod vectors;
mod whole;
