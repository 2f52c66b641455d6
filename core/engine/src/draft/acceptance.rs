//! [`AcceptanceRates`]: how often guesses are right.

use super::DraftToken;

/// The assumed rate of each grade before anything is known.
const ASSUMED: [f64; DraftToken::GRADES as usize] = [0.2, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 0.98];

/// The assumed rate of all grades together: about that of a small model of the same family.
const ASSUMED_OVERALL: f64 = 0.6;

/// The number of guesses that the assumption counts as.
const ASSUMED_WEIGHT: f64 = 4.0;

/// The number of guesses from which on older ones count less.
const REMEMBERED: f64 = 64.0;

/// How often the guesses of each grade are right, if all guesses before them in the same draft are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AcceptanceRates {
    grades: [GradeCount; DraftToken::GRADES as usize],
}

#[derive(Clone, Copy, Debug, Default)]
struct GradeCount {
    right: f64,
    all: f64,
}

impl AcceptanceRates {
    /// Learns whether a guess was right.
    pub(super) fn learn(&mut self, grade: u8, is_right: bool) {
        let Some(count) = self.grades.get_mut(usize::from(grade)) else { return };
        count.all += 1.0;
        count.right += f64::from(u8::from(is_right));
        if count.all >= REMEMBERED {
            *count = GradeCount { right: count.right / 2.0, all: count.all / 2.0 };
        }
    }

    /// The rate of all grades together.
    pub(super) fn overall(&self) -> f64 {
        let sum = |[right, all]: [f64; 2], count: &GradeCount| [right + count.right, all + count.all];
        let [right, all] = self.grades.iter().fold([0.0; 2], sum);
        (right + ASSUMED_OVERALL * ASSUMED_WEIGHT) / (all + ASSUMED_WEIGHT)
    }

    /// The rate of a grade; 0 for one that does not exist.
    pub(super) fn rate(&self, grade: u8) -> f64 {
        let grade = usize::from(grade);
        let Some((count, assumed)) = self.grades.get(grade).zip(ASSUMED.get(grade)) else { return 0.0 };
        (count.right + assumed * ASSUMED_WEIGHT) / (count.all + ASSUMED_WEIGHT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_moves_from_the_assumption_to_what_is_seen_and_follows_a_change() {
        let mut rates = AcceptanceRates::default();
        assert!((rates.rate(3) - ASSUMED[3]).abs() < 1e-12);
        assert!((rates.overall() - ASSUMED_OVERALL).abs() < 1e-12);
        (0..400).for_each(|index| rates.learn(3, index % 4 == 0));
        assert!((rates.rate(3) - 0.25).abs() < 0.05, "{}", rates.rate(3));
        assert!((rates.overall() - 0.25).abs() < 0.05, "{}", rates.overall());
        (0..100).for_each(|_| rates.learn(3, true));
        assert!(rates.rate(3) > 0.8, "{}", rates.rate(3));
        assert!((rates.rate(2) - ASSUMED[2]).abs() < 1e-12, "other grades stay");
        rates.learn(DraftToken::GRADES, true);
        assert!(rates.rate(DraftToken::GRADES) == 0.0, "there is no such grade");
    }
}
