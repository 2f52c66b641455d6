//! [`DraftTimes`]: what the guesses of a draft model take.

use crate::draft::{DraftCost, MAX_DRAFT};
use std::time::Duration;

/// The share of the newest measurement in an estimate.
const NEWEST: f64 = 0.2;

/// Tokens that the answer has taken since the last draft are computed with its first guess, and count as no start.
pub(super) const USUAL_TOKENS: usize = MAX_DRAFT + 1;

/// Measured times of a draft model, of all of its answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DraftTimes {
    /// Seconds of a row of a longer text.
    row: Option<f64>,
    /// Seconds of a draft, and its guesses.
    draft: Option<[f64; 2]>,
}

impl DraftTimes {
    /// Times of which only those of a guess are known.
    pub(super) fn of_draft(time: Duration) -> Self {
        Self { row: None, draft: Some([time.as_secs_f64(), 1.0]) }
    }

    /// Whether drafts were measured.
    pub(super) fn are_known(&self) -> bool {
        self.draft.is_some()
    }

    /// A step computed this many rows of a text, and no guesses.
    pub(super) fn measured_text(&mut self, rows: usize, time: Duration) {
        let newest = time.as_secs_f64() / rows.max(1) as f64;
        self.row = Some(self.row.map_or(newest, |row| row + NEWEST * (newest - row)));
    }

    /// A draft took this long. Those without guesses count, too: they make the others dearer.
    pub(super) fn measured_draft(&mut self, guesses: usize, time: Duration) {
        let newest = [time.as_secs_f64(), guesses as f64];
        let moved = |[seconds, count]: [f64; 2]| {
            [seconds + NEWEST * (newest[0] - seconds), count + NEWEST * (newest[1] - count)]
        };
        self.draft = Some(self.draft.map_or(newest, moved));
    }

    /// What a draft takes after `unseen` new tokens.
    pub(super) fn cost(&self, unseen: usize) -> DraftCost {
        let Some([seconds, guesses]) = self.draft else { return DraftCost::default() };
        let each = seconds / guesses.max(LEAST_GUESSES);
        let start = match unseen > USUAL_TOKENS {
            true => self.row.unwrap_or(each) * unseen as f64,
            false => 0.0,
        };
        DraftCost { start: Duration::from_secs_f64(start), each: Duration::from_secs_f64(each) }
    }
}

/// The fewest guesses of a draft on average that its time is divided by.
const LEAST_GUESSES: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_costs_what_drafts_take_also_those_without_guesses() {
        let mut times = DraftTimes::default();
        assert!(!times.are_known() && times.cost(1000).is_free());
        times.measured_draft(1, Duration::from_millis(10));
        assert_eq!(times.cost(3), DraftCost { start: Duration::ZERO, each: Duration::from_millis(10) });
        times.measured_text(50, Duration::from_millis(100));
        assert_eq!(times.cost(100).start, Duration::from_millis(200));
        (0..100).for_each(|_| times.measured_draft(4, Duration::from_millis(20)));
        assert!((times.cost(1).each.as_secs_f64() - 0.005).abs() < 1e-4, "{times:?}");
        (0..100).for_each(|_| times.measured_draft(0, Duration::from_millis(5)));
        assert!((times.cost(1).each.as_secs_f64() - 0.05).abs() < 1e-4, "{times:?}");
    }
}
