//! What `run` asks of a pipeline: a prompt as the model takes it, and an answer.

use crate::arguments::template::{TemplateArguments, advice, note_without_effect};
use crate::failure::Failure;
use crate::screen::report;
use menagerie::engine::{self, ChatCapable, ChatMessage, RenderedPrompt, TextPipeline};
use menagerie::open::LoadedModel;
use std::sync::Arc;

/// A prompt as a model takes it.
pub(crate) enum Prompt {
    /// Text that is continued.
    Plain(Vec<u32>),
    /// Messages in the chat template.
    Chat(RenderedPrompt),
}

impl Prompt {
    /// Its tokens.
    pub(crate) fn tokens(&self) -> &[u32] {
        match self {
            Self::Plain(tokens) => tokens,
            Self::Chat(prompt) => &prompt.tokens,
        }
    }
}

impl<'a> From<&'a Prompt> for engine::Prompt<'a> {
    fn from(prompt: &'a Prompt) -> Self {
        match prompt {
            Prompt::Plain(tokens) => tokens.into(),
            Prompt::Chat(prompt) => prompt.into(),
        }
    }
}

/// The chat format; `None` where neither the file nor the spec nor the arguments have a template.
///
/// # Errors
/// There is a template, and it cannot be used.
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

/// Whether the file or its spec has a template, usable or not.
pub(crate) fn has_template(pipeline: &LoadedModel<TextPipeline>) -> bool {
    let resolved = pipeline.resolved();
    let stated = resolved.file.template_source("default");
    !matches!(stated, Ok(None)) || resolved.config().chat_fallback.is_some()
}

/// A user's message in the chat template, or plain text where there is none or it is not wanted.
pub(crate) fn prompt(
    pipeline: &LoadedModel<TextPipeline>,
    text: &str,
    raw: bool,
    system: Option<&str>,
    template: &TemplateArguments,
) -> Result<Prompt, Failure> {
    let format = if raw { None } else { chat_format(pipeline, template)? };
    let Some(format) = format else {
        let unused = template.given_names();
        if !unused.is_empty() && !raw {
            return Err(Failure::Usage(format!("{unused} needs a chat template, and this model has none"))
                .with_help(&advice()));
        }
        if !unused.is_empty() {
            report::note(&format!("{unused} changes nothing: --raw uses no chat template"));
        }
        if system.is_some() {
            return Err(Failure::Usage("--system needs a chat template, and this model has none".to_owned())
                .with_help(&advice()));
        }
        if !raw {
            report::note(
                "the file has no chat template: the prompt is continued as plain text (as --raw does)",
            );
        }
        return Ok(Prompt::Plain(pipeline.tokenizer()?.encode_prompt(text)?));
    };
    let mut messages: Vec<ChatMessage> = system.into_iter().map(ChatMessage::system).collect();
    messages.push(ChatMessage::user(text));
    let options = template.render_options()?;
    note_without_effect(&options, &|options| Some(format.render_prompt(&messages, options).ok()?.text));
    Ok(Prompt::Chat(format.render_prompt(&messages, &options)?))
}
