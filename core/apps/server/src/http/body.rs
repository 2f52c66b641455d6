//! Bodies of requests and of answers.

use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::ClientKey;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_core::Stream;
use serde_json::{Map, Value};
use std::pin::Pin;
use tokio::time::timeout;

/// The fields of the body of a request.
pub(crate) async fn read_fields(app: &ServerApp, request: Request) -> Result<Map<String, Value>, ApiFault> {
    let encoding = request.headers().get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding != "identity") {
        return Err(ApiFault::new(415, "compressed bodies are not supported; send it as it is"));
    }
    let client = request.extensions().get::<ClientKey>().copied().unwrap_or_default();
    let time = app.options.read_time;
    let bytes = timeout(time, read(request.into_body(), app.options.body_bytes)).await;
    let late = |_| ApiFault::new(408, format!("the body did not arrive within {} s", time.as_secs()));
    let bytes = bytes.map_err(late)??;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => {
            check_priority(app, client, &fields)?;
            Ok(fields)
        }
        Ok(_) => Err(ApiFault::new(400, "the body is not a JSON object")),
        Err(error) => Err(ApiFault::new(400, format!("the body is not JSON: {error}"))),
    }
}

/// Refuses a priority of a client that may not set it: it could keep all others waiting.
fn check_priority(
    app: &ServerApp,
    ClientKey(number): ClientKey,
    fields: &Map<String, Value>,
) -> Result<(), ApiFault> {
    let is_usual = fields.get("priority").is_none_or(|priority| priority.is_null() || *priority == 0);
    if is_usual || app.options.allow_priority || app.options.keys.may_prioritize(number) {
        return Ok(());
    }
    let reason = "priority: this client may not set it; leave it out, start the server with --allow-priority, or write \
                  priority after the client's key in the key file";
    Err(ApiFault::new(403, reason).with_param("priority").with_code("priority_not_allowed"))
}

async fn read(body: Body, most: usize) -> Result<Vec<u8>, ApiFault> {
    let (mut stream, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(chunk) = std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
        let chunk = chunk.map_err(|error| ApiFault::new(400, format!("the body cannot be read: {error}")))?;
        if bytes.len() + chunk.len() > most {
            let reason = format!("the body is larger than {} MiB (--body-limit)", most >> 20);
            return Err(ApiFault::new(413, reason));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// An answer in JSON.
pub(crate) fn json_answer(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
