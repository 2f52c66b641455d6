//! [`Pieces`]: a text while it is split.

use std::ops::Range;

use super::super::budget::Budget;
use super::super::error::TokenizerError;

/// The name of the parts that add to a text here, for errors.
const PLACE: &str = "pre_tokenizer";

/// A text and its remaining parts, in order.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) text: String,
    pub(super) ranges: Vec<Range<usize>>,
    /// Whether the first part begins at the start of the text.
    pub(super) at_start: bool,
}

impl Pieces {
    /// One piece; none for an empty text, which normalization can produce.
    pub(super) fn new(text: &str, at_start: bool) -> Self {
        let whole = Some(0..text.len()).filter(|range| !range.is_empty());
        Self { text: text.to_owned(), ranges: whole.into_iter().collect(), at_start }
    }

    /// The pieces.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.ranges.iter().map(|range| self.text.get(range.clone()).unwrap_or_default())
    }

    /// Splits each piece into ranges of it; empty ones are removed.
    pub(super) fn cut<E>(
        &mut self,
        mut cut: impl FnMut(&str) -> Result<Vec<Range<usize>>, E>,
    ) -> Result<(), E> {
        let mut ranges = Vec::with_capacity(self.ranges.len());
        for range in &self.ranges {
            let inside = cut(self.text.get(range.clone()).unwrap_or_default())?;
            let whole = inside.into_iter().map(|part| range.start + part.start..range.start + part.end);
            ranges.extend(whole.filter(|part| !part.is_empty()));
        }
        let begins = |ranges: &[Range<usize>]| ranges.first().map(|range| range.start);
        self.at_start &= begins(&ranges) == begins(&self.ranges);
        self.ranges = ranges;
        Ok(())
    }

    /// Rewrites each piece; `write` receives it, whether it begins the whole text, and the output. It adds at most
    /// one character, and makes none longer than four bytes.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn rewrite(
        &mut self,
        budget: &Budget,
        write: impl Fn(&str, bool, &mut String),
    ) -> Result<(), TokenizerError> {
        let mut text = String::with_capacity(self.text.len() + self.text.len() / 2);
        let mut ranges = Vec::with_capacity(self.ranges.len());
        for (at, piece) in self.iter().enumerate() {
            let start = text.len();
            write(piece, at == 0 && self.at_start, &mut text);
            budget.grow(PLACE, (text.len() - start).saturating_sub(piece.len()))?;
            ranges.push(start..text.len());
        }
        self.text = text;
        self.ranges = ranges;
        Ok(())
    }
}
