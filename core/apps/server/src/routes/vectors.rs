//! `/v1/embeddings`, and vectors of texts for other routes.

use super::answers::client_of;
use super::fields::{list_ignored, take_ignored};
use super::requester::Requester;
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{ClientKey, json_answer, read_fields};
use crate::model::EngineModel;
use crate::worker::{AdmittedRequests, CancelGuard, EngineJob, VectorsJob};
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie::engine::{EmbeddingOptions, TextTokens};
use menagerie_openai::{EmbeddingBody, RequestBody, embedding_list};
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn embeddings(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let client = client_of(&request);
    let fields = read_fields(&app, request).await?;
    let (list, ignored) = embedding_answer(&app, fields, client.into()).await?;
    let mut response = json_answer(&list);
    list_ignored(&mut response, &ignored);
    Ok(response)
}

/// The answer to a body, and the fields that change nothing.
pub(super) async fn embedding_answer(
    app: &ServerApp,
    mut fields: Map<String, Value>,
    Requester { key: ClientKey(tenant), class }: Requester,
) -> Result<(Value, Vec<String>), ApiFault> {
    let ignored = take_ignored(&mut fields)?;
    let model = app.models.ready_for(&app.name_of(&mut fields)?, class).await?;
    let admission = model.worker.admit_in(class, 1)?;
    let (body, options) = read_texts(&model, fields).await?;
    let (tokens, form) = ((body.tokens(), body.cut()), body.form);
    let vectors = compute(&model, body.texts, options, (tenant, admission)).await?;
    Ok((embedding_list(&vectors, form, &model.id, tokens), ignored))
}

/// Reads the texts of a body on a thread on which that may take a while, and how the model makes vectors of them.
pub(super) async fn read_texts(
    model: &Arc<EngineModel>,
    fields: Map<String, Value>,
) -> Result<(EmbeddingBody, EmbeddingOptions), ApiFault> {
    let reader = Arc::clone(model);
    let read = move || -> Result<_, ApiFault> {
        let (pipeline, service) = reader.vectors()?;
        let body = EmbeddingBody::read(RequestBody::new(fields), pipeline, service.truncation)?;
        Ok((body, service.options))
    };
    blocking(read).await?
}

/// The vectors of texts. Dropping the future cancels the texts.
pub(super) async fn compute(
    model: &EngineModel,
    texts: Vec<TextTokens>,
    options: EmbeddingOptions,
    (tenant, admission): (u64, AdmittedRequests),
) -> Result<Vec<Vec<f32>>, ApiFault> {
    let (guard, (sink, vectors)) = (CancelGuard::default(), oneshot::channel());
    let cancel = guard.flag();
    model.worker.send(EngineJob::Vectors(VectorsJob { texts, options, tenant, cancel, sink, admission }))?;
    let vectors = vectors.await.map_err(|_| model.worker.closed())?;
    Ok(vectors.into_iter().collect::<Result<_, _>>()?)
}
