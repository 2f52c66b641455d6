//! Errors of chat templates and their rendering.

/// An error of a chat template; `Display` names the template, the line, the reason and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The source is not a valid template.
    #[error(
        "chat template `{template}`{}: {problem}; use another template, or a prompt without one",
        at_line(*line)
    )]
    Syntax {
        /// The template's name.
        template: String,
        /// The line, from 1, where known.
        line: Option<usize>,
        /// What is wrong.
        problem: String,
    },
    /// The template never mentions the messages: it is probably the name of a template instead of its source.
    #[error(
        "chat template `{template}` never mentions `messages`, so the conversation would be lost: pass the Jinja source of a \
         template, not its name"
    )]
    NoMessages {
        /// The template's name.
        template: String,
    },
    /// The template refused the conversation (`raise_exception`).
    #[error("chat template `{template}`{} refuses this conversation: {message}", at_line(*line))]
    Raised {
        /// The template's name.
        template: String,
        /// The line, from 1, where known.
        line: Option<usize>,
        /// The message of the template.
        message: String,
    },
    /// The template failed on this conversation.
    #[error(
        "chat template `{template}`{} cannot render this conversation: {problem}; check the messages, \
         or use another template",
        at_line(*line)
    )]
    Render {
        /// The template's name.
        template: String,
        /// The line, from 1, where known.
        line: Option<usize>,
        /// What is wrong.
        problem: String,
    },
    /// Text from outside contains a special token, and the template splits that text.
    #[error(
        "a message contains the special token `{token}` as text, and chat template `{template}` splits messages, so the \
         text cannot be distinguished from the token; remove `{token}` from the messages"
    )]
    Untrusted {
        /// The template's name.
        template: String,
        /// The special token.
        token: String,
    },
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}
