//! [`Finder`]: all matches of one regex, in bounded time.

use std::ops::Range;
use std::time::Instant;

use fancy_regex::{Regex, RegexBuilder};

use super::error::TokenizerError;
use super::splitter::{BACKTRACK_LIMIT, PATIENCE, PATIENCE_PER_BYTE};

/// A regex.
#[derive(Debug)]
pub(crate) struct Finder {
    regex: Regex,
}

impl Finder {
    /// Compiles a regex; an error is what is wrong with it.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(source).backtrack_limit(BACKTRACK_LIMIT).build();
        Ok(Self { regex: regex.map_err(|error| error.to_string())? })
    }

    /// Where it matches, from left to right, none over another.
    ///
    /// # Errors
    /// It gave up.
    pub(crate) fn all(&self, text: &str) -> Result<Vec<Range<usize>>, TokenizerError> {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let deadline = Instant::now() + PATIENCE + PATIENCE_PER_BYTE * bytes;
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for found in self.regex.find_iter(text) {
            let at = ranges.last().map_or(0, |last| last.end);
            let gave_up =
                |problem: String| TokenizerError::Regex { regex: 1, at, length: text.len(), problem };
            let found = found.map_err(|error| gave_up(error.to_string()))?;
            if at > 0 && Instant::now() > deadline {
                return Err(gave_up("it takes too long".to_owned()));
            }
            ranges.push(found.start()..found.end());
        }
        Ok(ranges)
    }
}
