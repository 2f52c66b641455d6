//! `/v1/models`: the models of the server, in OpenAI's format, or in Anthropic's for clients that send its version.

use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::fault_format::ANTHROPIC_VERSION;
use crate::http::{json_answer, query_value};
use crate::slots::SlotView;
use crate::utc_time::UtcTime;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use menagerie_openai::LineFault;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most models of a page in Anthropic's format.
const MOST_OF_PAGE: usize = 1000;

pub(super) async fn list(
    State(app): State<Arc<ServerApp>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiFault> {
    if headers.contains_key(ANTHROPIC_VERSION) {
        return Ok(json_answer(&page(&app, &uri)?));
    }
    let mut models = Vec::new();
    for view in app.models.views() {
        models.push(entry(&app, &view));
        models.extend(view.adapters.iter().map(|adapter| adapted(&app, &view, adapter)));
    }
    Ok(json_answer(&json!({ "object": "list", "data": models })))
}

pub(super) async fn one(
    State(app): State<Arc<ServerApp>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiFault> {
    let (view, adapter) = app.models.view(&name)?;
    let is_own = !headers.contains_key(ANTHROPIC_VERSION);
    Ok(json_answer(&match adapter {
        Some(adapter) if is_own => adapted(&app, &view, &adapter),
        None if is_own => entry(&app, &view),
        adapter => card(&app, &view, adapter.as_deref()),
    }))
}

fn entry(app: &ServerApp, view: &SlotView) -> Value {
    json!({
        "id": view.id, "object": "model", "created": app.created, "owned_by": "menagerie",
        "context_length": view.context, "max_model_len": view.context, "capabilities": view.abilities,
        "aliases": view.aliases, "state": view.state, "loading_percent": view.percent, "memory_bytes": view.bytes,
        "error": view.reason,
    })
}

/// The model with one of its adapters.
fn adapted(app: &ServerApp, view: &SlotView, adapter: &str) -> Value {
    let mut entry = entry(app, view);
    entry["id"] = format!("{}:{adapter}", view.id).into();
    entry["parent"] = view.id.clone().into();
    entry["aliases"] = json!([]);
    if let Some(abilities) = entry["capabilities"].as_array_mut() {
        abilities.retain(|ability| ability == "completions" || ability == "chat");
    }
    entry
}

/// A model in Anthropic's format.
fn card(app: &ServerApp, view: &SlotView, adapter: Option<&str>) -> Value {
    let id = adapter.map_or_else(|| view.id.clone(), |adapter| format!("{}:{adapter}", view.id));
    let created = UtcTime::of_seconds(app.created).to_string();
    json!({
        "type": "model", "id": id, "display_name": id, "created_at": created,
        "max_input_tokens": view.context,
    })
}

/// A page of models in Anthropic's format: `limit` of them after `after_id`, or before `before_id`.
fn page(app: &ServerApp, uri: &Uri) -> Result<Value, ApiFault> {
    let wrong = |name: &str, reason: &str| ApiFault::from(LineFault::of(name, reason));
    let limit = match query_value(uri, "limit") {
        None => 20,
        Some(limit) => {
            let limit = limit.parse().ok().filter(|limit| (1..=MOST_OF_PAGE).contains(limit));
            limit.ok_or_else(|| wrong("limit", "expected a whole number from 1 to 1000"))?
        }
    };
    let mut all = Vec::new();
    for view in app.models.views() {
        all.push(card(app, &view, None));
        all.extend(view.adapters.iter().map(|adapter| card(app, &view, Some(adapter))));
    }
    let place = |name: &str| -> Result<Option<usize>, ApiFault> {
        let Some(id) = query_value(uri, name) else { return Ok(None) };
        let at = all.iter().position(|model| model["id"] == id.as_str());
        at.map(Some).ok_or_else(|| wrong(name, "there is no such model"))
    };
    let (after, before) = (place("after_id")?, place("before_id")?);
    let first = after.map_or(0, |at| at + 1);
    let end = before.unwrap_or(all.len()).max(first);
    // Before a model come the last ones, otherwise the first ones.
    let range = match before {
        Some(_) if after.is_none() => end.saturating_sub(limit)..end,
        _ => first..end.min(first + limit),
    };
    let has_more = if before.is_some() && after.is_none() { range.start > 0 } else { range.end < end };
    let models = all.get(range).unwrap_or_default();
    let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
    Ok(json!({
        "data": models, "has_more": has_more, "first_id": id(models.first()), "last_id": id(models.last()),
    }))
}
