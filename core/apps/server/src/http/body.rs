//! Bodies of requests and of answers.

use crate::app::ServerApp;
use crate::fault::ApiFault;
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
    let time = app.options.read_time;
    let bytes = timeout(time, read(request.into_body(), app.options.body_bytes)).await;
    let late = |_| ApiFault::new(408, format!("the body did not arrive within {} s", time.as_secs()));
    let bytes = bytes.map_err(late)??;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(ApiFault::new(400, "the body is not a JSON object")),
        Err(error) => Err(ApiFault::new(400, format!("the body is not JSON: {error}"))),
    }
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
