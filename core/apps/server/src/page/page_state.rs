//! `/page/state`: what the page has to know before a request: models, what they can do, and their defaults.

use crate::app::ServerApp;
use crate::http::json_answer;
use crate::model::{EngineModel, EngineText};
use crate::slots::SlotView;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) async fn state(State(app): State<Arc<ServerApp>>) -> Response {
    let running = app.models.of_running(|model| (model.id.clone(), entry(model))).into_iter();
    let running: BTreeMap<String, Value> = running.collect();
    let mut models = Vec::new();
    for view in app.models.views() {
        let base = running.get(&view.id).cloned().unwrap_or_else(|| unknown(&view));
        models.push(base.clone());
        for adapter in &view.adapters {
            let mut adapted = base.clone();
            adapted["id"] = format!("{}:{adapter}", view.id).into();
            adapted["embeddings"] = false.into();
            models.push(adapted);
        }
    }
    json_answer(&json!({ "version": env!("CARGO_PKG_VERSION"), "models": models }))
}

/// A model that is not in memory: what it can do is known when a request has opened it.
fn unknown(view: &SlotView) -> Value {
    json!({ "id": view.id, "state": view.state, "chat": null, "completions": null, "embeddings": null })
}

fn entry(model: &EngineModel) -> Value {
    let text = model.text().ok();
    json!({
        "id": model.id,
        "state": "ready",
        "chat": text.is_some_and(|text| text.chat_format().is_ok()),
        "completions": text.is_some(),
        "embeddings": model.vectors().is_ok(),
        "context": model.context(),
        "architecture": model.file.as_ref().map(|file| file.config().architecture.clone()),
        "defaults": text.map(defaults),
    })
}

/// The values of the fields that a request may leave out, under their names in a request.
fn defaults(text: &EngineText) -> Value {
    let request = &text.service.defaults;
    let sampling = &request.sampling;
    json!({
        "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p,
        "min_p": sampling.min_p, "typical_p": sampling.typical_p, "repeat_penalty": sampling.repeat_penalty,
        "presence_penalty": sampling.presence_penalty, "frequency_penalty": sampling.frequency_penalty,
        "seed": sampling.seed, "max_tokens": request.max_tokens, "stop": request.stop,
    })
}
