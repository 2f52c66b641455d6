//! `render MODEL MESSAGES.json`: renders messages with a chat template.

use crate::arguments::model_source::find_source;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::arguments::template::{TemplateArguments, advice, note_without_effect, read_list};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output;
use crate::screen::report;
use clap::Args;
use menagerie::assembly::open_model;
use menagerie::engine;
use menagerie::loaders::{ChatTemplate, RenderOptions, Tokenizer, TokenizerOptions};
use menagerie::open::{KeyOptions, LoadOptions, ResolvedFile, TemplateSource, tokenizer_tables};
use menagerie::registry::{Environment, GGUFArchitecture};
use serde_json::Value;

/// Print the prompt that a chat template produces from messages
///
/// With a model: `render MODEL MESSAGES.json` uses the template of `run` and `chat`. With your own template and no model:
/// `render --chat-template FILE.jinja MESSAGES.json`. The messages are a JSON list of {"role", "content"}, or an object
/// with such a list as "messages"; - is standard input.
#[derive(Args)]
pub(crate) struct RenderCommand {
    /// [MODEL] MESSAGES.json
    #[arg(required = true, num_args = 1..=2, value_names = ["MODEL", "MESSAGES.json"])]
    files: Vec<NameOrPath>,
    /// Do not end the prompt with the start of the assistant's message
    #[arg(long)]
    no_generation_prompt: bool,
    #[command(flatten)]
    template: TemplateArguments,
    #[command(flatten)]
    specs: SpecArguments,
}

impl Runnable for RenderCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let environment = self.specs.environment(&context.environment)?;
        let given = self.template.source(&environment)?;
        let (template, messages) = match (given, self.files.as_slice()) {
            (Some(given), [messages]) => {
                (ChatTemplate::new(&given.name, &given.source, None, None)?, messages)
            }
            (given, [model, messages]) => (self.of_model(model, given, &environment)?, messages),
            _ => {
                return Err(Failure::Usage("expected MODEL MESSAGES.json, or --chat-template".to_owned()));
            }
        };
        let messages = read_list(messages.path(), "messages")?.into_iter().map(joined).collect::<Vec<_>>();
        if let Some(index) = messages.iter().position(says_nothing) {
            return Err(no_content(index));
        }
        let given = self.template.render_options()?;
        let options = |given: &engine::RenderOptions| {
            RenderOptions::default()
                .with_add_generation_prompt(!self.no_generation_prompt)
                .with_tools(given.tools.clone())
                .with_extra(given.arguments.clone())
        };
        if given.tools.is_some() && !given.unverified_calls {
            let (tables, _) = tokenizer_tables(&environment)?;
            if let Err(error) = template.call_support(&tables) {
                report::note(&format!("`run` and `chat` refuse these tools: {error}"));
            }
        }
        note_without_effect(&given, &|given| template.render(&messages, &options(given)).ok());
        match template.render(&messages, &options(&given)) {
            Ok(prompt) => output::data(&prompt),
            Err(error) => Err(match messages.iter().position(has_no_content) {
                Some(index) => Failure::Failed(format!(
                    "{}, which the template requires: {error}",
                    no_content(index).said()
                )),
                None => error.into(),
            }),
        }
    }
}

impl RenderCommand {
    /// The user's template, or that of the model file, or that of its spec.
    fn of_model(
        &self,
        model: &NameOrPath,
        given: Option<TemplateSource>,
        environment: &Environment,
    ) -> Result<ChatTemplate, Failure> {
        let source = find_source(model, &self.specs, environment)?;
        let file = open_model(&source.path, environment.entries(), true)?;
        let given = LoadOptions::default().with_chat_template(given);
        let given = source.options(&given, environment)?.chat_template;
        let named = file.architecture().ok().and_then(|name| GGUFArchitecture::new(name).ok());
        let spec = named.and_then(|name| environment.resolve(&name).ok()).map(|(_, spec)| spec);
        let (tables, notices) = tokenizer_tables(environment)?;
        notices.iter().for_each(|notice| report::note(&notice.to_string()));
        let pre = spec.as_ref().and_then(|spec| spec.pre_tokenizer());
        let tokenizer =
            file.tokenizer(&TokenizerOptions::default().with_pre(pre).with_tables(tables.clone()))?;
        if let Some(given) = given {
            return compile(&given.name, &given.source, &tokenizer);
        }
        if let Some(own) = file.chat_template(&tokenizer)? {
            return Ok(own);
        }
        if spec.is_some() {
            let resolved = ResolvedFile::new(file, environment, source.keys(KeyOptions::default()))?;
            if let Some(source) = &resolved.config().chat_fallback {
                let source =
                    tables.chat_template_of(source).map_err(|reason| Failure::about(model, reason))?;
                return compile("fallback of the spec", source, &tokenizer);
            }
        }
        Err(Failure::about(model, "the file has no chat template").with_help(&advice()))
    }
}

fn compile(name: &str, source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate, Failure> {
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id).ok());
    Ok(ChatTemplate::new(name, source, text(tokenizer.bos()), text(tokenizer.eos()))?)
}

/// Whether a message has no content; templates may accept this for tool calls.
fn has_no_content(message: &Value) -> bool {
    message.get("content").is_none_or(Value::is_null)
}

/// Whether a message has only a role.
fn says_nothing(message: &Value) -> bool {
    let more =
        |fields: &serde_json::Map<String, Value>| fields.keys().any(|key| key != "role" && key != "content");
    has_no_content(message) && !message.as_object().is_some_and(more)
}

fn no_content(index: usize) -> Failure {
    Failure::Failed(format!("message {index} has no content"))
}

/// Joins the content of a message if it is a list of text parts, as in the OpenAI API.
fn joined(mut message: Value) -> Value {
    let text = |part: &Value| {
        (part.get("type")? == "text").then(|| part.get("text")?.as_str().map(str::to_owned)).flatten()
    };
    let parts = message.get("content").and_then(Value::as_array);
    let texts: Option<Vec<String>> = parts.and_then(|parts| parts.iter().map(text).collect());
    if let Some(texts) = texts {
        message["content"] = Value::String(texts.concat());
    }
    message
}
