//! `/tokenize`, `/detokenize` and `/apply-template`.

use super::fields::{refuse_rest, take_ignored};
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{json_answer, read_fields};
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie::engine::Tokenizing;
use menagerie_openai::{RequestBody, messages_of, prompt_fault, tools_of};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) async fn tokenize(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    take_ignored(&mut fields)?;
    let tokenizer = app.model_of(&mut fields)?.tokenizer()?;
    let content = match fields.remove("content") {
        Some(Value::String(content)) => content,
        _ => return Err(wrong("content", "expected a string")),
    };
    let add_special = flag(&mut fields, "add_special")?;
    let with_pieces = flag(&mut fields, "with_pieces")?;
    if flag(&mut fields, "parse_special")? {
        return Err(wrong("parse_special", "special tokens in a text are always text; leave it out"));
    }
    refuse_rest(&fields)?;
    let read = move || -> Result<Value, ApiFault> {
        let tokens = match add_special {
            true => tokenizer.encode_prompt(&content),
            false => tokenizer.encode(&content),
        };
        let tokens = tokens.map_err(|error| wrong("content", &error.to_string()))?;
        Ok(match with_pieces {
            true => tokens.iter().map(|id| piece(&*tokenizer, *id)).collect(),
            false => json!(tokens),
        })
    };
    Ok(json_answer(&json!({ "tokens": blocking(read).await?? })))
}

/// A token with its text, or with its bytes if they are a part of a character.
fn piece(tokenizer: &dyn Tokenizing, id: u32) -> Value {
    let bytes = tokenizer.bytes(id);
    match String::from_utf8(bytes) {
        Ok(text) => json!({ "id": id, "piece": text }),
        Err(error) => json!({ "id": id, "piece": error.into_bytes() }),
    }
}

pub(super) async fn detokenize(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    take_ignored(&mut fields)?;
    let tokenizer = app.model_of(&mut fields)?.tokenizer()?;
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let tokens = match fields.remove("tokens") {
        Some(Value::Array(tokens)) => tokens.iter().map(id).collect::<Option<Vec<u32>>>(),
        _ => None,
    };
    let tokens = tokens.ok_or_else(|| wrong("tokens", "expected a list of token ids"))?;
    refuse_rest(&fields)?;
    let read = move || -> Result<String, ApiFault> {
        let mut stream = tokenizer.stream();
        let text = tokens.iter().map(|id| stream.push(*id)).collect::<Result<String, _>>();
        Ok(text.map_err(|error| wrong("tokens", &error.to_string()))? + &stream.finish())
    };
    Ok(json_answer(&json!({ "content": blocking(read).await?? })))
}

pub(super) async fn apply_template(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    take_ignored(&mut fields)?;
    let model = app.model_of(&mut fields)?;
    let read = move || -> Result<String, ApiFault> {
        let text = model.text()?;
        let format = text.chat_format()?;
        let messages = messages_of(&fields.remove("messages").unwrap_or_default())?;
        let mut options = text.service.render.clone();
        match fields.remove("chat_template_kwargs") {
            None => {}
            Some(Value::Object(arguments)) => options.arguments.extend(arguments),
            Some(_) => return Err(wrong("chat_template_kwargs", "expected an object")),
        }
        let mut body = RequestBody::new(fields);
        tools_of(&mut body, &mut options)?;
        body.finish()?;
        Ok(format.render_prompt(&messages, &options).map_err(|error| prompt_fault(&error))?.text)
    };
    Ok(json_answer(&json!({ "prompt": blocking(read).await?? })))
}

fn flag(fields: &mut Map<String, Value>, name: &str) -> Result<bool, ApiFault> {
    match fields.remove(name) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(value),
        Some(_) => Err(wrong(name, "expected true or false")),
    }
}

fn wrong(name: &str, reason: &str) -> ApiFault {
    ApiFault::new(400, format!("{name}: {reason}")).with_param(name)
}
