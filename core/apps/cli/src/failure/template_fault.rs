//! Errors of a chat template in a file, with their place in the file.

use menagerie::engine::{GenerateError, TextError};
use menagerie::loaders::TemplateError;
use std::error::Error;

/// The error of a template with file, line and column; `None` if it is another error or the file cannot be read.
pub(crate) fn placed(error: &(dyn Error + 'static)) -> Option<String> {
    let (template, line, message, help) = match template_error(error)? {
        TemplateError::Syntax { template, line, problem } => (template, line, problem.clone(), None),
        TemplateError::Raised { template, line, message } => {
            (template, line, format!("the template rejects this conversation: {message}"), None)
        }
        TemplateError::Render { template, line, problem } => {
            let message = format!("cannot render this conversation: {problem}");
            (template, line, message, Some("check the messages, or use another template"))
        }
        _ => return None,
    };
    let line = (*line)?;
    let text = std::fs::read_to_string(template).ok()?;
    let source = text.lines().nth(line.checked_sub(1)?)?;
    // Template errors have only a line: point at its first tag.
    let tag = source.find("{{").into_iter().chain(source.find("{%")).min();
    let at = tag.unwrap_or(source.len() - source.trim_start().len());
    let column = source.get(..at)?.chars().count() + 1;
    let message = message.replace('\n', "\n  ");
    let help = help.map(|help| format!("\n  help: {help}")).unwrap_or_default();
    Some(format!("error: {template}:{line}:{column}: chat template\n  {message}{help}"))
}

/// The template error in the chain of causes.
fn template_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TemplateError> {
    let text = match error.downcast_ref::<GenerateError>() {
        Some(GenerateError::Text(text)) => Some(text),
        _ => error.downcast_ref::<TextError>(),
    };
    text.and_then(|text| text.0.downcast_ref()).or_else(|| error.downcast_ref())
}
