//! Bodies as prompts, checked before they wait in the queue.

use crate::fault::ApiFault;
use crate::model::EngineText;
use crate::reading_model::ReadingModel;
use menagerie::engine::{AdapterChoice, GenerateError};
use menagerie_openai::{AnswerFormat, PromptRequest, RequestBody};
use serde_json::{Map, Value};

/// The most answers to one request.
const MOST_ANSWERS: usize = 128;

/// The prompts of a body, each with a request for every answer to it.
pub(crate) fn read_prompts(
    model: &ReadingModel,
    mut fields: Map<String, Value>,
    format: AnswerFormat,
) -> Result<Vec<PromptRequest>, ApiFault> {
    let text = model.text()?;
    let adapters = text.take_lora(&mut fields)?;
    let requests = text.requests();
    let mut prompts = match format {
        AnswerFormat::Chat => {
            // A model without a template says so.
            text.chat_format()?;
            vec![requests.chat(RequestBody::new(fields))?]
        }
        AnswerFormat::Completion => {
            let mut prompts = Vec::new();
            for fields in one_by_one(fields)? {
                prompts.push(requests.completion(RequestBody::new(fields))?);
            }
            prompts
        }
    };
    prompts.iter_mut().for_each(|prompt| adapt(prompt, adapters.as_ref()));
    checked(&text, prompts)
}

/// Lets adapters act in the answers to a prompt, if a body has chosen them.
pub(crate) fn adapt(prompt: &mut PromptRequest, adapters: Option<&AdapterChoice>) {
    if let Some(adapters) = adapters {
        prompt.answers.iter_mut().for_each(|answer| answer.adapters = adapters.clone());
    }
}

/// The number of tokens of prompts.
pub(crate) fn prompt_tokens(prompts: &[PromptRequest]) -> usize {
    prompts.iter().map(|prompt| prompt.tokens().len()).sum()
}

/// The prompts. Refuses what the engine would refuse after it has waited, and too many answers.
pub(crate) fn checked(
    text: &EngineText,
    prompts: Vec<PromptRequest>,
) -> Result<Vec<PromptRequest>, ApiFault> {
    let answers: usize = prompts.iter().map(|prompt| prompt.answers.len()).sum();
    if answers > MOST_ANSWERS {
        let reason = format!("n: {answers} answers to all prompts together; at most {MOST_ANSWERS}");
        return Err(ApiFault::new(400, reason).with_param("n"));
    }
    for prompt in &prompts {
        check(text, prompt)?;
    }
    Ok(prompts)
}

/// The same fields with each of several prompts.
fn one_by_one(mut fields: Map<String, Value>) -> Result<Vec<Map<String, Value>>, ApiFault> {
    let is_several = |list: &Vec<Value>| {
        !list.is_empty() && (list.iter().all(Value::is_string) || list.iter().all(Value::is_array))
    };
    if !fields.get("prompt").and_then(Value::as_array).is_some_and(is_several) {
        return Ok(vec![fields]);
    }
    let Some(Value::Array(prompts)) = fields.remove("prompt") else { return Ok(vec![fields]) };
    if prompts.len() > MOST_ANSWERS {
        let reason = format!("prompt: {} prompts; at most {MOST_ANSWERS}", prompts.len());
        return Err(ApiFault::new(400, reason).with_param("prompt"));
    }
    let with = |prompt: Value| {
        let mut fields = fields.clone();
        fields.insert("prompt".to_owned(), prompt);
        fields
    };
    Ok(prompts.into_iter().map(with).collect())
}

/// Refuses a prompt that the engine would refuse after it has waited.
fn check(text: &EngineText, prompt: &PromptRequest) -> Result<(), GenerateError> {
    let tokens = prompt.tokens();
    let engine = text.pipeline.engine();
    let (count, vocabulary) = (tokens.len(), text.pipeline.vocabulary());
    if count == 0 {
        return Err(GenerateError::EmptyPrompt);
    }
    if count > engine.context {
        return Err(match engine.learned_positions {
            Some(positions) if positions <= engine.context => {
                GenerateError::PastPositions { tokens: count, positions }
            }
            _ => GenerateError::PromptTooLong { tokens: count, context: engine.context },
        });
    }
    match tokens.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
        Some((index, &id)) => Err(GenerateError::TokenOutOfRange { id, index, vocabulary }),
        None => Ok(()),
    }
}
