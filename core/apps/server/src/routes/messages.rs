//! Anthropic's interface: `/v1/messages` and `/v1/messages/count_tokens`.

use super::answers::{begin, client_of, read_with, respond};
use super::asked_model::AskedModel;
use super::fields::list_ignored;
use crate::anthropic::{MessageWriter, MessagesBody, MessagesPurpose};
use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::{StreamFaults, json_answer, read_fields};
use crate::model::EngineModel;
use crate::prompts::{checked, prompt_tokens};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;

/// An answer, whole or as a stream.
pub(super) async fn create(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let (client, faults) = (client_of(&request), StreamFaults::of(&request));
    let mut fields = read_fields(&app, request).await?;
    let name = app.name_of(&mut fields)?;
    let body = MessagesBody::read(fields, MessagesPurpose::Answer)?;
    let (is_stream, request_id) = (body.is_stream, faults.request_id().to_owned());
    let model = AskedModel::new(name, is_stream.then_some(faults), body.ignored.names());
    let begin = move |app: Arc<ServerApp>, model: Arc<EngineModel>| async move {
        let (prompts, ignored) = read_with(&model, move |reader| {
            let text = reader.text()?;
            let (request, ignored) = body.request(&text)?;
            Ok((checked(&text, vec![request])?, ignored))
        })
        .await?;
        let (id, tokens) = (app.id("msg_"), prompt_tokens(&prompts));
        let writer = Box::new(MessageWriter::new(id, request_id, model.id.clone(), tokens));
        let answering = begin(&app, &model, prompts, client)?;
        let mut response = respond(answering, writer, is_stream).await?;
        list_ignored(&mut response, ignored.names());
        Ok(response)
    };
    model.answer(&app, begin).await
}

/// The number of tokens that the prompt of a request has.
pub(super) async fn count_tokens(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    let model = app.model_of(&mut fields).await?;
    let body = MessagesBody::read(fields, MessagesPurpose::Count)?;
    let (request, ignored) = read_with(&model, move |reader| body.request(&reader.text()?)).await?;
    let mut response = json_answer(&json!({ "input_tokens": request.tokens().len() }));
    list_ignored(&mut response, ignored.names());
    Ok(response)
}
