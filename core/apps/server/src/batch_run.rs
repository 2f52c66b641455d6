//! [`BatchRun`]: a batch that is being answered.

use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::event_log::EventLog;
use crate::fault::ApiFault;
use crate::http::ClientKey;
use crate::model::EngineModel;
use crate::routes::{BatchEndpoint, Requester, line_answer};
use crate::stored::BatchFolder;
use crate::utc_time::seconds;
use crate::worker::RequestClass;
use menagerie_openai::{
    BatchFault, BatchInput, EarlierResults, LineFault, ResultFile, opened_fields, request_id, result_line,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The most errors of lines that are listed.
const MOST_ERRORS: usize = 100;
/// How often it is checked whether the batch is cancelled.
const POLL: Duration = Duration::from_millis(100);
/// How long a model that cannot answer at the moment is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// A batch that is being answered.
pub(crate) struct BatchRun {
    app: Arc<ServerApp>,
    folder: Arc<BatchFolder>,
    id: String,
    owner: String,
    requester: Requester,
}

/// A line of a batch and its answer.
type AnsweredLine = (usize, Result<Value, ApiFault>);

/// By id of a model: what its answers depend on besides requests.
type MadeOf = BTreeMap<String, Map<String, Value>>;

/// A batch whose lines can be read and whose results can be written.
struct OpenBatch {
    endpoint: BatchEndpoint,
    input: BatchInput,
    out: ResultFile,
    /// Lines without a result, in reverse order.
    left: Vec<usize>,
    made: MadeOf,
}

impl OpenBatch {
    fn open(
        endpoint: BatchEndpoint,
        input: BatchInput,
        results: &Path,
        made: MadeOf,
    ) -> Result<Self, BatchStop> {
        let mut all = Map::from_iter([("version".to_owned(), env!("CARGO_PKG_VERSION").into())]);
        for (id, made) in &made {
            all.extend(made.iter().map(|(name, value)| (format!("{name} of {id}"), value.clone())));
        }
        let out = ResultFile::open(results, &all, EarlierResults::Keep)?;
        let is_done = |index: &usize| {
            let place = &input.lines()[*index];
            out.done().get(&place.id).is_some_and(|done| done.request == request_id(place))
        };
        let left = (0..input.lines().len()).rev().filter(|index| !is_done(index)).collect();
        Ok(Self { endpoint, input, out, left, made })
    }
}

/// Why a batch does not go on.
enum BatchStop {
    /// Its file is not one of requests: errors of lines in OpenAI's format.
    Invalid(Vec<Value>),
    /// Something else failed.
    Failed(String),
}

impl From<BatchFault> for BatchStop {
    fn from(fault: BatchFault) -> Self {
        // The path of a file is none of the client's business.
        Self::Failed(fault.reason)
    }
}

impl From<ApiFault> for BatchStop {
    fn from(fault: ApiFault) -> Self {
        Self::Failed(fault.message)
    }
}

impl BatchRun {
    /// A batch of the client with this number.
    pub(crate) fn new(
        app: Arc<ServerApp>,
        folder: Arc<BatchFolder>,
        id: String,
        (owner, client): (String, u64),
    ) -> Self {
        let requester = Requester { key: ClientKey(client), class: RequestClass::BatchLine };
        Self { app, folder, id, owner, requester }
    }

    /// Answers its lines, or those until the server ends.
    pub(crate) async fn run(self) {
        let stopped = match self.answer().await {
            Ok(()) => return,
            Err(BatchStop::Invalid(errors)) => errors,
            Err(BatchStop::Failed(message)) => {
                vec![json!({ "code": "batch_failed", "message": message, "param": null, "line": null })]
            }
        };
        let failed = self.change(move |batch| {
            batch["status"] = json!("failed");
            batch["failed_at"] = json!(seconds());
            batch["errors"] = json!({ "object": "list", "data": stopped });
        });
        // A folder that cannot be written keeps the batch as it was, and the next server tries again.
        if let Err(fault) = failed.await {
            let reason = format!("{}: {}", self.id, fault.message);
            EventLog::of(&self.app.options).error("batch_failed", &reason);
        }
    }

    async fn answer(&self) -> Result<(), BatchStop> {
        let batch = self.body();
        let Some(endpoint) = batch["endpoint"].as_str().and_then(BatchEndpoint::of) else {
            return Err(BatchStop::Failed("endpoint: it is not one of a batch".to_owned()));
        };
        let file = batch["input_file_id"].as_str().unwrap_or_default();
        if self.folder.files.get(&self.owner, file).is_none() {
            return Err(BatchStop::Failed(format!("input_file_id: there is no file {file:?}")));
        }
        let (path, is_new) = (self.folder.content(file), batch["status"] == "validating");
        let read = move || -> Result<_, BatchStop> {
            let mut input =
                BatchInput::open(&path).map_err(|fault| BatchStop::Invalid(vec![whole_error(&fault)]))?;
            if is_new {
                check(&mut input, endpoint)?;
            }
            let names = model_names(&mut input, endpoint)?;
            Ok((input, names))
        };
        let (input, names) = blocking(read).await??;
        // The server ends: the next one goes on.
        let Some(made) = self.made(names).await else { return Ok(()) };
        let results = self.folder.results(&self.id);
        let mut open = blocking(move || OpenBatch::open(endpoint, input, &results, made)).await??;
        let total = open.input.lines().len();
        self.change(move |batch| {
            if batch["status"] == "validating" {
                batch["status"] = json!("in_progress");
            }
            if batch["in_progress_at"].is_null() {
                batch["in_progress_at"] = json!(seconds());
            }
            batch["request_counts"]["total"] = json!(total);
        })
        .await?;
        match self.lines(&mut open).await? {
            true => self.finish(open.out).await,
            // The next server goes on.
            false => Ok(()),
        }
    }

    /// Answers the lines that are left; returns whether the batch is complete or cancelled.
    async fn lines(&self, open: &mut OpenBatch) -> Result<bool, BatchStop> {
        let mut answers: JoinSet<AnsweredLine> = JoinSet::new();
        loop {
            let parallel = self.app.models.of_running(|model| model.worker.parallel()).into_iter().max();
            let width = parallel.unwrap_or(1).max(1) * 2;
            if self.app.is_draining.load(Ordering::Relaxed) {
                answers.shutdown().await;
                return Ok(false);
            }
            if self.body()["status"] == "cancelling" {
                answers.shutdown().await;
                return Ok(true);
            }
            while answers.len() < width
                && let Some(index) = open.left.pop()
            {
                let line = open.input.value(index)?;
                answers.spawn(self.line(index, open.endpoint, line));
            }
            self.count(&open.out);
            if answers.is_empty() {
                return Ok(true);
            }
            let answered = tokio::select! {
                answered = answers.join_next() => answered,
                () = sleep(POLL) => continue,
            };
            match answered {
                // The server ends, or a model is not there at the moment: that is no result.
                Some(Ok((index, Err(fault)))) if fault.is_for_now() => {
                    open.left.push(index);
                    sleep(PAUSE).await;
                }
                Some(Ok((index, answer))) => {
                    self.check_models(&open.made)?;
                    self.write(open, index, answer)?;
                }
                Some(Err(panic)) => return Err(BatchStop::Failed(format!("a line failed: {panic}"))),
                None => {}
            }
        }
    }

    fn write(
        &self,
        open: &mut OpenBatch,
        index: usize,
        answer: Result<Value, ApiFault>,
    ) -> Result<(), BatchStop> {
        let place = &open.input.lines()[index];
        let line = match answer {
            Ok(body) => result_line(place, 200, body),
            Err(fault) => result_line(place, fault.status, fault.json()),
        };
        Ok(open.out.write(&line)?)
    }

    /// The answer to a line.
    fn line(
        &self,
        index: usize,
        endpoint: BatchEndpoint,
        line: Option<Value>,
    ) -> impl Future<Output = AnsweredLine> + Send + use<> {
        let (app, requester) = (Arc::clone(&self.app), self.requester);
        async move {
            let answer = match fields_of(line, endpoint) {
                Ok(fields) => line_answer(&app, endpoint, fields, requester).await,
                Err(fault) => Err(fault.into()),
            };
            (index, answer)
        }
    }

    /// Makes files of the results, and ends the batch.
    async fn finish(&self, out: ResultFile) -> Result<(), BatchStop> {
        let is_cancelled = self.body()["status"] == "cancelling";
        self.change(move |batch| {
            if !is_cancelled {
                batch["status"] = json!("finalizing");
                batch["finalizing_at"] = json!(seconds());
            }
        })
        .await?;
        let counts = out.counts();
        let (folder, owner, id) = (Arc::clone(&self.folder), self.owner.clone(), self.id.clone());
        let files = blocking(move || -> Result<_, BatchStop> {
            out.finish()?;
            Ok(folder.finish(&owner, &id, seconds(), counts)?)
        });
        let [output, error] = files.await??;
        self.change(move |batch| {
            let (status, time) = match is_cancelled {
                true => ("cancelled", "cancelled_at"),
                false => ("completed", "completed_at"),
            };
            batch["status"] = json!(status);
            batch[time] = json!(seconds());
            batch["output_file_id"] = json!(output);
            batch["error_file_id"] = json!(error);
            batch["request_counts"]["completed"] = json!(counts[0]);
            batch["request_counts"]["failed"] = json!(counts[1]);
        })
        .await?;
        self.folder.remove_results(&self.id);
        Ok(())
    }

    /// Shows how far it is.
    fn count(&self, out: &ResultFile) {
        let [completed, failed] = out.counts();
        self.folder.batches.note(&self.id, |batch| {
            batch["request_counts"]["completed"] = json!(completed);
            batch["request_counts"]["failed"] = json!(failed);
        });
    }

    /// What the answers of models with these names depend on besides their lines: the results of other models are not
    /// continued. A model that cannot be opened has none; its lines say why. `None` if the server ends.
    async fn made(&self, names: BTreeSet<Option<String>>) -> Option<MadeOf> {
        let mut made = MadeOf::new();
        for name in names {
            let mut body = Map::from_iter([("model".to_owned(), json!(name))]);
            let Ok(name) = self.app.name_of(&mut body) else { continue };
            loop {
                match self.app.models.ready_for(&name, self.requester.class).await {
                    Ok(model) => drop(made.insert(model.id.clone(), model.made.clone())),
                    Err(fault) if !fault.is_for_now() => {}
                    Err(_) if self.body()["status"] == "cancelling" => {}
                    Err(_) if self.app.is_draining.load(Ordering::Relaxed) => return None,
                    Err(_) => {
                        sleep(PAUSE).await;
                        continue;
                    }
                }
                break;
            }
        }
        Some(made)
    }

    /// Refuses models that have been replaced since the batch began.
    fn check_models(&self, made: &MadeOf) -> Result<(), BatchStop> {
        let other = |model: &EngineModel| {
            made.get(&model.id).is_some_and(|known| *known != model.made).then(|| model.id.clone())
        };
        match self.app.models.of_running(other).into_iter().flatten().next() {
            None => Ok(()),
            Some(id) => Err(BatchStop::Failed(format!("the model {id} has changed since the batch began"))),
        }
    }

    fn body(&self) -> Value {
        self.folder.batches.get(&self.owner, &self.id).unwrap_or_default()
    }

    async fn change(&self, change: impl FnOnce(&mut Value) + Send + 'static) -> Result<(), ApiFault> {
        let (folder, id) = (Arc::clone(&self.folder), self.id.clone());
        blocking(move || folder.batches.change(&id, change)).await?.map(drop)
    }
}

/// The fields of a line.
fn fields_of(line: Option<Value>, endpoint: BatchEndpoint) -> Result<Map<String, Value>, LineFault> {
    let Some(Value::Object(line)) = line else {
        return Err(LineFault::whole("the line is not a JSON object"));
    };
    let (url, fields) = opened_fields(line)?;
    if url != endpoint.path() {
        return Err(LineFault::of(
            "url",
            format!("{url:?} is not the endpoint of the batch, {}", endpoint.path()),
        ));
    }
    Ok(fields)
}

/// The names of the models of all lines; `None` for lines without one.
fn model_names(
    input: &mut BatchInput,
    endpoint: BatchEndpoint,
) -> Result<BTreeSet<Option<String>>, BatchStop> {
    let mut names = BTreeSet::new();
    for index in 0..input.lines().len() {
        if let Ok(fields) = fields_of(input.value(index)?, endpoint) {
            names.insert(fields.get("model").and_then(Value::as_str).map(str::to_owned));
        }
    }
    Ok(names)
}

/// Checks the lines of a file: that they are requests for this endpoint.
fn check(input: &mut BatchInput, endpoint: BatchEndpoint) -> Result<(), BatchStop> {
    let mut errors = Vec::new();
    for index in 0..input.lines().len() {
        if let Err(fault) = fields_of(input.value(index)?, endpoint) {
            let line = input.lines()[index].number;
            let LineFault { message, field, .. } = fault;
            errors.push(json!({ "code": "invalid_line", "message": message, "param": field, "line": line }));
            if errors.len() == MOST_ERRORS {
                break;
            }
        }
    }
    if input.lines().is_empty() {
        let message = "the file has no lines";
        errors.push(json!({ "code": "empty_file", "message": message, "param": null, "line": null }));
    }
    if errors.is_empty() { Ok(()) } else { Err(BatchStop::Invalid(errors)) }
}

/// The error of a file that cannot be read as lines.
fn whole_error(fault: &BatchFault) -> Value {
    json!({ "code": "invalid_file", "message": fault.reason, "param": null, "line": null })
}
