//! [`RequestSpan`]: a request as a span, and the parts of its answers as spans below it.

use crate::answer_times::AnswerTimes;
use crate::observer::{FinishedRequest, ObservedRequest};
use axum::http::HeaderValue;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt, TraceFlags, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use std::time::{Instant, SystemTime};

/// The span of a request.
pub(super) struct RequestSpan {
    tracer: SdkTracer,
    span: Span,
}

impl RequestSpan {
    /// A request begins, below the span of its client.
    pub(super) fn begin(tracer: &SdkTracer, parent: &Context) -> Self {
        let builder =
            SpanBuilder::from_name("request").with_kind(SpanKind::Server).with_start_time(SystemTime::now());
        Self { tracer: tracer.clone(), span: tracer.build_with_context(builder, parent) }
    }

    /// The spans of an answer: its time in the queue, its prompt, its tokens.
    fn answer(&self, request: &FinishedRequest<'_>, answer: &AnswerTimes) {
        let own = Context::new().with_remote_span_context(self.span.span_context().clone());
        let count =
            |name: &'static str, count: usize| KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX));
        let model = || KeyValue::new("gen_ai.request.model", answer.model.clone());
        let part = |name: &'static str, from: Instant, to: Instant, more: Vec<KeyValue>| {
            let builder = SpanBuilder::from_name(name)
                .with_start_time(request.time_of(from))
                .with_attributes(more.into_iter().chain([model()]));
            self.tracer.build_with_context(builder, &own).end_with_timestamp(request.time_of(to));
        };
        let end = answer.last.or(answer.first).or(answer.began);
        part("queue", answer.sent, answer.began.unwrap_or(answer.sent), Vec::new());
        if let (Some(began), Some(end)) = (answer.began, end) {
            let counts = vec![
                count("gen_ai.usage.input_tokens", answer.prompt_tokens),
                count("gen_ai.usage.cache_read.input_tokens", answer.cached_tokens),
            ];
            part("prompt", began, answer.first.unwrap_or(end), counts);
        }
        if let (Some(first), Some(end)) = (answer.first, end) {
            let mut more = vec![count("gen_ai.usage.output_tokens", answer.generated_tokens)];
            more.extend(answer.reason.map(|reason| KeyValue::new("menagerie.stop_reason", reason)));
            part("generation", first, end, more);
        }
    }
}

impl ObservedRequest for RequestSpan {
    fn trace_parent(&self) -> Option<HeaderValue> {
        let context = self.span.span_context();
        let flags = context.trace_flags() & TraceFlags::SAMPLED;
        let text = format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id());
        HeaderValue::from_str(&text).ok().filter(|_| context.is_valid())
    }

    fn end(&mut self, request: &FinishedRequest<'_>) {
        for answer in &request.answers {
            self.answer(request, answer);
        }
        self.span.update_name(format!("{} {}", request.method, request.route));
        self.span.set_attributes([
            KeyValue::new("http.request.method", request.method.to_owned()),
            KeyValue::new("http.route", request.route.to_owned()),
            KeyValue::new("http.response.status_code", i64::from(request.status)),
            KeyValue::new("menagerie.request.id", request.id.to_owned()),
        ]);
        if request.status >= 500 {
            self.span.set_status(Status::error(format!("status {}", request.status)));
        }
        self.span.end_with_timestamp(request.end);
    }
}
