//! `/lens`: what each layer of a model would predict after the tokens of a text.

use super::answers::{begin, client_of, read_with};
use super::fields::{list_ignored, take_ignored};
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{json_answer, read_fields};
use crate::prompts::read_prompts;
use crate::reading_model::ReadingModel;
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie::engine::{LensOptions, LensTable, LogitLens};
use menagerie_openai::{AnswerFormat, LineFault, PromptRequest};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most tokens of a prompt, and of an answer, that are read.
const MOST_TOKENS: u64 = 128;

/// The tokens of a prompt that are read without a number.
const DEFAULT_TOKENS: u64 = 64;

/// The most tokens that are listed of each layer.
const MOST_TOP: u64 = 10;

/// The fields of a body that are not those of a completion.
struct LensFields {
    /// The last tokens of the prompt that are read, before `before`.
    last: usize,
    before: Option<usize>,
    layers: Option<BTreeSet<usize>>,
    top: usize,
    /// Tokens of the answer.
    answer: usize,
}

/// A prompt under a lens.
struct LensPrompt {
    prompt: PromptRequest,
    tokens: Vec<u32>,
    lens: Arc<LogitLens>,
}

pub(super) async fn lens(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    let client = client_of(&request);
    let mut fields = read_fields(&app, request).await?;
    let ignored = take_ignored(&mut fields)?;
    let own = LensFields::take(&mut fields)?;
    let model = app.model_of(&mut fields).await?;
    let answer = own.answer;
    let LensPrompt { prompt, tokens, lens } =
        read_with(&model, move |reader| own.read(reader, fields)).await?;
    let mut answering = begin(&app, &model, vec![prompt], client)?;
    while !answering.is_complete() {
        answering.next().await?;
    }
    let made = answering.outcome(0).map(|outcome| outcome.tokens.clone()).unwrap_or_default();
    let reader = Arc::clone(&model);
    let table = move || {
        let all: Vec<u32> = tokens.iter().chain(made.iter().take(answer)).copied().collect();
        let tokenizer = reader.tokenizer().ok();
        let table = LensTable::new(&lens.rows(), &all, tokens.len(), tokenizer.as_deref());
        json!({ "object": "lens", "model": reader.id, "prompt_tokens": table.prompt_tokens, "rows": table.rows })
    };
    let mut response = json_answer(&blocking(table).await?);
    list_ignored(&mut response, &ignored);
    Ok(response)
}

impl LensFields {
    fn take(fields: &mut Map<String, Value>) -> Result<Self, LineFault> {
        let before = match fields.remove("before") {
            None => None,
            Some(value) => Some(whole("before", &value, 1..=u64::from(u32::MAX))?),
        };
        let layers = match fields.remove("layers") {
            None => None,
            Some(Value::Array(list)) => {
                let layer = |value: &Value| whole("layers", value, 0..=u64::from(u32::MAX));
                Some(list.iter().map(layer).collect::<Result<_, _>>()?)
            }
            Some(_) => return Err(LineFault::of("layers", "expected a list of layers, counted from 0")),
        };
        let mut number = |name: &str, default: u64, range| match fields.remove(name) {
            None => Ok(default as usize),
            Some(value) => whole(name, &value, range),
        };
        Ok(Self {
            last: number("last", DEFAULT_TOKENS, 1..=MOST_TOKENS)?,
            top: number("top", 1, 1..=MOST_TOP)?,
            answer: number("max_tokens", 0, 0..=MOST_TOKENS)?,
            before,
            layers,
        })
    }

    /// The prompt of the other fields, with a lens on its tokens and on its answer.
    fn read(self, model: &ReadingModel, mut fields: Map<String, Value>) -> Result<LensPrompt, ApiFault> {
        let format =
            if fields.contains_key("messages") { AnswerFormat::Chat } else { AnswerFormat::Completion };
        // A token that is sampled and not listed computes the whole prompt.
        fields.insert("max_tokens".to_owned(), self.answer.max(1).into());
        fields.entry("temperature").or_insert_with(|| 0.into());
        let mut prompts = read_prompts(model, fields, format)?.into_iter();
        let (Some(mut prompt), None) = (prompts.next(), prompts.next()) else {
            return Err(LineFault::of("prompt", "expected one prompt: a lens reads one text").into());
        };
        let tokens = prompt.tokens().to_vec();
        let [request] = prompt.answers.as_mut_slice() else {
            return Err(LineFault::of("n", "a lens reads one answer").into());
        };
        let end = self.before.unwrap_or(tokens.len());
        if end > tokens.len() {
            let reason = format!("the prompt has {} tokens", tokens.len());
            return Err(LineFault::of("before", reason).into());
        }
        let answer = tokens.len()..tokens.len() + self.answer;
        let positions: BTreeSet<usize> = (end.saturating_sub(self.last)..end).chain(answer).collect();
        let options =
            LensOptions::default().with_positions(positions).with_layers(self.layers).with_top(self.top);
        let text = model.text()?;
        let lens = Arc::new(LogitLens::new(text.pipeline.engine(), options)?);
        *request = request.clone().with_lens(Arc::clone(&lens)).with_draft(None);
        Ok(LensPrompt { prompt, tokens, lens })
    }
}

/// A whole number of a field, in a range.
fn whole(name: &str, value: &Value, range: std::ops::RangeInclusive<u64>) -> Result<usize, LineFault> {
    match value.as_u64().filter(|number| range.contains(number)) {
        Some(number) => Ok(number as usize),
        None => {
            let (first, last) = (range.start(), range.end());
            Err(LineFault::of(name, format!("expected a whole number from {first} to {last}, found {value}")))
        }
    }
}
