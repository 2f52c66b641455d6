//! `/v1/embeddings`, and vectors of texts for other routes.

use super::fields::{list_ignored, take_ignored};
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
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn embeddings(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let ClientKey(tenant) = request.extensions().get::<ClientKey>().copied().unwrap_or_default();
    let mut fields = read_fields(&app, request).await?;
    let ignored = take_ignored(&mut fields)?;
    let model = app.model_of(&mut fields)?;
    let admission = model.worker.admit(1)?;
    let reader = Arc::clone(&model);
    let read = move || -> Result<_, ApiFault> {
        let (pipeline, service) = reader.vectors()?;
        let body = EmbeddingBody::read(RequestBody::new(fields), pipeline, service.truncation)?;
        Ok((body, service.options))
    };
    let (body, options) = blocking(read).await??;
    let (tokens, form) = ((body.tokens(), body.cut()), body.form);
    let vectors = compute(&model, body.texts, options, (tenant, admission)).await?;
    let mut response = json_answer(&embedding_list(&vectors, form, &model.id, tokens));
    list_ignored(&mut response, &ignored);
    Ok(response)
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
