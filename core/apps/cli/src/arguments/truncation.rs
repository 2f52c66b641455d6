//! `--truncate`: the handling of texts that are too long for an embedding model.

use crate::output;
use crate::screen::report;
use clap::Args;
use menagerie::engine::{GenerateError, TextTokens, Truncation};
use menagerie_openai::cut_ids;

/// Whether long texts are truncated.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct TruncationArgument {
    /// Truncate texts that do not fit into the context, and report how many tokens were dropped [default: report an error]
    #[arg(long)]
    truncate: bool,
}

impl TruncationArgument {
    /// Whether the option is given.
    pub(crate) fn is_given(self) -> bool {
        self.truncate
    }

    /// The same as the pipeline's type.
    pub(crate) fn truncation(self) -> Truncation {
        if self.truncate { Truncation::End } else { Truncation::Refuse }
    }

    /// Truncates token ids that the user gave as ids: they have no special tokens around them.
    pub(crate) fn cut(self, ids: Vec<u32>, context: usize) -> TextTokens {
        cut_ids(ids, context, self.truncation())
    }
}

/// The message of an error; for a text that is too long, with the option that truncates it.
pub(crate) fn advised(error: GenerateError) -> String {
    match error {
        GenerateError::PastPositions { .. } => {
            format!("{error}\nhelp: --truncate drops the tokens that do not fit")
        }
        other => other.to_string(),
    }
}

/// Prints a note about the texts that were truncated.
pub(crate) fn note_cut(what: &str, cuts: impl IntoIterator<Item = usize>) {
    let cuts: Vec<(usize, usize)> = cuts.into_iter().enumerate().filter(|(_, cut)| *cut > 0).collect();
    match cuts.as_slice() {
        [] => {}
        [(at, cut)] => {
            report::note(&format!(
                "{what} {}: {} dropped (--truncate)",
                at + 1,
                output::counted(*cut, "token")
            ));
        }
        many => {
            let sum: usize = many.iter().map(|(_, cut)| cut).sum();
            let texts = output::counted(many.len(), what);
            report::note(&format!(
                "{texts}: {} dropped in total (--truncate)",
                output::counted(sum, "token")
            ));
        }
    }
}
