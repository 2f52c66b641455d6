//! A chat template with its tokenizer as a capability: [`TemplateFormat`].

use crate::final_message::FinalMessage;
use crate::fingerprint::in_hex;
use menagerie_engine::{
    AnswerSyntax, CallSyntax, ChatCapable, ChatMessage, RenderOptions, RenderedPrompt, TextError, ToolSet,
};
use menagerie_loaders::{CallSupport, CallSupportError, ChatTemplate, Tokenizer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A chat template with its tokenizer.
#[derive(Debug)]
pub(crate) struct TemplateFormat {
    template: ChatTemplate,
    tokenizer: Tokenizer,
    /// Reasoning and text of answers.
    syntax: AnswerSyntax,
    /// The format of calls, verified when tools are first used.
    calls: OnceLock<Result<CallSupport, CallSupportError>>,
}

impl TemplateFormat {
    /// A template whose prompts `tokenizer` encodes.
    pub(crate) fn new(template: ChatTemplate, tokenizer: Tokenizer) -> Self {
        let syntax = tokenizer.tables().answer_syntax(template.source());
        Self { template, tokenizer, syntax, calls: OnceLock::new() }
    }

    /// The tokens of a rendered prompt with the beginning token once, and without an end token, because the answer follows.
    fn frame(&self, tokens: Vec<u32>) -> Vec<u32> {
        let length = tokens.len();
        let mut framed = self.tokenizer.frame(tokens);
        if self.tokenizer.adds_eos()
            && framed.len() > length
            && framed.last().copied() == self.tokenizer.eos()
        {
            framed.pop();
        }
        framed
    }

    /// The verified format of calls, if the conversation has tools or calls. `None` also if the user accepts that it is
    /// not verified.
    fn calls(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<Option<&CallSupport>, TextError> {
        let has_tools = options.tools.as_ref().is_some_and(|tools| !tools.is_empty());
        let has_calls = |message: &ChatMessage| !message.tool_calls.is_empty() || message.role == "tool";
        if !has_tools && !messages.iter().any(has_calls) {
            return Ok(None);
        }
        let support = self.calls.get_or_init(|| self.template.call_support(self.tokenizer.tables()));
        match support {
            Ok(support) => Ok(Some(support)),
            Err(_) if options.unverified_calls => Ok(None),
            Err(error) => Err(TextError::new(error.clone())),
        }
    }

    /// Reasoning, text and calls of the answer to a prompt with these tools.
    fn answer_syntax(
        &self,
        support: Option<&CallSupport>,
        tools: &[Value],
        prompt: &str,
    ) -> Result<AnswerSyntax, TextError> {
        let Some(support) = support.filter(|_| !tools.is_empty()) else { return Ok(self.syntax.clone()) };
        let tools = Arc::new(ToolSet::new(tools).map_err(TextError::new)?);
        let hash = Sha256::digest(prompt);
        let salt = hash.iter().take(8).fold(0, |salt: u64, byte| (salt << 8) | u64::from(*byte));
        Ok(self.syntax.clone().with_calls(CallSyntax::new(Arc::clone(&support.format), tools, salt)))
    }
}

impl ChatCapable for TemplateFormat {
    fn render_prompt(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, TextError> {
        let support = self.calls(messages, options)?;
        let as_text = support.is_some_and(|support| support.arguments_as_text);
        let mut messages = template_messages(messages, as_text)?;
        let open = options.continue_final_message;
        let open = open.then(|| FinalMessage::new(&mut messages, self.template.source())).transpose()?;
        let rendering = menagerie_loaders::RenderOptions::default()
            .with_tools(options.tools.clone())
            .with_add_generation_prompt(options.generation_prompt && open.is_none())
            .with_extra(options.arguments.clone());
        let guarded = self.tokenizer.guarded_texts();
        let segments =
            self.template.render_segments(&messages, &rendering, &guarded).map_err(TextError::new)?;
        let segments = match &open {
            Some(open) => open.cut(segments)?,
            None => segments,
        };
        let tokens = self.tokenizer.encode_segments(&segments).map_err(TextError::new)?;
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        let syntax = self.answer_syntax(support, options.tools.as_deref().unwrap_or_default(), &text)?;
        // The text of the template before the answer, or before the message that it continues.
        let end = match &open {
            Some(_) => segments.iter().rfind(|segment| segment.trusted),
            None => segments.last().filter(|last| last.trusted && options.generation_prompt),
        };
        let syntax = match end {
            Some(end) => syntax.after_prompt(&end.text),
            None => syntax,
        };
        Ok(RenderedPrompt { tokens: self.frame(tokens), text, syntax })
    }

    fn template(&self) -> Option<&str> {
        Some(self.template.source())
    }

    /// The SHA-256 of the template's text, and the tokens behind `bos_token` and `eos_token`.
    fn identity(&self) -> String {
        let hash = in_hex(Sha256::new_with_prefix(self.template.source()));
        let id = |token: Option<u32>| token.map_or("none".to_owned(), |id| id.to_string());
        format!("sha256:{hash} bos {} eos {}", id(self.tokenizer.bos()), id(self.tokenizer.eos()))
    }
}

/// Messages as templates have them: arguments of calls as objects (or as text), and results with the names of their
/// tools.
fn template_messages(messages: &[ChatMessage], as_text: bool) -> Result<Vec<Value>, TextError> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut values = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let mut value = serde_json::to_value(message).map_err(TextError::new)?;
        for (index, call) in message.tool_calls.iter().enumerate() {
            names.insert(&call.id, &call.name);
            let object = call.object().map_err(|error| {
                let place = format!("messages[{at}].tool_calls[{index}].function.arguments");
                TextError::new(format!("{place}: not the text of a JSON object: {error}"))
            })?;
            if !as_text {
                value["tool_calls"][index]["function"]["arguments"] = Value::Object(object);
            }
        }
        let name = message.tool_call_id.as_deref().and_then(|id| names.get(id).copied());
        if let Some(name) = name.filter(|_| message.name.is_none()) {
            value["name"] = name.into();
        }
        values.push(value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_engine::ToolCall;
    use serde_json::json;

    #[test]
    fn arguments_are_objects_or_text_and_results_have_names() {
        let call =
            |arguments: &str| ToolCall { id: "c1".into(), name: "f".into(), arguments: arguments.into() };
        let asked =
            ChatMessage { tool_calls: vec![call("{\"b\": 1, \"a\": [2]}")], ..ChatMessage::assistant("") };
        let result = ChatMessage { name: None, ..ChatMessage::tool_result(&call("{}"), "fine") };
        let messages = [asked.clone(), result];
        let objects = template_messages(&messages, false).unwrap();
        assert_eq!(objects[0]["tool_calls"][0]["function"]["arguments"], json!({ "b": 1, "a": [2] }));
        assert_eq!(
            objects[1],
            json!({ "role": "tool", "content": "fine", "tool_call_id": "c1", "name": "f" })
        );
        let texts = template_messages(&messages, true).unwrap();
        assert_eq!(texts[0]["tool_calls"][0]["function"]["arguments"], "{\"b\": 1, \"a\": [2]}");
        let wrong = ChatMessage { tool_calls: vec![call("[1]")], ..asked };
        let error = template_messages(&[ChatMessage::user("?"), wrong], false).unwrap_err().to_string();
        assert!(
            error.starts_with("messages[1].tool_calls[0].function.arguments: not the text of"),
            "{error}"
        );
    }
}
