//! [`RegexFinder`]: all matches of one regex, in bounded time.

use std::ops::Range;

use fancy_regex::Regex;

use super::budget::Budget;
use super::error::TokenizerError;
use super::regex_room::RegexRoom;

/// A regex.
#[derive(Debug)]
pub(crate) struct RegexFinder {
    regex: Regex,
}

impl RegexFinder {
    /// Compiles a regex; the error says what is wrong with it.
    pub(crate) fn new(source: &str, room: RegexRoom) -> Result<Self, String> {
        Ok(Self { regex: room.compile(source)? })
    }

    /// All matches, from left to right, without overlaps.
    ///
    /// # Errors
    /// The engine failed.
    pub(crate) fn all(&self, text: &str, budget: &Budget) -> Result<Vec<Range<usize>>, TokenizerError> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for found in self.regex.find_iter(text) {
            let at = ranges.last().map_or(0, |last| last.end);
            let gave_up =
                |problem: String| TokenizerError::Regex { regex: 1, at, length: text.len(), problem };
            let found = found.map_err(|error| gave_up(error.to_string()))?;
            if at > 0 && budget.is_late() {
                return Err(gave_up("it takes too long".to_owned()));
            }
            ranges.push(found.start()..found.end());
        }
        Ok(ranges)
    }
}
