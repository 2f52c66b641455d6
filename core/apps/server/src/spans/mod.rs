//! Spans of requests, for an OpenTelemetry collector: OTLP over HTTP, in JSON.

mod otlp_client;
mod otlp_export;
mod request_span;

pub use otlp_export::OtlpExport;
