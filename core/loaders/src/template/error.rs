//! What can be wrong with a chat template or its rendering.

/// An error of a chat template; `Display` names the template, the line, the reason and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The source is not a template that is understood.
    #[error(
        "chat template `{template}`{}: {problem}; give another template, or a prompt without one",
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
    /// The template says nothing about the messages: the name of one where its text is wanted, say.
    #[error(
        "chat template `{template}` never mentions `messages`, so that whatever is said would be dropped: give the Jinja \
         text of a template, not its name"
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
        /// The template's own words.
        message: String,
    },
    /// The template failed on this conversation.
    #[error(
        "chat template `{template}`{} cannot render this conversation: {problem}; check the messages, \
         or give another template",
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
    /// Text from outside holds a special token, and the template takes that text apart.
    #[error(
        "a message holds the special token `{token}` as text, and chat template `{template}` takes messages apart so \
         that text and token cannot be told apart afterwards; remove `{token}` from the messages"
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
