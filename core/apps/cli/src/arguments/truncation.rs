//! `--truncate`: what becomes of texts that are too long for a model of vectors.

use crate::output;
use crate::screen::report;
use clap::Args;
use menagerie::engine::{GenerateError, TextTokens, Truncation};

/// Whether long texts are cut.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct TruncationArgument {
    /// Leave out the last tokens of texts that do not fit into the context, and say how many [default: such a text is an error]
    #[arg(long)]
    truncate: bool,
}

impl TruncationArgument {
    /// Whether it is asked for.
    pub(crate) fn is_given(self) -> bool {
        self.truncate
    }

    /// As pipelines have it.
    pub(crate) fn truncation(self) -> Truncation {
        if self.truncate { Truncation::End } else { Truncation::Refuse }
    }

    /// Token ids that were given as such: nothing stands around them.
    pub(crate) fn cut(self, ids: Vec<u32>, context: usize) -> TextTokens {
        cut_ids(ids, context, self.truncation())
    }
}

/// Token ids, cut to a context if that is wanted.
pub(crate) fn cut_ids(mut tokens: Vec<u32>, context: usize, truncation: Truncation) -> TextTokens {
    let cut = match truncation {
        Truncation::Refuse => 0,
        Truncation::End => tokens.len().saturating_sub(context),
    };
    tokens.truncate(tokens.len() - cut);
    TextTokens { tokens, cut }
}

/// An error of a text, with the option that helps against its length.
pub(crate) fn advised(error: GenerateError) -> String {
    match error {
        GenerateError::PastPositions { .. } => {
            format!("{error}\nhelp: --truncate leaves out the tokens that do not fit")
        }
        other => other.to_string(),
    }
}

/// Says of which texts tokens were left out, in one note.
pub(crate) fn note_cut(what: &str, cuts: impl IntoIterator<Item = usize>) {
    let cuts: Vec<(usize, usize)> = cuts.into_iter().enumerate().filter(|(_, cut)| *cut > 0).collect();
    match cuts.as_slice() {
        [] => {}
        [(at, cut)] => {
            report::note(&format!(
                "{what} {}: {} left out (--truncate)",
                at + 1,
                output::counted(*cut, "token")
            ));
        }
        many => {
            let sum: usize = many.iter().map(|(_, cut)| cut).sum();
            let texts = output::counted(many.len(), what);
            report::note(&format!("{texts}: {} left out in all (--truncate)", output::counted(sum, "token")));
        }
    }
}
