//! `/page/tensors/NAME`: the layers of a model in memory, and the tensors of its file.

use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::json_answer;
use axum::extract::{Path, State};
use axum::response::Response;
use menagerie::assembly::TensorEntry;
use menagerie::open::ResolvedFile;
use menagerie::spec::config::LayerConfig;
use menagerie::spec::kind::Component;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn tensors(
    State(app): State<Arc<ServerApp>>,
    Path(name): Path<String>,
) -> Result<Response, ApiFault> {
    let model = app.models.loaded(&name)?;
    let listed = move || match &model.file {
        Some(file) => Ok(listing(file)),
        None => Err(ApiFault::new(404, format!("the file of {} is not known", model.id)).with_param("model")),
    };
    Ok(json_answer(&blocking(listed).await??))
}

fn listing(file: &ResolvedFile) -> Value {
    let config = file.config();
    json!({
        "architecture": config.architecture,
        "width": config.embedding_length,
        "layers": config.layers.iter().map(layer).collect::<Vec<_>>(),
        "tensors": file.tensors.entries().iter().map(tensor).collect::<Vec<_>>(),
    })
}

fn layer(layer: &LayerConfig) -> Value {
    let kind = |part: &Option<Component>| part.as_ref().map(|part| part.kind().name);
    json!({ "index": layer.index, "mixer": kind(&layer.mixer), "feed_forward": kind(&layer.feed_forward) })
}

fn tensor(entry: &TensorEntry) -> Value {
    json!({
        "name": entry.name, "layer": entry.layer, "shape": entry.dims, "type": entry.kind, "bytes": entry.bytes,
    })
}
