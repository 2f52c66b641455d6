//! The command line as a whole: its definition, the defaults of options, parsing, and shell completion.

mod candidates;
mod definition;
mod option_defaults;
mod parse;
mod variables;

pub(crate) use candidates::answer_shell;
pub(crate) use definition::{Arguments, definition};
pub(crate) use parse::parse;
