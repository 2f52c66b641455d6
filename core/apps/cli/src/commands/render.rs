//! `render MODEL MESSAGES.json`: the prompt as the template gives it.

use crate::failure::Failure;
use crate::model_arguments::locate;
use crate::output;
use clap::Args;
use menagerie::loaders::{ChatTemplate, GgufLoader, RenderOptions};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Show the prompt that a chat template makes of messages
///
/// With a model: `render MODEL MESSAGES.json`. With a template of your own: `render --template FILE.jinja MESSAGES.json`.
#[derive(Args)]
pub(crate) struct RenderCommand {
    /// [MODEL] MESSAGES.json: a JSON list of {"role", "content"}
    #[arg(required = true, num_args = 1..=2, value_names = ["MODEL", "MESSAGES.json"])]
    files: Vec<String>,
    /// A chat template instead of a model's
    #[arg(long, value_name = "FILE.jinja")]
    template: Option<PathBuf>,
    /// JSON list of the tools the model may call
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Do not end the prompt where the assistant begins to speak
    #[arg(long)]
    no_generation_prompt: bool,
    /// Further template variable (repeatable), e.g. enable_thinking=false
    #[arg(long, value_name = "NAME=JSON")]
    set: Vec<String>,
}

impl RenderCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (template, messages) = match (&self.template, self.files.as_slice()) {
            (Some(file), [messages]) => (from_file(file)?, messages),
            (None, [model, messages]) => (from_model(model)?, messages),
            (Some(_), _) => return Err(Failure::Usage("--template takes the place of the model".to_owned())),
            (None, _) => {
                return Err(Failure::Usage("expected MODEL MESSAGES.json, or --template".to_owned()));
            }
        };
        let messages = read_list(Path::new(messages))?;
        let mut options =
            RenderOptions { add_generation_prompt: !self.no_generation_prompt, ..RenderOptions::default() };
        if let Some(tools) = &self.tools {
            options.tools = Some(read_list(tools)?);
        }
        for assignment in &self.set {
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(Failure::Usage(format!("`{assignment}` is not NAME=JSON")));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            options.extra.insert(name.to_owned(), value);
        }
        output::write(&template.render(&messages, &options)?)
    }
}

fn from_file(file: &Path) -> Result<ChatTemplate, Failure> {
    let source = std::fs::read_to_string(file).map_err(|error| Failure::about(file.display(), error))?;
    Ok(ChatTemplate::new(&file.display().to_string(), &source, None, None)?)
}

fn from_model(model: &str) -> Result<ChatTemplate, Failure> {
    let loader = GgufLoader::open(&locate(model)?, &Default::default())?;
    let tokenizer = loader.tokenizer(None)?;
    loader.chat_template(&tokenizer)?.ok_or_else(|| Failure::about(model, "the file has no chat template"))
}

fn read_list(file: &Path) -> Result<Vec<Value>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::about(file.display(), error))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| Failure::about(file.display(), error))?;
    match value {
        Value::Array(items) => Ok(items),
        Value::Object(mut object) => match object.remove("messages") {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(Failure::about(file.display(), "expected a JSON list")),
        },
        _ => Err(Failure::about(file.display(), "expected a JSON list")),
    }
}
