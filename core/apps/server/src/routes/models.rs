//! `/v1/models`: the models of the server.

use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::json_answer;
use crate::model::EngineModel;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(State(app): State<Arc<ServerApp>>) -> Response {
    let models: Vec<Value> = app.models.iter().map(|model| entry(&app, model)).collect();
    json_answer(&json!({ "object": "list", "data": models }))
}

pub(super) async fn one(
    State(app): State<Arc<ServerApp>>,
    Path(name): Path<String>,
) -> Result<Response, ApiFault> {
    Ok(json_answer(&entry(&app, app.named(&name)?)))
}

fn entry(app: &ServerApp, model: &EngineModel) -> Value {
    let text = model.text().ok();
    let abilities = [
        ("completions", text.is_some()),
        ("chat", text.is_some_and(|text| text.chat_format().is_ok())),
        ("embeddings", model.vectors().is_ok()),
        ("rerank", model.scores().is_ok_and(|(pipeline, _)| pipeline.engine().model.classifier.is_some())),
    ];
    let abilities: Vec<&str> = abilities.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    json!({
        "id": model.id, "object": "model", "created": app.created, "owned_by": "menagerie",
        "context_length": model.context(), "max_model_len": model.context(), "capabilities": abilities,
        "aliases": model.names.get(1..).unwrap_or_default(),
    })
}
