//! [`Budget`]: limits of the growth of a text while it is encoded, and of the time. A tokenizer comes with a file,
//! and files come from anywhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::error::TokenizerError;

/// Bytes that may be added to a text, plus [`PER_BYTE`] for each byte of it.
const BYTES: usize = 1 << 20;
const PER_BYTE: usize = 64;

/// Maximum time for a text, plus the time per byte. Published models need a thousandth of it.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_PER_BYTE: Duration = Duration::from_micros(20);

/// Steps of work (bytes looked at) between two checks of the clock.
const STEPS: usize = 1 << 16;

/// The remaining budget of the encoding of one text.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes of the text.
    given: usize,
    /// Bytes that may still be added.
    left: Cell<usize>,
    deadline: Instant,
    /// Steps since the last check of the clock.
    steps: Cell<usize>,
}

impl Budget {
    /// The budget of a text.
    pub(crate) fn of(text: &str) -> Self {
        Self::for_bytes(text.len())
    }

    /// The budget of so many bytes of text.
    pub(crate) fn for_bytes(given: usize) -> Self {
        Self::with_patience(given, PATIENCE)
    }

    /// The budget of a text of so many bytes, with this additional time.
    pub(crate) fn with_patience(given: usize, patience: Duration) -> Self {
        let bytes = u32::try_from(given).unwrap_or(u32::MAX);
        Self {
            given,
            left: Cell::new(most(given)),
            deadline: Instant::now() + patience + PATIENCE_PER_BYTE * bytes,
            steps: Cell::new(0),
        }
    }

    /// The same time, and all the bytes again: for a result that is discarded.
    pub(crate) fn again(&self) -> Self {
        Self {
            given: self.given,
            left: Cell::new(most(self.given)),
            deadline: self.deadline,
            steps: self.steps.clone(),
        }
    }

    /// Reserves bytes before they are added to the text; `place` names the part that adds them.
    ///
    /// # Errors
    /// The bytes are exhausted.
    pub(crate) fn grow(&self, place: &str, bytes: usize) -> Result<(), TokenizerError> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(self.too_large(place)),
        }
    }

    /// Bytes that may still be added.
    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// Collects the characters that replace a text.
    ///
    /// # Errors
    /// The errors of [`Self::grow`].
    pub(crate) fn collect(
        &self,
        place: &str,
        text: &str,
        characters: impl Iterator<Item = char>,
    ) -> Result<String, TokenizerError> {
        let most = text.len().saturating_add(self.left());
        let mut out = String::with_capacity(text.len());
        for character in characters {
            if out.len() + character.len_utf8() > most {
                return Err(self.too_large(place));
            }
            out.push(character);
        }
        self.grow(place, out.len().saturating_sub(text.len()))?;
        Ok(out)
    }

    /// Counts work, and checks the clock from time to time.
    ///
    /// # Errors
    /// The time is exhausted.
    pub(crate) fn work(&self, steps: usize) -> Result<(), TokenizerError> {
        let steps = self.steps.get().saturating_add(steps);
        if steps < STEPS {
            self.steps.set(steps);
            return Ok(());
        }
        self.steps.set(0);
        match self.is_late() {
            false => Ok(()),
            true => Err(TokenizerError::TooSlow { given: self.given }),
        }
    }

    /// Whether the time is exhausted.
    pub(crate) fn is_late(&self) -> bool {
        Instant::now() > self.deadline
    }

    fn too_large(&self, place: &str) -> TokenizerError {
        TokenizerError::TooLarge { place: place.to_owned(), most: most(self.given), given: self.given }
    }
}

fn most(given: usize) -> usize {
    given.saturating_mul(PER_BYTE).saturating_add(BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_together_and_time_is_looked_at() {
        let budget = Budget::of("ab");
        assert_eq!(budget.left(), (1 << 20) + 128);
        budget.grow("one", 1 << 20).unwrap();
        budget.again().grow("one", 1 << 20).unwrap();
        let error = budget.grow("two", 129).unwrap_err().to_string();
        assert!(error.contains("`two`") && error.contains("1048704 bytes to a text of 2"), "{error}");
        budget.grow("two", 128).unwrap();
        assert_eq!(budget.collect("three", "xy", "ab".chars()).unwrap(), "ab");
        assert!(budget.collect("three", "xy", "abc".chars()).is_err());

        let late = Budget::with_patience(0, Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        assert!(late.is_late() && late.work(STEPS - 1).is_ok());
        assert!(late.work(1).unwrap_err().to_string().contains("takes too long"));
    }
}
