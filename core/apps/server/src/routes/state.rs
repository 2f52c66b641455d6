//! `/health`, `/livez`, `/readyz` and `/metrics`.

use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::json_answer;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use menagerie::engine::Metrics;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;

/// Whether it can answer.
pub(super) async fn health(State(app): State<Arc<ServerApp>>) -> Result<Response, ApiFault> {
    match app.failure() {
        None => Ok(json_answer(&json!({ "status": "ok" }))),
        Some(reason) => Err(ApiFault::new(503, reason).with_code("unavailable")),
    }
}

/// Whether the process runs.
pub(super) async fn livez() -> Response {
    json_answer(&json!({ "status": "ok" }))
}

/// Counters and histograms in the text format of Prometheus.
pub(super) async fn metrics(State(app): State<Arc<ServerApp>>) -> Result<Response, ApiFault> {
    let views = app.models.views();
    let labels: Vec<[(&str, &str); 1]> = views.iter().map(|model| [("model", &*model.id)]).collect();
    let all: Vec<(&[(&str, &str)], &Metrics)> =
        labels.iter().zip(&views).map(|(labels, model)| (&labels[..], &*model.metrics)).collect();
    let mut text = String::new();
    let failed = |_| ApiFault::of_panic("the metrics cannot be written");
    Metrics::write(&mut text, &all).map_err(failed)?;
    text.push_str("# HELP menagerie_queue_open requests that were admitted and have not ended, with all their answers\n");
    text.push_str("# TYPE menagerie_queue_open gauge\n");
    for view in &views {
        writeln!(text, "menagerie_queue_open{{model=\"{}\"}} {}", label(&view.id), view.open)
            .map_err(failed)?;
    }
    text.push_str(
        "# HELP menagerie_model_loaded whether the model is in memory\n# TYPE menagerie_model_loaded gauge\n",
    );
    for view in &views {
        let is_loaded = u8::from(view.state == "ready");
        writeln!(text, "menagerie_model_loaded{{model=\"{}\"}} {is_loaded}", label(&view.id))
            .map_err(failed)?;
    }
    app.counters.write(&mut text);
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// The value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
