//! `/v1/responses`, and the number of tokens of its input.

use super::answers::{begin, client_of, read_in, respond};
use super::asked_model::AskedModel;
use super::fields::{StreamFields, list_ignored, take_ignored};
use super::requester::Requester;
use crate::answering::Answering;
use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::{StreamFaults, json_answer, read_fields};
use crate::model::EngineModel;
use crate::prompts::{checked, prompt_tokens};
use crate::reading_model::ReadingModel;
use crate::response_writer::{ResponseHead, ResponseWriter};
use crate::utc_time::seconds;
use crate::worker::RequestClass;
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie::engine::SamplingOptions;
use menagerie_openai::{LineFault, PromptRequest, ResponseBody};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) async fn create(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let (client, faults) = (client_of(&request), StreamFaults::of(&request));
    let fields = read_fields(&app, request).await?;
    let (name, asked) = AskedResponse::read(&app, fields)?;
    let model = AskedModel::new(name, asked.is_stream.then_some(faults), &asked.ignored);
    let begin = move |app: Arc<ServerApp>, model: Arc<EngineModel>| async move {
        asked.begin(&app, &model, client.into()).await?.respond().await
    };
    model.answer(&app, begin).await
}

/// The number of tokens of the prompt that a body makes.
pub(super) async fn input_tokens(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let (name, asked) = AskedResponse::read(&app, read_fields(&app, request).await?)?;
    let model = app.models.ready(&name).await?;
    let prompts = asked.prompts(&model, RequestClass::Client).await?;
    Ok(json_answer(&json!({ "object": "response.input_tokens", "input_tokens": prompt_tokens(&prompts) })))
}

/// A response that is being computed.
pub(crate) struct BegunResponse {
    pub(crate) answering: Answering,
    pub(crate) writer: ResponseWriter,
    pub(crate) is_stream: bool,
    ignored: Vec<String>,
}

/// Begins the response to a body when its model is in memory.
pub(crate) async fn begin_response(
    app: &ServerApp,
    fields: Map<String, Value>,
    requester: Requester,
) -> Result<BegunResponse, ApiFault> {
    let (name, asked) = AskedResponse::read(app, fields)?;
    let model = app.models.ready_for(&name, requester.class).await?;
    asked.begin(app, &model, requester).await
}

impl BegunResponse {
    async fn respond(self) -> Result<Response, ApiFault> {
        let mut response = respond(self.answering, Box::new(self.writer), self.is_stream).await?;
        list_ignored(&mut response, &self.ignored);
        Ok(response)
    }
}

/// The decimal number that was meant by a 32-bit number.
fn rounded(value: f32) -> f64 {
    (f64::from(value) * 1e6).round() / 1e6
}

/// What a body asks for, apart from the model.
struct AskedResponse {
    body: Arc<ResponseBody>,
    is_stream: bool,
    ignored: Vec<String>,
}

impl AskedResponse {
    /// Reads a body; returns the name of the model too.
    fn read(app: &ServerApp, mut fields: Map<String, Value>) -> Result<(String, Self), ApiFault> {
        let metadata = fields.remove("metadata");
        // The default of the interface is to store answers; the answer says that it is not stored.
        let stores = match fields.remove("store").unwrap_or_default() {
            Value::Bool(true) => true,
            Value::Bool(false) | Value::Null => false,
            _ => return Err(LineFault::of("store", "expected true or false").into()),
        };
        let mut ignored = take_ignored(&mut fields)?;
        if stores {
            ignored.push("store".to_owned());
        }
        let StreamFields { is_stream, .. } = StreamFields::take(&mut fields, &mut ignored)?;
        let name = app.name_of(&mut fields)?;
        fields.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
        let body = Arc::new(ResponseBody::read(fields)?);
        ignored.extend(body.ignored().iter().cloned());
        Ok((name, Self { body, is_stream, ignored }))
    }

    async fn begin(
        self,
        app: &ServerApp,
        model: &Arc<EngineModel>,
        requester: Requester,
    ) -> Result<BegunResponse, ApiFault> {
        let prompts = self.prompts(model, requester.class).await?;
        let Self { body, is_stream, mut ignored } = self;
        let without_effect = prompts.iter().flat_map(|prompt| &prompt.ignored);
        ignored.extend(without_effect.map(|name| name.replace("reasoning_effort", "reasoning.effort")));
        let mut repeated = body.repeated().clone();
        let answers = prompts.iter().flat_map(|prompt| &prompt.answers);
        if let Some(SamplingOptions { temperature, top_p, .. }) =
            answers.map(|answer| &answer.sampling).next()
        {
            repeated.insert("temperature".to_owned(), rounded(*temperature).into());
            repeated.insert("top_p".to_owned(), rounded(*top_p).into());
        }
        let (id, custom) = (app.id(""), body.custom_tools().clone());
        let head = ResponseHead { id, created: seconds(), model: model.id.clone(), repeated, custom };
        let answering = begin(app, model, prompts, requester)?;
        Ok(BegunResponse { answering, writer: ResponseWriter::new(head), is_stream, ignored })
    }

    async fn prompts(
        &self,
        model: &Arc<EngineModel>,
        class: RequestClass,
    ) -> Result<Vec<PromptRequest>, ApiFault> {
        let asked = Arc::clone(&self.body);
        let read = move |model: &ReadingModel| {
            let text = model.text()?;
            // A model without a template says so.
            text.chat_format()?;
            checked(&text, vec![asked.request(&text.requests())?])
        };
        read_in(class, model, read).await
    }
}
