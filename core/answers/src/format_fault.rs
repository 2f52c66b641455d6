//! [`CallFormatFault`]: why a format cannot be compiled.

/// Why the texts of a format contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallFormatFault {
    /// A hole with an unknown name.
    #[error("unknown hole `${{{hole}}}`; expected name, id, index, arguments, object, args, python or pairs")]
    UnknownHole {
        /// Its name.
        hole: String,
    },
    /// Not one name and one kind of arguments.
    #[error(
        "a call must have `${{object}}`, or `${{name}}` and after it one of `${{arguments}}`, `${{args}}`, `${{python}}`, `${{pairs}}`"
    )]
    Holes,
    /// A hole whose end cannot be told.
    #[error(
        "the text after `${{name}}`, `${{id}}`, `${{index}}`, `${{args}}`, `${{python}}` or `${{pairs}}` must begin with a character that cannot be part of it"
    )]
    Unbounded,
    /// A form of an argument that cannot be read.
    #[error(
        "the form of an argument must be text, `${{key}}`, text, `${{value}}`, text without spaces inside"
    )]
    ArgumentForm,
    /// A key that another one requires.
    #[error("`{hole}` requires the key `{key}`")]
    Needs {
        /// The hole.
        hole: &'static str,
        /// The missing key.
        key: &'static str,
    },
    /// A call that begins with no text.
    #[error("a call must begin with text, or have `bare = true`")]
    NoMarker,
}
