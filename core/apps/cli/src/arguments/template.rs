//! Arguments of the commands that render messages with a chat template.

use crate::failure::Failure;
use crate::prompt;
use crate::screen::report;
use clap::Args;
use menagerie::engine::RenderOptions;
use menagerie::loaders::{ChatTemplate, TokenizerTables};
use menagerie::open::{TemplateSource, tokenizer_tables};
use menagerie::registry::Environment;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The chat template and its inputs besides the messages.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TemplateArguments {
    /// Chat template (Jinja) that replaces the model's: a file, or a name such as chatml, llama3 or gemma
    #[arg(long, visible_alias = "template", value_name = "FILE|NAME", help_heading = "Chat")]
    pub(crate) chat_template: Option<PathBuf>,
    /// JSON list of the tools that the model may call
    #[arg(long, hide_short_help = true, value_name = "FILE", help_heading = "Chat")]
    tools: Option<PathBuf>,
    /// Use tools also if the format of calls is unknown, or not verified with the chat template; calls then stay text
    #[arg(long, hide_short_help = true, requires = "tools", help_heading = "Chat")]
    accept_unverified_calls: bool,
    /// Set a variable of the template (repeatable), e.g. enable_thinking=false
    #[arg(long, hide_short_help = true, value_name = "NAME=JSON", help_heading = "Chat")]
    template_var: Vec<String>,
}

impl TemplateArguments {
    /// The user's template, checked for syntax errors.
    pub(crate) fn source(&self, environment: &Environment) -> Result<Option<TemplateSource>, Failure> {
        let Some(file) = &self.chat_template else { return Ok(None) };
        let name = file.display().to_string();
        if !file.exists() && file.as_os_str() != "-" {
            return by_name(name, environment).map(Some);
        }
        let source = prompt::utf8(prompt::read_bytes(file)?, &name)?;
        // An error is reported with its line here; opening the model would only report that there is no template.
        ChatTemplate::new(&name, &source, None, None)?;
        Ok(Some(TemplateSource { name, source }))
    }

    /// The names of the options that were given.
    pub(crate) fn given_names(&self) -> String {
        let given = [
            ("--chat-template", self.chat_template.is_some()),
            ("--tools", self.tools.is_some()),
            ("--template-var", !self.template_var.is_empty()),
        ];
        let names: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
        names.join(", ")
    }

    /// The tools.
    pub(crate) fn tools(&self) -> Result<Option<Vec<Value>>, Failure> {
        self.tools.as_deref().map(|file| read_list(file, "tools")).transpose()
    }

    /// The variables.
    pub(crate) fn variables(&self) -> Result<Map<String, Value>, Failure> {
        let mut variables = Map::new();
        for assignment in &self.template_var {
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(Failure::Usage(format!("`{assignment}` is not NAME=JSON"))
                    .with_help("e.g. --template-var enable_thinking=false"));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            variables.insert(name.to_owned(), value);
        }
        Ok(variables)
    }

    /// Tools and variables, for a prompt that ends where the assistant's message starts.
    pub(crate) fn render_options(&self) -> Result<RenderOptions, Failure> {
        Ok(RenderOptions::default()
            .with_tools(self.tools()?)
            .with_unverified_calls(self.accept_unverified_calls)
            .with_arguments(self.variables()?))
    }
}

/// A template of the tokenizer tables.
fn by_name(name: String, environment: &Environment) -> Result<TemplateSource, Failure> {
    let (tables, _) = tokenizer_tables(environment)?;
    match tables.chat_template(&name) {
        Some(source) => Ok(TemplateSource { source: source.to_owned(), name }),
        None => {
            let known = tables.chat_templates().collect::<Vec<_>>().join(", ");
            Err(Failure::about(&name, "is neither a file nor the name of a chat template")
                .with_help(&format!("the names are {known}")))
        }
    }
}

/// Help for a model without a chat template.
pub(crate) fn advice() -> String {
    let names = TokenizerTables::built_in()
        .map(|tables| tables.chat_templates().collect::<Vec<_>>().join(", "))
        .unwrap_or_default();
    format!("set one with --chat-template: a file, or one of {names}")
}

/// Prints a note for each option that the template ignores; `render` returns the prompt with the given options, if it
/// can be rendered.
pub(crate) fn note_without_effect(
    options: &RenderOptions,
    render: &dyn Fn(&RenderOptions) -> Option<String>,
) {
    if options.tools.is_none() && options.arguments.is_empty() {
        return;
    }
    // An error of rendering is reported by the caller.
    let Some(full) = render(options) else { return };
    let note = |option: &str, other: RenderOptions| {
        if render(&other).as_ref() == Some(&full) {
            report::note(&format!("{option} has no effect: the chat template does not use it"));
        }
    };
    if options.tools.is_some() {
        note("--tools", options.clone().with_tools(None));
    }
    for name in options.arguments.keys() {
        let mut other = options.clone();
        other.arguments.remove(name);
        note(&format!("--template-var {name}"), other);
    }
}

/// Reads a JSON list, or an object that has one under `key`; `-` is standard input.
pub(crate) fn read_list(file: &Path, key: &str) -> Result<Vec<Value>, Failure> {
    let text = prompt::read_file(file)?;
    let list = match prompt::json(&text, file)? {
        Value::Object(mut object) => object.remove(key).unwrap_or_default(),
        other => other,
    };
    match list {
        Value::Array(items) => Ok(items),
        _ => Err(Failure::about(file.display(), format!("expected a JSON list, or an object with `{key}`"))),
    }
}
