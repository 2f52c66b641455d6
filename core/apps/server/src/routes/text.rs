//! `/tokenize`, `/detokenize` and `/apply-template`.

use super::fields::{refuse_rest, take_flag, take_ignored};
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{json_answer, read_fields};
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie::engine::Tokenizing;
use menagerie_openai::{LineFault, RequestBody, messages_of, prompt_fault, template_fields};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn tokenize(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    take_ignored(&mut fields)?;
    let tokenizer = app.model_of(&mut fields).await?.tokenizer()?;
    let content = match fields.remove("content") {
        Some(Value::String(content)) => content,
        _ => return Err(LineFault::of("content", "expected a string").into()),
    };
    let add_special = take_flag(&mut fields, "add_special")?;
    let with_pieces = take_flag(&mut fields, "with_pieces")?;
    if take_flag(&mut fields, "parse_special")? {
        let reason = "special tokens in a text are always text; leave it out";
        return Err(LineFault::of("parse_special", reason).into());
    }
    refuse_rest(&fields)?;
    let read = move || -> Result<Value, ApiFault> {
        let tokens = match add_special {
            true => tokenizer.encode_prompt(&content),
            false => tokenizer.encode(&content),
        };
        let tokens = tokens.map_err(|error| LineFault::of("content", error))?;
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

/// A token of a prompt, in which control tokens come from the template.
fn prompt_piece(tokenizer: &dyn Tokenizing, id: u32) -> Value {
    let mut value = piece(tokenizer, id);
    value["control"] = tokenizer.is_control(id).into();
    value
}

pub(super) async fn detokenize(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    take_ignored(&mut fields)?;
    let tokenizer = app.model_of(&mut fields).await?.tokenizer()?;
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let tokens = match fields.remove("tokens") {
        Some(Value::Array(tokens)) => tokens.iter().map(id).collect::<Option<Vec<u32>>>(),
        _ => None,
    };
    let tokens = tokens.ok_or_else(|| LineFault::of("tokens", "expected a list of token ids"))?;
    refuse_rest(&fields)?;
    let read = move || -> Result<String, ApiFault> {
        let mut stream = tokenizer.stream();
        let text = tokens.iter().map(|id| stream.push(*id)).collect::<Result<String, _>>();
        Ok(text.map_err(|error| LineFault::of("tokens", error))? + &stream.finish())
    };
    Ok(json_answer(&json!({ "content": blocking(read).await?? })))
}

pub(super) async fn apply_template(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    take_ignored(&mut fields)?;
    let model = app.model_of(&mut fields).await?;
    let with_pieces = take_flag(&mut fields, "with_pieces")?;
    let read = move || -> Result<Value, ApiFault> {
        let text = model.text()?;
        let format = text.chat_format()?;
        let messages = messages_of(&fields.remove("messages").unwrap_or_default())?;
        let mut options = text.service.render.clone();
        let mut body = RequestBody::new(fields);
        template_fields(&mut body, &mut options)?;
        body.finish()?;
        let prompt = format.render_prompt(&messages, &options).map_err(|error| prompt_fault(&error))?;
        let mut answer = json!({ "prompt": prompt.text });
        if with_pieces {
            let tokenizer = model.tokenizer()?;
            answer["tokens"] = prompt.tokens.iter().map(|id| prompt_piece(&*tokenizer, *id)).collect();
        }
        Ok(answer)
    };
    Ok(json_answer(&blocking(read).await??))
}
