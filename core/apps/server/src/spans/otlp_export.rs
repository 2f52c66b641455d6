//! [`OtlpExport`]: exports a span of each request.

use super::otlp_client::OtlpClient;
use super::request_span::RequestSpan;
use crate::error::ServerError;
use crate::observer::{ObservedRequest, RequestObserver};
use crate::options::LogSink;
use axum::http::{HeaderMap, Uri};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use std::time::Duration;

/// The path of spans of a collector.
const PATH: &str = "/v1/traces";
/// The most time for the last spans.
const FAREWELL: Duration = Duration::from_secs(2);

/// Exports spans of requests to a collector. A thread of its own sends them. Requests do not wait for it: spans that it
/// cannot send in time are lost.
#[derive(Debug)]
pub struct OtlpExport {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl OtlpExport {
    /// An export to the collector at `endpoint`, for example `http://127.0.0.1:4318`. `log` gets a line when the collector
    /// does not take spans.
    ///
    /// # Errors
    /// The address is not one of HTTP.
    pub fn start(endpoint: &str, log: LogSink) -> Result<Self, ServerError> {
        let wrong = |reason: String| ServerError::Collector { endpoint: endpoint.to_owned(), reason };
        let base = endpoint.trim_end_matches('/');
        let url = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
        let uri: Uri = url.parse().map_err(|error| wrong(format!("{error}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(wrong("expected http://HOST:PORT or https://HOST:PORT".to_owned()));
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(OtlpClient::new(url.clone(), log))
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(url)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let provider =
            SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build();
        let tracer = provider.tracer("menagerie");
        Ok(Self { provider, tracer, propagator: TraceContextPropagator::new() })
    }

    /// Sends the spans that were not sent yet, and ends.
    pub fn finish(&self) {
        // The client has logged a collector that does not take them.
        let _ = self.provider.shutdown_with_timeout(FAREWELL);
    }
}

impl RequestObserver for OtlpExport {
    fn begin(&self, headers: &HeaderMap) -> Box<dyn ObservedRequest> {
        let parent = self.propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers));
        Box::new(RequestSpan::begin(&self.tracer, &parent))
    }
}

/// What all spans say of this process. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` are honored.
fn resource() -> Resource {
    let builder = Resource::builder();
    let builder = match std::env::var_os("OTEL_SERVICE_NAME") {
        Some(_) => builder,
        None => builder.with_service_name("menagerie"),
    };
    builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build()
}
