//! Routes of llama-server: `/props`, `/slots`, `/lora-adapters` and `/infill`.

use super::answers::{begin, client_of, read_with, respond};
use super::asked_model::AskedModel;
use super::fields::list_ignored;
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{ClientKey, StreamFaults, json_answer, query_value, read_fields};
use crate::infill_writer::InfillWriter;
use crate::model::EngineModel;
use crate::model_abilities::takes_tools;
use crate::object_fields::{ObjectFields, SAMPLING_FIELDS};
use crate::prompts::{adapt, checked};
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use menagerie_openai::{InfillTexts, LineFault, RequestBody, take_harmless};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Fields with the same name in a completion, apart from sampling.
const SAME: [&str; 6] = ["logit_bias", "ignore_eos", "priority", "samplers", "n_indent", "n_predict"];

/// The model of the query, `?model=NAME`, if it is in memory; the only one without it.
fn queried(app: &ServerApp, uri: &Uri) -> Result<Arc<EngineModel>, ApiFault> {
    let mut fields = Map::new();
    if let Some(name) = query_value(uri, "model") {
        fields.insert("model".to_owned(), name.into());
    }
    app.models.loaded(&app.name_of(&mut fields)?)
}

/// What a model is, and how it is served.
pub(super) async fn props(State(app): State<Arc<ServerApp>>, uri: Uri) -> Result<Response, ApiFault> {
    let model = queried(&app, &uri)?;
    let read = move || {
        let text = model.text().ok();
        let template = text.and_then(|text| text.chat_format().ok()).and_then(|format| format.template());
        json!({
            "default_generation_settings": { "n_ctx": model.context() }, "total_slots": model.worker.parallel(),
            "model_alias": model.id, "chat_template": template.unwrap_or_default(),
            "chat_template_caps": { "supports_tools": text.is_some_and(takes_tools) },
            "modalities": { "vision": false, "audio": false },
            "build_info": concat!("menagerie ", env!("CARGO_PKG_VERSION")),
        })
    };
    Ok(json_answer(&blocking(read).await?))
}

/// The places of requests that run at once, without their prompts.
pub(super) async fn slots(State(app): State<Arc<ServerApp>>, uri: Uri) -> Result<Response, ApiFault> {
    let model = queried(&app, &uri)?;
    let (open, context) = (model.worker.open(), model.context());
    let slot = |id: usize| json!({ "id": id, "n_ctx": context, "is_processing": id < open });
    Ok(json_answer(&(0..model.worker.parallel()).map(slot).collect()))
}

/// The adapters of a model, with the numbers that the field `lora` names.
pub(super) async fn lora_adapters(State(app): State<Arc<ServerApp>>, uri: Uri) -> Result<Response, ApiFault> {
    let model = queried(&app, &uri)?;
    Ok(json_answer(&model.text()?.adapters.listed()))
}

/// The scales of adapters belong to requests: others would get other answers.
pub(super) async fn set_lora_adapters() -> ApiFault {
    let reason = "the scales of adapters are not changed for all clients; send the field lora with each request, or name \
                  the model as MODEL:ADAPTER";
    ApiFault::new(400, reason).with_code("not_supported")
}

/// A text between two others.
pub(super) async fn infill(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let (client, faults) = (client_of(&request), StreamFaults::of(&request));
    let mut fields = read_fields(&app, request).await?;
    let name = app.name_of(&mut fields)?;
    let body = InfillBody::read(fields)?;
    let model = AskedModel::new(name, body.is_stream.then_some(faults), &body.ignored);
    model.answer(&app, move |app, model| async move { answer(&app, &model, body, client).await }).await
}

async fn answer(
    app: &ServerApp,
    model: &Arc<EngineModel>,
    body: InfillBody,
    client: ClientKey,
) -> Result<Response, ApiFault> {
    let InfillBody { texts, mut options, wanted, is_stream, ignored } = body;
    let writer = Box::new(InfillWriter::new(model.id.clone(), wanted));
    let prompts = read_with(model, move |reader| {
        let text = reader.text()?;
        let tokenizer = reader.model().tokenizer()?;
        options.insert("prompt".to_owned(), texts.prompt(&*tokenizer, "input_prefix")?.into());
        let adapters = text.take_lora(&mut options)?;
        let mut request = text.requests().completion(RequestBody::new(options))?;
        adapt(&mut request, adapters.as_ref());
        checked(&text, vec![request])
    })
    .await?;
    let answering = begin(app, model, prompts, client)?;
    let mut response = respond(answering, writer, is_stream).await?;
    list_ignored(&mut response, &ignored);
    Ok(response)
}

/// The body of `/infill`.
struct InfillBody {
    texts: InfillTexts,
    /// The options of the answer, as fields of a completion.
    options: Map<String, Value>,
    wanted: Vec<String>,
    is_stream: bool,
    ignored: Vec<String>,
}

impl InfillBody {
    fn read(mut fields: Map<String, Value>) -> Result<Self, LineFault> {
        let ignored = take_harmless(&mut fields)?;
        let lora = fields.remove("lora");
        let (mut body, mut options) = (ObjectFields::of_body(fields), Map::new());
        body.pass(&SAMPLING_FIELDS, &mut options);
        body.pass(&SAME, &mut options);
        options.extend(lora.map(|lora| ("lora".to_owned(), lora)));
        let mut before = body.needed_text("input_prefix")?;
        let after = body.needed_text("input_suffix")?;
        before.push_str(&body.text("prompt")?.unwrap_or_default());
        let mut files = Vec::new();
        for (index, file) in body.list("input_extra")?.unwrap_or_default().into_iter().enumerate() {
            let mut file = ObjectFields::read(format!("input_extra[{index}]"), file)?;
            files.push((file.needed_text("filename")?, file.needed_text("text")?));
            // When the editor saw it.
            file.take("time");
            file.finish()?;
        }
        let wanted = body.list("response_fields")?.unwrap_or_default();
        let wanted =
            wanted.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>();
        let wanted = wanted.ok_or_else(|| body.fault("response_fields", "expected a list of strings"))?;
        let is_stream = body.flag("stream")?.unwrap_or(false);
        body.finish()?;
        Ok(Self { texts: InfillTexts { before, after, files }, options, wanted, is_stream, ignored })
    }
}
