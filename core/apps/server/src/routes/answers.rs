//! `/v1/chat/completions` and `/v1/completions`.

use super::fields::{StreamFields, list_ignored, take_ignored};
use crate::answering::{AnswerHead, Answering};
use crate::app::{ServerApp, seconds};
use crate::blocking::blocking;
use crate::chunk_writer::ChunkWriter;
use crate::event_stream::EventStream;
use crate::fault::ApiFault;
use crate::http::{ClientKey, json_answer, read_fields};
use crate::model::EngineModel;
use crate::prompts::read_prompts;
use crate::whole_answer::WholeAnswer;
use crate::worker::{AnswersJob, CancelGuard, EngineJob};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use menagerie_openai::{AnswerFormat, BatchRequest};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

/// A stream begins with the first thing that happens to its answers, or after this time: errors that the engine finds
/// at once have a status of their own.
const FIRST_EVENT: Duration = Duration::from_secs(1);

pub(super) async fn chat(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    answer(&app, request, AnswerFormat::Chat).await
}

pub(super) async fn completion(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    answer(&app, request, AnswerFormat::Completion).await
}

async fn answer(app: &ServerApp, request: Request, format: AnswerFormat) -> Result<Response, ApiFault> {
    let ClientKey(tenant) = request.extensions().get::<ClientKey>().copied().unwrap_or_default();
    let mut fields = read_fields(app, request).await?;
    let mut ignored = take_ignored(&mut fields)?;
    let stream = StreamFields::take(&mut fields, &mut ignored)?;
    let model = app.model_of(&mut fields)?;
    // A full queue refuses a request before anything is rendered.
    let first = model.worker.admit(1)?;
    let reader = Arc::clone(&model);
    let prompts = blocking(move || read_prompts(&reader, fields, format)).await??;
    let shows_prompt = |prompt: &BatchRequest| prompt.answers.iter().any(|one| one.prompt_logprobs.is_some());
    if stream.is_stream && prompts.iter().any(shows_prompt) {
        let reason =
            "echo: log probabilities of the prompt are not streamed; leave out stream, echo or logprobs";
        return Err(ApiFault::new(400, reason).with_param("echo"));
    }
    drop(first);
    let prefix = if format == AnswerFormat::Chat { "chatcmpl-" } else { "cmpl-" };
    let head = AnswerHead { format, id: app.id(prefix), created: seconds(), model: model.id.clone() };
    let salt = app.options.keys.salt(tenant);
    let (answering, echoes) = begin(&model, prompts, (tenant, salt))?;
    let mut response = match stream.is_stream {
        true => streamed(answering, ChunkWriter::new(head, stream.has_usage, echoes)).await?,
        false => whole(answering, WholeAnswer::new(head, echoes)).await?,
    };
    list_ignored(&mut response, &ignored);
    Ok(response)
}

/// Sends the prompts of a tenant to the thread of the model; the salt separates its states from those of others. Also
/// returns the text with which each answer begins.
fn begin(
    model: &Arc<EngineModel>,
    prompts: Vec<BatchRequest>,
    (tenant, salt): (u64, Option<Arc<str>>),
) -> Result<(Answering, Vec<Option<String>>), ApiFault> {
    let groups: Vec<usize> = prompts.iter().map(|prompt| prompt.answers.len()).collect();
    let admission = model.worker.admit(groups.iter().sum())?;
    let (guard, (sink, messages)) = (CancelGuard::default(), unbounded_channel());
    let mut echoes = Vec::new();
    let own = |BatchRequest { prompt, answers, echo, .. }: BatchRequest| {
        echoes.extend(answers.iter().map(|_| echo.clone()));
        let marked = |one: menagerie::engine::Request| {
            one.with_tenant(tenant).with_cache_salt(salt.clone()).with_cancel(guard.flag())
        };
        (prompt, answers.into_iter().map(marked).collect())
    };
    let prompts = prompts.into_iter().map(own).collect();
    model.worker.send(EngineJob::Answers(AnswersJob { prompts, sink, admission }))?;
    Ok((Answering::new(Arc::clone(model), messages, groups, guard), echoes))
}

async fn whole(mut answering: Answering, mut whole: WholeAnswer) -> Result<Response, ApiFault> {
    while !answering.is_complete() {
        answering.next().await?.into_iter().for_each(|change| whole.add(change));
    }
    Ok(json_answer(&whole.body(&answering)))
}

async fn streamed(mut answering: Answering, writer: ChunkWriter) -> Result<Response, ApiFault> {
    let changes = match timeout(FIRST_EVENT, answering.next()).await {
        Ok(changes) => changes?,
        Err(_) => Vec::new(),
    };
    let mut response = Response::new(Body::from_stream(EventStream::new(answering, writer, changes)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would collect the events.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}
