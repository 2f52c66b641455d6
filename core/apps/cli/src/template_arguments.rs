//! Arguments of every command that puts messages into a chat template.

use crate::failure::Failure;
use clap::Args;
use menagerie::pipeline::{ChatCapable, ChatMessage, RenderOptions};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// What a chat template is, and what it is given beside the messages.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TemplateArguments {
    /// A chat template (Jinja) instead of the model's
    #[arg(long, visible_alias = "template", value_name = "FILE", help_heading = "Chat")]
    pub(crate) chat_template: Option<PathBuf>,
    /// JSON list of the tools the model may call
    #[arg(long, value_name = "FILE", help_heading = "Chat")]
    tools: Option<PathBuf>,
    /// Variable of the template (repeatable), e.g. enable_thinking=false
    #[arg(long, value_name = "NAME=JSON", help_heading = "Chat")]
    set: Vec<String>,
}

impl TemplateArguments {
    /// The text of the template given by hand.
    pub(crate) fn source(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.chat_template else { return Ok(None) };
        std::fs::read_to_string(file).map(Some).map_err(|error| Failure::about(file.display(), error))
    }

    /// The tools.
    pub(crate) fn tools(&self) -> Result<Option<Vec<Value>>, Failure> {
        self.tools.as_deref().map(|file| read_list(file, "tools")).transpose()
    }

    /// The variables.
    pub(crate) fn variables(&self) -> Result<Map<String, Value>, Failure> {
        let mut variables = Map::new();
        for assignment in &self.set {
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(Failure::Usage(format!("`{assignment}` is not NAME=JSON"))
                    .with_help("e.g. --set enable_thinking=false"));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            variables.insert(name.to_owned(), value);
        }
        Ok(variables)
    }

    /// Both, for a prompt that ends where the assistant speaks.
    pub(crate) fn render_options(&self) -> Result<RenderOptions, Failure> {
        Ok(RenderOptions { tools: self.tools()?, arguments: self.variables()?, ..RenderOptions::default() })
    }
}

/// What of the options a template does not look at, with these messages.
pub(crate) fn without_effect(
    format: &dyn ChatCapable,
    messages: &[ChatMessage],
    options: &RenderOptions,
) -> Result<Vec<String>, Failure> {
    let mut unused = Vec::new();
    if options.tools.is_none() && options.arguments.is_empty() {
        return Ok(unused);
    }
    let full = format.render_prompt(messages, options)?.text;
    let differs =
        |other: RenderOptions| format.render_prompt(messages, &other).map_or(true, |one| one.text != full);
    if options.tools.is_some() && !differs(RenderOptions { tools: None, ..options.clone() }) {
        unused.push("--tools".to_owned());
    }
    for name in options.arguments.keys() {
        let mut other = options.clone();
        other.arguments.remove(name);
        if !differs(other) {
            unused.push(format!("--set {name}"));
        }
    }
    Ok(unused)
}

/// A JSON list, or an object that holds one under `key`; `-` is standard input.
pub(crate) fn read_list(file: &Path, key: &str) -> Result<Vec<Value>, Failure> {
    let text = crate::prompt::read_file(file)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::Failed(format!(
            "error: {}:{}:{}: not JSON\n  {error}",
            file.display(),
            error.line(),
            error.column()
        ))
    })?;
    let list = match value {
        Value::Object(mut object) => object.remove(key).unwrap_or_default(),
        other => other,
    };
    match list {
        Value::Array(items) => Ok(items),
        _ => Err(Failure::about(file.display(), format!("expected a JSON list, or an object with `{key}`"))),
    }
}
