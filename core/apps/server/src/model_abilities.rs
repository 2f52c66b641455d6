//! What a model can do besides answering.

use crate::model::{EngineModel, EngineText};
use crate::reasoning_switch::ReasoningSwitch;
use menagerie::engine::ChatMessage;
use serde_json::json;

/// What a model can do, in ollama's words.
pub(crate) fn ollama_abilities(model: &EngineModel) -> Vec<&'static str> {
    let text = model.text().ok();
    let format = text.and_then(|text| text.chat_format().ok());
    let switch = text.zip(format).map(|(text, format)| ReasoningSwitch::of(&**format, &text.service.render));
    let tokenizer = text.and_then(|text| text.pipeline.tokenizer().ok());
    let all = [
        ("completion", text.is_some()),
        ("tools", text.is_some_and(takes_tools)),
        ("thinking", switch.is_some_and(ReasoningSwitch::is_known)),
        ("insert", tokenizer.is_some_and(|tokenizer| tokenizer.infill().is_some())),
        ("embedding", model.vectors().is_ok()),
    ];
    all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect()
}

/// Whether the calls of tools in answers are read.
pub(crate) fn takes_tools(text: &EngineText) -> bool {
    let Ok(format) = text.chat_format() else { return false };
    let parameters = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let tool = json!({ "type": "function", "function": { "name": "f", "description": "f", "parameters": parameters } });
    let options = text.service.render.clone().with_tools(vec![tool]);
    let prompt = format.render_prompt(&[ChatMessage::user("?")], &options);
    prompt.is_ok_and(|prompt| prompt.syntax.calls.is_some())
}
