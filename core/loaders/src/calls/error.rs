//! Why a chat template has no verified format of calls.

/// Why tools are refused with a chat template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallSupportError {
    /// No entry fits.
    #[error(
        "{template}: no [[call]] entry fits this chat template, so calls of tools could not be read; add one as \
         tokenizers/<name>.toml of a spec folder (`menagerie guide tool-calls`)"
    )]
    Unknown {
        /// The template.
        template: String,
    },
    /// Several entries fit.
    #[error(
        "{template}: the [[call]] entries {names} fit this chat template; change `where` and `not` so that one does"
    )]
    Several {
        /// The template.
        template: String,
        /// The names of the entries.
        names: String,
    },
    /// The template does not show a part of the conversation.
    #[error(
        "{template}: the chat template does not show {what} ([[call]] entry `{format}`); it gives {found}"
    )]
    Lost {
        /// The template.
        template: String,
        /// The entry.
        format: String,
        /// The part.
        what: String,
        /// The rendered conversation, or the error of the template.
        found: String,
    },
    /// The calls that are read are not those that were written.
    #[error(
        "{template}: calls are not read as the chat template writes them ([[call]] entry `{format}`): it writes {expected} \
         as {written}, which is read as {found}"
    )]
    Differs {
        /// The template.
        template: String,
        /// The entry.
        format: String,
        /// What the template wrote.
        written: String,
        /// The calls that were read from it.
        found: String,
        /// The calls of the conversation.
        expected: String,
    },
}
