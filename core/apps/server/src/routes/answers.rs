//! `/v1/chat/completions` and `/v1/completions`.

use super::asked_model::AskedModel;
use super::fields::{StreamFields, list_ignored, take_ignored, take_reports};
use super::requester::Requester;
use crate::answer_writer::AnswerWriter;
use crate::answering::{AnswerHead, Answering};
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::chunk_writer::{ChunkReports, ChunkWriter};
use crate::event_stream::EventStream;
use crate::fault::ApiFault;
use crate::http::{ClientKey, StreamFaults, event_response, json_answer, read_fields};
use crate::model::EngineModel;
use crate::prompts::{prompt_tokens, read_prompts};
use crate::reading_model::ReadingModel;
use crate::utc_time::seconds;
use crate::whole_answer::WholeAnswer;
use crate::worker::{AnswersJob, CancelGuard, EngineJob, RequestClass};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie_openai::{AnswerFormat, PromptRequest};
use serde_json::{Map, Value, json};
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

async fn answer(app: &Arc<ServerApp>, request: Request, format: AnswerFormat) -> Result<Response, ApiFault> {
    let (client, faults) = (client_of(&request), StreamFaults::of(&request));
    let fields = read_fields(app, request).await?;
    let (name, asked) = AskedAnswers::read(app, fields, format, client.into())?;
    let model = AskedModel::new(name, asked.stream.is_stream.then_some(faults), &asked.ignored);
    model.answer(app, |app, model| async move { asked.begin(&app, &model).await?.respond().await }).await
}

/// The number of tokens of the prompt of a chat completion.
pub(super) async fn chat_tokens(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    let mut ignored = take_ignored(&mut fields)?;
    StreamFields::take(&mut fields, &mut ignored)?;
    let model = app.model_of(&mut fields).await?;
    let prompts = read_with(&model, move |reader| read_prompts(reader, fields, AnswerFormat::Chat)).await?;
    let tokens = prompt_tokens(&prompts);
    Ok(json_answer(&json!({ "object": "chat.completion.input_tokens", "input_tokens": tokens })))
}

/// What a body asks for, apart from the model.
struct AskedAnswers {
    fields: Map<String, Value>,
    format: AnswerFormat,
    stream: StreamFields,
    reports: ChunkReports,
    ignored: Vec<String>,
    requester: Requester,
}

/// Answers that are being computed.
pub(super) struct BegunAnswers {
    pub(super) answering: Answering,
    pub(super) writer: ChunkWriter,
    is_stream: bool,
    ignored: Vec<String>,
}

/// Begins the answers to a body when its model is in memory.
pub(super) async fn begin_answers(
    app: &ServerApp,
    fields: Map<String, Value>,
    format: AnswerFormat,
    requester: Requester,
) -> Result<BegunAnswers, ApiFault> {
    let (name, asked) = AskedAnswers::read(app, fields, format, requester)?;
    let model = app.models.ready_for(&name, requester.class).await?;
    asked.begin(app, &model).await
}

impl AskedAnswers {
    /// Reads the fields that concern no model; returns the name of the model too.
    fn read(
        app: &ServerApp,
        mut fields: Map<String, Value>,
        format: AnswerFormat,
        requester: Requester,
    ) -> Result<(String, Self), ApiFault> {
        let mut ignored = take_ignored(&mut fields)?;
        let stream = StreamFields::take(&mut fields, &mut ignored)?;
        let reports = take_reports(&mut fields, stream)?;
        // llama-server chooses fields of its own routes with it, and none of these.
        if fields.remove("response_fields").is_some() {
            ignored.push("response_fields".to_owned());
        }
        let name = app.name_of(&mut fields)?;
        Ok((name, Self { fields, format, stream, reports, ignored, requester }))
    }

    async fn begin(self, app: &ServerApp, model: &Arc<EngineModel>) -> Result<BegunAnswers, ApiFault> {
        let Self { fields, format, stream, reports, mut ignored, requester } = self;
        let prompts =
            read_in(requester.class, model, move |reader| read_prompts(reader, fields, format)).await?;
        let shows_prompt =
            |prompt: &PromptRequest| prompt.answers.iter().any(|one| one.prompt_logprobs.is_some());
        if stream.is_stream && prompts.iter().any(shows_prompt) {
            let reason =
                "echo: log probabilities of the prompt are not streamed; leave out stream, echo or logprobs";
            return Err(ApiFault::new(400, reason).with_param("echo"));
        }
        ignored.extend(prompts.iter().flat_map(|prompt| prompt.ignored.iter().cloned()));
        let prefix = if format == AnswerFormat::Chat { "chatcmpl-" } else { "cmpl-" };
        let head = AnswerHead { format, id: app.id(prefix), created: seconds(), model: model.id.clone() };
        let echoes = prompts.iter().flat_map(|prompt| prompt.answers.iter().map(|_| prompt.echo.clone()));
        let writer = ChunkWriter::new(head, stream.has_usage, echoes.collect()).with_reports(reports);
        let answering = begin(app, model, prompts, requester)?;
        Ok(BegunAnswers { answering, writer, is_stream: stream.is_stream, ignored })
    }
}

impl BegunAnswers {
    async fn respond(self) -> Result<Response, ApiFault> {
        let mut response = respond(self.answering, Box::new(self.writer), self.is_stream).await?;
        list_ignored(&mut response, &self.ignored);
        Ok(response)
    }
}

/// The key of the client of a request.
pub(super) fn client_of(request: &Request) -> ClientKey {
    request.extensions().get::<ClientKey>().copied().unwrap_or_default()
}

/// What `read` makes for a model, on a thread on which that may take a while. A full queue refuses the request before.
pub(super) async fn read_with<T, R>(model: &Arc<EngineModel>, read: R) -> Result<T, ApiFault>
where
    T: Send + 'static,
    R: FnOnce(&ReadingModel) -> Result<T, ApiFault> + Send + 'static,
{
    read_in(RequestClass::Client, model, read).await
}

/// [`read_with`] for a request of this class.
pub(super) async fn read_in<T, R>(
    class: RequestClass,
    model: &Arc<EngineModel>,
    read: R,
) -> Result<T, ApiFault>
where
    T: Send + 'static,
    R: FnOnce(&ReadingModel) -> Result<T, ApiFault> + Send + 'static,
{
    let _first = model.worker.admit_in(class, 1)?;
    let reader = Arc::clone(model);
    // Dropped with the connection of the client.
    let guard = CancelGuard::default();
    let cancel = guard.flag();
    blocking(move || read(&ReadingModel::new(&reader, &cancel))).await?
}

/// Sends the prompts of a client to the thread of the model. A salt separates its states from those of others.
pub(super) fn begin(
    app: &ServerApp,
    model: &Arc<EngineModel>,
    prompts: Vec<PromptRequest>,
    requester: impl Into<Requester>,
) -> Result<Answering, ApiFault> {
    let Requester { key: ClientKey(tenant), class } = requester.into();
    let salt = app.options.keys.salt(tenant);
    let groups: Vec<usize> = prompts.iter().map(|prompt| prompt.answers.len()).collect();
    let admission = model.worker.admit_in(class, groups.iter().sum())?;
    let (guard, (sink, messages)) = (CancelGuard::default(), unbounded_channel());
    let own = |PromptRequest { prompt, answers, .. }: PromptRequest| {
        let marked = |one: menagerie::engine::Request| {
            let priority = class.priority(one.priority);
            let one = one.with_tenant(tenant).with_priority(priority);
            one.with_cache_salt(salt.clone()).with_cancel(guard.flag())
        };
        (prompt, answers.into_iter().map(marked).collect())
    };
    let prompts = prompts.into_iter().map(own).collect();
    model.worker.send(EngineJob::Answers(AnswersJob { prompts, sink, admission }))?;
    Ok(Answering::new(Arc::clone(model), messages, groups, guard))
}

/// The response with the answers, as a stream or whole.
pub(super) async fn respond(
    answering: Answering,
    writer: Box<dyn AnswerWriter>,
    is_stream: bool,
) -> Result<Response, ApiFault> {
    match is_stream {
        true => streamed(answering, writer).await,
        false => Ok(json_answer(&whole(answering, writer).await?)),
    }
}

/// The body of the whole answers.
pub(super) async fn whole(
    mut answering: Answering,
    writer: Box<dyn AnswerWriter>,
) -> Result<Value, ApiFault> {
    let mut whole = WholeAnswer::new(answering.count());
    while !answering.is_complete() {
        answering.next().await?.into_iter().for_each(|change| whole.add(change));
    }
    Ok(writer.whole(&whole, &answering))
}

async fn streamed(mut answering: Answering, writer: Box<dyn AnswerWriter>) -> Result<Response, ApiFault> {
    let changes = match timeout(FIRST_EVENT, answering.next()).await {
        Ok(changes) => changes?,
        Err(_) => Vec::new(),
    };
    let kind = writer.content_type();
    Ok(event_response(kind, Body::from_stream(EventStream::new(answering, writer, changes))))
}
