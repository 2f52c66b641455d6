//! Prompts of `run`: from the user's text to tokens, with or without a chat template.

use crate::arguments::template::{TemplateArguments, advice, note_without_effect};
use crate::failure::Failure;
use crate::screen::report;
use menagerie::engine::{self, ChatCapable, ChatMessage, RenderOptions, RenderedPrompt, TextPipeline};
use menagerie::open::LoadedModel;
use std::sync::Arc;

/// A prompt in the form that the model gets.
pub(crate) enum EncodedPrompt {
    /// Text to continue.
    Plain(Vec<u32>),
    /// Messages rendered with the chat template.
    Chat(RenderedPrompt),
}

impl EncodedPrompt {
    /// Its tokens.
    pub(crate) fn tokens(&self) -> &[u32] {
        match self {
            Self::Plain(tokens) => tokens,
            Self::Chat(prompt) => &prompt.tokens,
        }
    }
}

impl<'a> From<&'a EncodedPrompt> for engine::Prompt<'a> {
    fn from(prompt: &'a EncodedPrompt) -> Self {
        match prompt {
            EncodedPrompt::Plain(tokens) => tokens.into(),
            EncodedPrompt::Chat(prompt) => prompt.into(),
        }
    }
}

/// The chat format; `None` if neither the file nor the spec nor the arguments have a template.
///
/// # Errors
/// There is a template, but it cannot be used.
pub(crate) fn chat_format<'a>(
    pipeline: &'a LoadedModel<TextPipeline>,
    template: &TemplateArguments,
) -> Result<Option<&'a Arc<dyn ChatCapable>>, Failure> {
    pipeline.tokenizer()?;
    match pipeline.chat_format() {
        Ok(format) => Ok(Some(format)),
        Err(missing) if template.chat_template.is_some() || has_template(pipeline) => Err(missing.into()),
        Err(_) => Ok(None),
    }
}

/// Whether the file or its spec has a template, valid or not.
pub(crate) fn has_template(pipeline: &LoadedModel<TextPipeline>) -> bool {
    let resolved = pipeline.resolved();
    let stated = resolved.file.template_source("default");
    !matches!(stated, Ok(None)) || resolved.config().chat_fallback.is_some()
}

/// What `run` asks a model.
pub(crate) struct RunPrompt<'a> {
    /// The message of the user, or the text to continue.
    pub(crate) text: &'a str,
    /// Whether the text is continued without the chat template.
    pub(crate) raw: bool,
    /// The system message.
    pub(crate) system: Option<&'a str>,
    /// Tools and variables of the template.
    pub(crate) options: RenderOptions,
}

/// A user message rendered with the chat template, or plain text if there is no template or with `raw`.
pub(crate) fn prompt(
    pipeline: &LoadedModel<TextPipeline>,
    prompt: RunPrompt<'_>,
    template: &TemplateArguments,
) -> Result<EncodedPrompt, Failure> {
    let RunPrompt { text, raw, system, options } = prompt;
    let format = if raw { None } else { chat_format(pipeline, template)? };
    let Some(format) = format else {
        let unused = template.given_names();
        if !unused.is_empty() && !raw {
            return Err(Failure::Usage(format!(
                "{unused} requires a chat template, but this model has none"
            ))
            .with_help(&advice()));
        }
        if !unused.is_empty() {
            report::note(&format!("{unused} has no effect: --raw does not use a chat template"));
        }
        if system.is_some() {
            return Err(Failure::Usage(
                "--system requires a chat template, but this model has none".to_owned(),
            )
            .with_help(&advice()));
        }
        if !raw {
            report::note(
                "the file has no chat template: the prompt is continued as plain text, as with --raw",
            );
        }
        return Ok(EncodedPrompt::Plain(pipeline.tokenizer()?.encode_prompt(text)?));
    };
    let mut messages: Vec<ChatMessage> = system.into_iter().map(ChatMessage::system).collect();
    messages.push(ChatMessage::user(text));
    note_without_effect(&options, &|options| Some(format.render_prompt(&messages, options).ok()?.text));
    Ok(EncodedPrompt::Chat(format.render_prompt(&messages, &options)?))
}
