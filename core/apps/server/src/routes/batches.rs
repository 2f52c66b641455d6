//! `/v1/batches`: many requests of a file, answered while clients leave time for them.

use super::answers::client_of;
use super::fields::refuse_rest;
use super::files::is_over;
use super::line::BatchEndpoint;
use super::owned_records::{OwnedRecords, RecordKind};
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{json_answer, read_fields};
use crate::utc_time::seconds;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use menagerie_openai::LineFault;
use serde_json::{Value, json};
use std::sync::Arc;

/// Batches of clients.
const BATCHES: RecordKind = RecordKind { name: "batch", missing: "batch_not_found", most: 100, usual: 20 };

pub(super) async fn create(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let (folder, client) = (app.batch_folder()?, client_of(&request));
    let mut fields = read_fields(&app, request).await?;
    fields.retain(|_, value| !value.is_null());
    let mut text = |name: &str| match fields.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(LineFault::of(name, "expected a string")),
    };
    let (file, endpoint, window) = (text("input_file_id")?, text("endpoint")?, text("completion_window")?);
    let endpoint = BatchEndpoint::of(&endpoint).ok_or_else(|| {
        LineFault::of(
            "endpoint",
            format!("{endpoint:?} is not one of {}", BatchEndpoint::ALL.map(BatchEndpoint::path).join(", ")),
        )
    })?;
    if window != "24h" {
        return Err(
            LineFault::of("completion_window", format!("{window:?} is not supported, only \"24h\"")).into()
        );
    }
    let metadata = fields.remove("metadata").unwrap_or(Value::Null);
    if !metadata.is_null() && !metadata.is_object() {
        return Err(LineFault::of("metadata", "expected an object").into());
    }
    refuse_rest(&fields)?;
    let owner = app.owner(client.0);
    if folder.files.get(&owner, &file).is_none_or(|file| file["purpose"] != "batch") {
        let reason = format!("there is no file {file:?} with the purpose batch");
        return Err(LineFault::of("input_file_id", reason).into());
    }
    let batch = json!({
        "id": app.id("batch_"), "object": "batch", "endpoint": endpoint.path(), "errors": null, "input_file_id": file,
        "completion_window": window, "status": "validating", "output_file_id": null, "error_file_id": null,
        "created_at": seconds(), "in_progress_at": null, "expires_at": null, "finalizing_at": null,
        "completed_at": null, "failed_at": null, "expired_at": null, "cancelling_at": null, "cancelled_at": null,
        "request_counts": { "total": 0, "completed": 0, "failed": 0 }, "metadata": metadata,
    });
    let (shared, stored) = (Arc::clone(folder), batch.clone());
    blocking(move || shared.batches.add(&owner, stored)).await??;
    folder.changed.notify_one();
    Ok(json_answer(&batch))
}

pub(super) async fn list(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    OwnedRecords::of(&app, &app.batch_folder()?.batches, BATCHES, &request).list(&request)
}

pub(super) async fn one(
    State(app): State<Arc<ServerApp>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiFault> {
    Ok(json_answer(&own_batch(&app, &id, &request)?))
}

pub(super) async fn cancel(
    State(app): State<Arc<ServerApp>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiFault> {
    own_batch(&app, &id, &request)?;
    let folder = app.batch_folder()?;
    let shared = Arc::clone(folder);
    let cancelled = blocking(move || {
        shared.batches.change(&id, |batch| {
            if !is_over(batch) && batch["status"] != "cancelling" {
                batch["status"] = json!("cancelling");
                batch["cancelling_at"] = json!(seconds());
            }
        })
    });
    let batch = cancelled.await??.unwrap_or_default();
    folder.changed.notify_one();
    match batch["status"].as_str() {
        Some("completed" | "failed") => {
            let reason = format!("the batch has ended already: it is {}", batch["status"]);
            Err(ApiFault::new(400, reason).with_code("batch_ended"))
        }
        _ => Ok(json_answer(&batch)),
    }
}

/// The batch with this id, if it belongs to the client.
fn own_batch(app: &ServerApp, id: &str, request: &Request) -> Result<Value, ApiFault> {
    OwnedRecords::of(app, &app.batch_folder()?.batches, BATCHES, request).one(id)
}
