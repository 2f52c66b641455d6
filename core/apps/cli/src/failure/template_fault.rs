//! Faults of a chat template that was given as a file, with their place in it.

use menagerie::engine::{GenerateError, TextError};
use menagerie::loaders::TemplateError;
use std::error::Error;

/// The fault of a template with file, line and column, if the error is one and the file can be read.
pub(crate) fn placed(error: &(dyn Error + 'static)) -> Option<String> {
    let (template, line, message, help) = match template_error(error)? {
        TemplateError::Syntax { template, line, problem } => (template, line, problem.clone(), None),
        TemplateError::Raised { template, line, message } => {
            (template, line, format!("refuses this conversation: {message}"), None)
        }
        TemplateError::Render { template, line, problem } => {
            let message = format!("cannot render this conversation: {problem}");
            (template, line, message, Some("check the messages, or give another template"))
        }
        _ => return None,
    };
    let line = (*line)?;
    let text = std::fs::read_to_string(template).ok()?;
    let source = text.lines().nth(line.checked_sub(1)?)?;
    // Templates know lines only: the first tag of the line is where to begin to look.
    let tag = source.find("{{").into_iter().chain(source.find("{%")).min();
    let at = tag.unwrap_or(source.len() - source.trim_start().len());
    let column = source.get(..at)?.chars().count() + 1;
    let message = message.replace('\n', "\n  ");
    let help = help.map(|help| format!("\n  help: {help}")).unwrap_or_default();
    Some(format!("error: {template}:{line}:{column}: chat template\n  {message}{help}"))
}

/// The template's error among the causes.
fn template_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TemplateError> {
    let text = match error.downcast_ref::<GenerateError>() {
        Some(GenerateError::Text(text)) => Some(text),
        _ => error.downcast_ref::<TextError>(),
    };
    text.and_then(|text| text.0.downcast_ref()).or_else(|| error.downcast_ref())
}
