//! ollama's interface: its version, its lists of models, and answers.

use super::answers::{begin, client_of, read_with, respond};
use super::fields::{list_ignored, refuse_rest};
use super::vectors::{compute, read_texts};
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{ClientKey, event_response, json_answer, read_fields};
use crate::model::EngineModel;
use crate::model_abilities::ollama_abilities;
use crate::model_card::ModelCard;
use crate::object_fields::{IgnoredFields, ObjectFields};
use crate::ollama::{
    LineWriter, OllamaBody, OllamaPrompt, OllamaRoute, PullLines, PullWatch, nanoseconds, sampling_options,
    shown_name, take_name,
};
use crate::prompts::checked;
use crate::slots::SlotView;
use crate::utc_time::UtcTime;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The version of ollama whose interface this is. Clients refuse older ones.
const VERSION: &str = "0.12.6";

pub(super) async fn version() -> Response {
    json_answer(&json!({ "version": VERSION }))
}

/// The models of the server.
pub(super) async fn tags(State(app): State<Arc<ServerApp>>) -> Response {
    let mut models = Vec::new();
    for view in app.models.views() {
        models.push(entry(&app, &view.id, view.card.as_ref()));
        let adapted = view.adapters.iter().map(|adapter| format!("{}:{adapter}", view.id));
        models.extend(adapted.map(|name| entry(&app, &name, view.card.as_ref())));
    }
    json_answer(&json!({ "models": models }))
}

/// The models that are in memory.
pub(super) async fn ps(State(app): State<Arc<ServerApp>>) -> Response {
    let loaded = |view: SlotView| {
        let mut entry = entry(&app, &view.id, view.card.as_ref());
        entry["context_length"] = view.context?.into();
        Some(entry)
    };
    let models: Vec<Value> = app.models.views().into_iter().filter_map(loaded).collect();
    json_answer(&json!({ "models": models }))
}

/// What a model is and can do.
pub(super) async fn show(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    let (model, fields, _) = model_of(&app, request).await?;
    let mut body = ObjectFields::of_body(fields);
    body.flag("verbose")?;
    body.finish()?;
    let modified = UtcTime::of_seconds(app.created).to_string();
    let read = move || {
        let template = model.text().ok().and_then(|text| text.chat_format().ok()?.template());
        let mut info = Map::new();
        if let Some(card) = &model.card {
            info.insert("general.architecture".to_owned(), card.architecture.clone().into());
            info.insert(format!("{}.context_length", card.architecture), model.context().into());
        }
        json!({
            "details": details(model.card.as_ref()), "model_info": info, "capabilities": ollama_abilities(&model),
            "template": template.unwrap_or_default(), "modified_at": modified,
        })
    };
    Ok(json_answer(&blocking(read).await?))
}

/// Downloads a model, if the server may do it. Clients that ask for the same model wait for one download, which ends when
/// the last of them is gone; the next one goes on where it stopped.
pub(super) async fn pull(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    let name = take_name(&mut fields, |_| false)?;
    let Some(puller) = &app.options.puller else {
        let reason = format!(
            "pull: this server downloads no models; start it with --installed --allow-pull, or run `menagerie pull {name}` on \
             its machine"
        );
        return Err(ApiFault::new(403, reason).with_code("pull_not_allowed"));
    };
    let mut body = ObjectFields::of_body(fields);
    let is_stream = body.flag("stream")?.unwrap_or(true);
    if body.flag("insecure")? == Some(true) {
        return Err(body
            .fault("insecure", "checksums and certificates are always checked; leave it out")
            .into());
    }
    body.finish()?;
    let watch = PullWatch::new(Arc::clone(&app), app.pulls.join(&name, puller)?);
    match is_stream {
        true => Ok(event_response("application/x-ndjson", Body::from_stream(PullLines::new(watch)))),
        false => Ok(json_answer(&watch.whole().await?)),
    }
}

pub(super) async fn chat(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    answer(&app, request, OllamaRoute::Chat).await
}

pub(super) async fn generate(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    answer(&app, request, OllamaRoute::Generate).await
}

async fn answer(app: &ServerApp, request: Request, kind: OllamaRoute) -> Result<Response, ApiFault> {
    let (started, client) = (Instant::now(), client_of(&request));
    let (model, fields, loading) = model_of(app, request).await?;
    let mut body = match kind {
        OllamaRoute::Chat => OllamaBody::of_chat(fields, model.context())?,
        OllamaRoute::Generate => OllamaBody::of_generate(fields, model.context())?,
    };
    let (is_stream, ignored) = (body.is_stream, std::mem::take(&mut body.ignored));
    let writer = Box::new(LineWriter::new(kind, &model.id, started, loading));
    let mut response = if body.prompt == OllamaPrompt::Nothing {
        model.text()?;
        json_answer(&writer.loaded())
    } else {
        let prompts = read_with(&model, move |reader| {
            let text = reader.text()?;
            checked(&text, vec![body.request(&text)?])
        });
        let answering = begin(app, &model, prompts.await?, client)?;
        respond(answering, writer, is_stream).await?
    };
    list_ignored(&mut response, ignored.names());
    Ok(response)
}

/// Vectors of texts.
pub(super) async fn embed(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    let started = Instant::now();
    let ClientKey(tenant) = client_of(&request);
    let (model, fields, loading) = model_of(&app, request).await?;
    let (mut body, mut ignored) = (ObjectFields::of_body(fields), IgnoredFields::default());
    body.ignore(&["keep_alive"], &mut ignored);
    let mut options = Map::new();
    sampling_options(&mut body, model.context(), &mut options, &mut ignored)?;
    for name in options.keys() {
        ignored.add(&format!("options.{name}"));
    }
    let mut fields = Map::new();
    body.pass(&["input", "truncate"], &mut fields);
    refuse_rest(&body.into_rest())?;
    let admission = model.worker.admit(1)?;
    let (body, options) = read_texts(&model, fields).await?;
    let tokens = body.tokens();
    let vectors = compute(&model, body.texts, options, (tenant, admission)).await?;
    let mut response = json_answer(&json!({
        "model": shown_name(&model.id), "embeddings": vectors, "total_duration": nanoseconds(started.elapsed()),
        "load_duration": nanoseconds(loading), "prompt_eval_count": tokens,
    }));
    list_ignored(&mut response, ignored.names());
    Ok(response)
}

/// The model of a request, the other fields of its body, and the time in which it waited for the model.
async fn model_of(
    app: &ServerApp,
    request: Request,
) -> Result<(Arc<EngineModel>, Map<String, Value>, Duration), ApiFault> {
    let mut fields = read_fields(app, request).await?;
    let name = take_name(&mut fields, |name| app.models.view(name).is_ok())?;
    let asked = Instant::now();
    Ok((app.models.ready(&name).await?, fields, asked.elapsed()))
}

fn entry(app: &ServerApp, id: &str, card: Option<&ModelCard>) -> Value {
    let name = shown_name(id);
    let modified = UtcTime::of_seconds(app.created).to_string();
    let mut entry = json!({ "name": name, "model": name, "modified_at": modified, "details": details(card) });
    if let Some(card) = card {
        entry["size"] = card.bytes.into();
    }
    entry
}

fn details(card: Option<&ModelCard>) -> Value {
    match card {
        Some(card) => {
            json!({ "parent_model": "", "family": card.architecture, "families": [card.architecture] })
        }
        None => json!({ "parent_model": "" }),
    }
}
