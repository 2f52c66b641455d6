//! `/v1/files`: files of requests for batches, and their results.

use super::answers::client_of;
use super::file_content::FileContent;
use super::owned_records::{OwnedRecords, RecordKind};
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::json_answer;
use crate::stored::{BatchFolder, file_object};
use crate::utc_time::seconds;
use axum::body::Body;
use axum::extract::multipart::{Field, Multipart};
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use menagerie::files::AtomicFile;
use menagerie_openai::{LineFault, UNSUPPORTED_FIELD};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use tokio::time::timeout;

/// Files of clients.
const FILES: RecordKind = RecordKind { name: "file", missing: "file_not_found", most: 10_000, usual: 10_000 };
/// The most bytes of a field of a form that is not a file.
const FIELD_BYTES: usize = 1024;
/// The most letters of the name of a file.
const NAME: usize = 255;

/// A file that a client has sent.
struct ReceivedFile {
    id: String,
    content: AtomicFile,
    bytes: u64,
    name: String,
}

pub(super) async fn create(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let (folder, owner) = (app.batch_folder()?, app.owner(client_of(&request).0));
    let form = Multipart::from_request(request, &()).await;
    let mut form =
        form.map_err(|error| ApiFault::new(400, format!("expected a form with a file: {error}")))?;
    let (mut purpose, mut file) = (None, None);
    while let Some(field) = arrives(&app, form.next_field()).await? {
        let name = field.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "purpose" => purpose = Some(text_of(&app, field).await?),
            "file" if file.is_none() => file = Some(receive(&app, folder, field).await?),
            other => return Err(LineFault::of(other, UNSUPPORTED_FIELD).into()),
        }
    }
    match purpose.as_deref() {
        Some("batch") => {}
        Some(other) => {
            let reason = format!("{other:?} is not supported, only \"batch\"");
            return Err(LineFault::of("purpose", reason).into());
        }
        None => return Err(LineFault::of("purpose", "the field is missing").into()),
    }
    let Some(ReceivedFile { id, content, bytes, name }) = file else {
        return Err(LineFault::of("file", "the field is missing").into());
    };
    let body = file_object(&id, (bytes, seconds()), &name, "batch");
    let (shared, stored) = (Arc::clone(folder), body.clone());
    blocking(move || shared.add_file(&owner, content, stored)).await??;
    Ok(json_answer(&body))
}

pub(super) async fn list(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    OwnedRecords::of(&app, &app.batch_folder()?.files, FILES, &request).list(&request)
}

pub(super) async fn one(
    State(app): State<Arc<ServerApp>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiFault> {
    Ok(json_answer(&own_file(&app, &id, &request)?))
}

pub(super) async fn content(
    State(app): State<Arc<ServerApp>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiFault> {
    own_file(&app, &id, &request)?;
    let content = FileContent::open(&app.batch_folder()?.content(&id)).await;
    let content = content.map_err(|error| ApiFault::new(500, format!("the file cannot be read: {error}")))?;
    let mut response = Response::new(Body::from_stream(content));
    let kind = HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

pub(super) async fn delete(
    State(app): State<Arc<ServerApp>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiFault> {
    own_file(&app, &id, &request)?;
    let folder = app.batch_folder()?;
    let is_read = |batch: &Value| batch["input_file_id"] == id.as_str() && !is_over(batch);
    if let Some(batch) = folder.batches.those(is_read).first() {
        let reason =
            format!("{id} is the input of {}, which is not complete; cancel the batch first", batch.id());
        return Err(ApiFault::new(400, reason).with_code("file_in_use"));
    }
    let (shared, file) = (Arc::clone(folder), id.clone());
    blocking(move || shared.remove_file(&file)).await??;
    Ok(json_answer(&json!({ "id": id, "object": "file", "deleted": true })))
}

/// The file with this id, if it belongs to the client.
fn own_file(app: &ServerApp, id: &str, request: &Request) -> Result<Value, ApiFault> {
    OwnedRecords::of(app, &app.batch_folder()?.files, FILES, request).one(id)
}

/// Whether a batch has ended.
pub(super) fn is_over(batch: &Value) -> bool {
    matches!(batch["status"].as_str(), Some("completed" | "failed" | "cancelled"))
}

/// Waits for the next part of a form.
async fn arrives<T>(
    app: &ServerApp,
    part: impl Future<Output = Result<T, axum::extract::multipart::MultipartError>>,
) -> Result<T, ApiFault> {
    let time = app.options.read_time;
    match timeout(time, part).await {
        Ok(Ok(part)) => Ok(part),
        Ok(Err(error)) => Err(ApiFault::new(400, format!("the form cannot be read: {}", error.body_text()))),
        Err(_) => Err(ApiFault::new(408, format!("nothing of the form arrived for {} s", time.as_secs()))),
    }
}

/// The text of a short field.
async fn text_of(app: &ServerApp, mut field: Field<'_>) -> Result<String, ApiFault> {
    let name = field.name().unwrap_or_default().to_owned();
    let mut bytes = Vec::new();
    while let Some(chunk) = arrives(app, field.chunk()).await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > FIELD_BYTES {
            return Err(LineFault::of(&name, format!("longer than {FIELD_BYTES} bytes")).into());
        }
    }
    String::from_utf8(bytes).map_err(|_| LineFault::of(&name, "expected a text").into())
}

/// Writes a file while it arrives. What is not complete is removed.
async fn receive(
    app: &ServerApp,
    folder: &Arc<BatchFolder>,
    mut field: Field<'_>,
) -> Result<ReceivedFile, ApiFault> {
    let name: String = field.file_name().unwrap_or("file.jsonl").chars().take(NAME).collect();
    let id = app.id("file-");
    let (mut content, mut bytes, most) = (folder.begin_file(&id)?, 0, app.options.file_bytes);
    while let Some(chunk) = arrives(app, field.chunk()).await? {
        bytes += chunk.len() as u64;
        if bytes > most {
            let reason = format!("the file is larger than {} MiB", most >> 20);
            return Err(ApiFault::new(413, reason).with_param("file"));
        }
        content
            .write_all(&chunk)
            .map_err(|error| ApiFault::new(500, format!("the file cannot be written: {error}")))?;
    }
    Ok(ReceivedFile { id, content, bytes, name })
}
