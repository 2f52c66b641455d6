//! [`DecodeCosts`]: how long steps take that only decode, by their rows.

use std::time::Duration;

/// The most rows of a step whose time is known.
const MOST_ROWS: usize = 32;

/// The share of the newest measurement in an estimate.
const NEWEST: f64 = 0.3;

/// The assumed time of each additional row, as a share of the time without it, until a step with that many rows was
/// measured. It is less than on most machines, so that such steps are tried where many guesses are right.
const ASSUMED_RISE: f64 = 0.15;

/// The share of its distance to the assumption that an estimate moves with each step of fewer rows. A measurement that
/// something else delayed is forgotten in some hundreds of steps.
const FORGOTTEN: f64 = 0.003;

/// The least predicted gain for which guesses are computed.
pub(super) const LEAST_GAIN: f64 = 1.1;

/// The most that guesses may lose, as a share of the time of all steps, and in steps. A loss comes from steps that were
/// tried and whose guesses were wrong. Where it is larger, no guesses are computed for a while.
const MOST_LOSS: f64 = 0.02;
const FREE_LOSS: f64 = 1.0;

/// The most that drafters may take to start while their guesses have not made up for it, as a share of the time of all
/// steps.
const MOST_INVESTED: f64 = 0.005;

/// A guess that a step could compute, with what it is expected to bring and to cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PricedGuess {
    /// The probability that it and all guesses before it are right.
    pub(crate) chance: f64,
    /// The probability that the step is undone because of this guess, if the model has recurrent states.
    undone: f64,
    /// The rows that the next step then computes again, times this probability.
    again: f64,
    /// The copies of recurrent states before the step, and after it if it is undone.
    copies: f64,
}

impl PricedGuess {
    /// A guess that is reached and right with the probability `chance`. `undone`, for a model with recurrent states: the
    /// rows of the step before this guess, and the chance of the guess before it. `is_first`: of its sequence.
    pub(crate) fn new(chance: f64, is_first: bool, undone: Option<(usize, f64)>) -> Self {
        let Some((rows, before)) = undone else { return Self { chance, ..Self::default() } };
        let undone = (before - chance).max(0.0);
        let copies = undone + f64::from(u8::from(is_first));
        Self { chance, undone, again: undone * rows as f64, copies }
    }

    /// Adds another guess to the sums.
    fn add(&mut self, guess: &Self) {
        self.chance += guess.chance;
        self.undone += guess.undone;
        self.again += guess.again;
        self.copies += guess.copies;
    }
}

/// A step without guesses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlainStep {
    /// Its sequences, which all decode.
    pub(crate) sequences: usize,
    /// Its rows: one for each sequence, and those that an undone step leaves.
    pub(crate) rows: usize,
}

/// The share of the time since the last guesses that is spent to learn whether guesses are right more often now.
pub(super) const LEARNING: f64 = 0.005;

/// Seconds of steps that only decode, by the number of their rows.
#[derive(Clone, Debug)]
pub(crate) struct DecodeCosts {
    seconds: [Option<f64>; MOST_ROWS + 1],
    /// Sequences in the newest step.
    sequences: usize,
    /// Seconds of all steps.
    spent: f64,
    /// Seconds that guesses have cost, less those that right guesses have saved.
    lost: f64,
    /// Seconds that each right guess of the newest step saves.
    saving: f64,
    /// Seconds that the guesses for the next step have taken.
    guessing: f64,
    /// Seconds that drafters took to start.
    invested: f64,
    /// Seconds that guesses have saved so far, less those that they have cost.
    earned: f64,
    /// Seconds of a copy of recurrent states.
    copy: f64,
    /// Seconds in which the model's own head adds a guess to each draft.
    head: Option<f64>,
    /// Seconds of all steps when it last guessed.
    head_asked: f64,
}

impl Default for DecodeCosts {
    fn default() -> Self {
        Self {
            seconds: [None; MOST_ROWS + 1],
            sequences: 0,
            spent: 0.0,
            lost: 0.0,
            saving: 0.0,
            guessing: 0.0,
            invested: 0.0,
            earned: 0.0,
            copy: 0.0,
            head: None,
            head_asked: 0.0,
        }
    }
}

impl DecodeCosts {
    /// Learns from a step that only decoded; `drafting` of its `rows` rows were guesses, or rows of a step that was
    /// undone.
    pub(crate) fn measured(&mut self, rows: usize, drafting: usize, time: Duration) {
        let time = time.as_secs_f64();
        self.spent += time;
        let certain = rows.saturating_sub(drafting);
        self.sequences = certain;
        let alone = self.seconds.get(certain).copied().flatten().filter(|_| drafting > 0).unwrap_or(time);
        // Guesses that took time count with the step that could compute them.
        let cost = time - alone + std::mem::take(&mut self.guessing);
        self.lost += cost;
        self.earned -= cost;
        self.saving = alone / certain.max(1) as f64;
        let Some(known) = self.seconds.get_mut(rows) else { return };
        let own = known.map_or(time, |known| known + NEWEST * (time - known));
        *known = Some(own);
        for (more, seconds) in self.seconds.iter_mut().enumerate().skip(rows + 1) {
            if let Some(seconds) = seconds {
                *seconds -= FORGOTTEN * (*seconds - assumed(own, rows, more)).max(0.0);
            }
        }
    }

    /// Recurrent states were copied because of guesses, or put back.
    pub(crate) fn copied(&mut self, time: Duration) {
        let time = time.as_secs_f64();
        (self.spent, self.lost, self.earned) = (self.spent + time, self.lost + time, self.earned - time);
        self.copy += NEWEST * (time - self.copy);
    }

    /// A guess of the newest step was right.
    pub(crate) fn accepted(&mut self) {
        // What was saved pays for no later loss.
        self.lost = (self.lost - self.saving).max(0.0);
        self.earned += self.saving;
    }

    /// A drafter took `time`, of which it had announced `start` as the time before its first guess.
    pub(super) fn guessed(&mut self, time: Duration, start: Duration) {
        let (invested, guesses) = (time.min(start).as_secs_f64(), time.saturating_sub(start).as_secs_f64());
        self.spent += invested + guesses;
        self.invested += invested;
        self.guessing += guesses;
    }

    /// The model's own head took this long to add a guess to each draft.
    pub(crate) fn head_guessed(&mut self, time: Duration) {
        self.guessed(time, Duration::ZERO);
        let time = time.as_secs_f64();
        self.head = Some(self.head.map_or(time, |known| known + NEWEST * (time - known)));
        self.head_asked = self.spent;
    }

    /// Whether the model's own head is to add a guess to each open draft of a step that has `guessed` guesses so far.
    /// Where it has not guessed for long, it does, to learn whether its guesses are right more often now.
    pub(crate) fn is_worth_guessing(&self, plain: PlainStep, guessed: usize, open: &[PricedGuess]) -> bool {
        let PlainStep { sequences, rows } = plain;
        let Some(alone) = self.seconds.get(rows).copied().flatten().filter(|_| sequences > 0) else {
            return false;
        };
        let of = |count: usize| self.of_rows(rows, alone, count);
        let drafted = rows + guessed;
        let Some((before, after)) = of(drafted).zip(of(drafted + 1)) else { return false };
        let mut sum = PricedGuess::default();
        for guess in open {
            sum.add(guess);
        }
        let undoing = sum.copies * self.copy + self.later(sequences, &sum);
        let cost = self.head.unwrap_or(0.0) + (after - before).max(0.0) + undoing;
        let is_due = guessed == 0 && cost <= LEARNING * (self.spent - self.head_asked);
        is_due || (!self.has_lost(alone) && sum.chance / sequences as f64 * alone > cost)
    }

    /// Seconds of all steps and guesses so far.
    pub(super) fn spent(&self) -> f64 {
        self.spent
    }

    /// The number of sequences in the newest step, and its seconds without guesses.
    pub(super) fn plain(&self) -> Option<(usize, f64)> {
        let alone = self.seconds.get(self.sequences).copied().flatten().filter(|_| self.sequences > 0)?;
        Some((self.sequences, alone))
    }

    /// Whether a drafter may take `start` seconds to start: the first time, later if guesses were worth it so far, or if
    /// it is a small share of the time.
    pub(super) fn may_invest(&self, start: f64) -> bool {
        let all = self.invested + start;
        self.invested == 0.0 || self.earned > self.invested || all <= MOST_INVESTED * self.spent
    }

    /// The expected seconds of a step of `rows` rows, if one of `fewer` rows takes `alone`; `None` for more rows than are
    /// measured.
    pub(super) fn of_rows(&self, fewer: usize, alone: f64, rows: usize) -> Option<f64> {
        let known = self.seconds.get(rows)?;
        Some(known.unwrap_or_else(|| assumed(alone, fewer, rows)))
    }

    /// Whether guesses have lost too much, if a step without them takes `alone`.
    pub(super) fn has_lost(&self, alone: f64) -> bool {
        self.lost > MOST_LOSS * self.spent + FREE_LOSS * alone
    }

    /// The number of guesses to compute in a step of `sequences` sequences that has `rows` rows without them. The chances
    /// of the guesses are descending.
    pub(crate) fn worthwhile(&self, sequences: usize, rows: usize, guesses: &[PricedGuess]) -> usize {
        let Some(alone) = self.seconds.get(rows).copied().flatten().filter(|_| sequences > 0) else {
            return 0;
        };
        if self.has_lost(alone) {
            return 0;
        }
        let (mut best, mut count) = (LEAST_GAIN, 0);
        let (mut slowest, mut sum) = (alone, PricedGuess::default());
        for (more, guess) in (1..).zip(guesses) {
            let Some(known) = self.of_rows(rows, alone, rows + more) else { break };
            sum.add(guess);
            // More rows never take less time than fewer.
            slowest = slowest.max(known);
            let time = slowest + sum.copies * self.copy + self.later(sequences, &sum);
            let gain = (1.0 + sum.chance / sequences as f64) * alone / time;
            if gain > best {
                (best, count) = (gain, more);
            }
        }
        count
    }

    /// The expected seconds that a later step takes longer because guesses with these sums are undone.
    fn later(&self, sequences: usize, sum: &PricedGuess) -> f64 {
        // Those of several sequences are computed again in the same step.
        let probability = sum.undone.min(1.0);
        let Some(alone) = self.seconds.get(sequences).copied().flatten().filter(|_| probability > 0.0) else {
            return 0.0;
        };
        let rows = sequences + (sum.again / probability).ceil() as usize;
        let known = self.seconds.get(rows).copied().flatten();
        let time = known.unwrap_or_else(|| assumed(alone, sequences, rows));
        probability * (time - alone).max(0.0)
    }
}

/// The assumed seconds of a step of `more` rows, if one of `rows` rows takes `seconds`.
fn assumed(seconds: f64, rows: usize, more: usize) -> f64 {
    seconds * (1.0 + ASSUMED_RISE * (more.saturating_sub(rows)) as f64 / rows.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(milliseconds: &[u64]) -> DecodeCosts {
        let mut costs = DecodeCosts::default();
        for (rows, time) in (1..).zip(milliseconds) {
            costs.measured(rows, 0, Duration::from_millis(*time));
        }
        costs
    }

    /// Cumulative chances of guesses that are each right with this probability.
    fn chances(rate: f64) -> Vec<f64> {
        (1..=8).map(|index| rate.powi(index)).collect()
    }

    /// The number of guesses of a model without recurrent states.
    fn count(costs: &DecodeCosts, rows: usize, chances: &[f64]) -> usize {
        let priced: Vec<PricedGuess> =
            chances.iter().map(|chance| PricedGuess::new(*chance, false, None)).collect();
        costs.worthwhile(rows, rows, &priced)
    }

    /// The number of guesses of one sequence of a model with recurrent states.
    fn recurrent(costs: &DecodeCosts, chances: &[f64]) -> usize {
        let before = std::iter::once(&1.0).chain(chances);
        let priced = chances.iter().zip(before).enumerate();
        let priced: Vec<PricedGuess> = priced
            .map(|(index, (chance, before))| {
                PricedGuess::new(*chance, index == 0, Some((1 + index, *before)))
            })
            .collect();
        costs.worthwhile(1, 1, &priced)
    }

    /// Rows that are computed again and copies make guesses dearer, so that only good ones are computed.
    #[test]
    fn recurrent_states_make_guesses_dearer() {
        let mut flat = costs(&[100, 110, 115, 120, 130, 140, 150, 160, 170]);
        for rate in [0.3, 0.6, 0.9, 1.0] {
            assert!(recurrent(&flat, &chances(rate)) <= count(&flat, 1, &chances(rate)), "{rate}");
        }
        assert_eq!((recurrent(&flat, &chances(0.3)), recurrent(&flat, &chances(1.0))), (1, 8));
        let steep = costs(&[100, 190, 190, 190, 190, 190, 190, 190, 190]);
        assert_eq!((count(&steep, 1, &chances(0.6)), recurrent(&steep, &chances(0.6))), (8, 0));
        assert!(recurrent(&steep, &chances(0.95)) > 4);
        // A copy that takes longer than a step.
        flat.copy = 0.5;
        assert_eq!(recurrent(&flat, &chances(0.6)), 0);
    }

    /// Copies count as losses.
    #[test]
    fn copies_that_bring_nothing_end_guesses() {
        let mut costs = costs(&[100, 120, 120]);
        let before = recurrent(&costs, &[0.9, 0.8]);
        (0..40).for_each(|_| costs.copied(Duration::from_millis(5)));
        assert_eq!((before, recurrent(&costs, &[0.9, 0.8])), (2, 0));
    }

    #[test]
    fn nothing_is_computed_before_a_plain_step_was_measured() {
        assert_eq!(count(&DecodeCosts::default(), 1, &chances(1.0)), 0);
        assert_eq!(count(&costs(&[100]), 0, &chances(1.0)), 0);
        assert_eq!(count(&costs(&[100]), 2, &chances(1.0)), 0);
    }

    #[test]
    fn a_head_guesses_where_that_pays_for_its_time_and_tries_again_after_a_while() {
        let mut costs = costs(&[100, 110, 120]);
        let plain = PlainStep { sequences: 1, rows: 1 };
        let worth = |costs: &DecodeCosts, guessed, chance| {
            costs.is_worth_guessing(plain, guessed, &[PricedGuess::new(chance, guessed == 0, None)])
        };
        assert!(!worth(&DecodeCosts::default(), 0, 1.0), "no plain step was measured");
        costs.head_guessed(Duration::from_millis(20));
        costs.measured(1, 0, Duration::from_millis(100));
        assert!(worth(&costs, 0, 0.5) && !worth(&costs, 0, 0.2));
        (0..100).for_each(|_| costs.measured(1, 0, Duration::from_millis(100)));
        assert!(worth(&costs, 0, 0.0) && !worth(&costs, 1, 0.0));
    }

    /// The copy of recurrent states and the rows that a wrong guess makes the next step compute again count, too.
    #[test]
    fn a_head_of_a_model_with_recurrent_states_guesses_less_often() {
        let mut costs = costs(&[100, 110, 115]);
        costs.head_guessed(Duration::from_millis(20));
        let plain = PlainStep { sequences: 1, rows: 1 };
        let worth = |costs: &DecodeCosts, chance| {
            let [free, dear] = [None, Some((1, 1.0))].map(|undone| PricedGuess::new(chance, true, undone));
            [free, dear].map(|guess| costs.is_worth_guessing(plain, 0, &[guess]))
        };
        assert_eq!(worth(&costs, 0.9), [true, true]);
        assert_eq!(worth(&costs, 0.32), [true, false]);
        costs.copy = 0.08;
        assert_eq!(worth(&costs, 0.9), [true, false]);
    }

    #[test]
    fn the_number_of_guesses_follows_the_costs_and_the_chances() {
        let steep = costs(&[100, 300, 300, 300, 400, 400, 400, 400, 400]);
        let flat = costs(&[100, 110, 115, 120, 130, 140, 150, 160, 170]);
        let none: &[f64] = &[];
        for (chances, expected) in [
            (none, [0, 0]),
            (&[0.05, 0.01], [0, 0]),
            (&chances(0.3), [0, 2]),
            (&chances(0.6), [0, 3]),
            (&chances(0.98), [8, 8]),
        ] {
            assert_eq!([count(&steep, 1, chances), count(&flat, 1, chances)], expected, "{chances:?}");
        }
    }

    /// Where more rows cost as much more as they bring, guesses end by themselves.
    #[test]
    fn many_sequences_compute_no_guesses_where_arithmetic_is_the_limit() {
        let times: Vec<u64> = (1..=32).map(|rows| 100 * rows).collect();
        let bound = costs(&times);
        for rows in [1, 4, 16] {
            assert_eq!(count(&bound, rows, &chances(0.9)), 0, "{rows}");
        }
        assert_eq!(count(&bound, 33, &[1.0; 8]), 0, "the time of so many rows is not known");
        assert_eq!(count(&costs(&[100; 32]), 30, &[1.0; 8]), 0, "two more rows bring less than a tenth");
        assert_eq!(count(&costs(&[100; 32]), 10, &[1.0; 8]), 8);
    }

    /// Guesses that cost more than they bring end, and are tried again after some time.
    #[test]
    fn losses_are_bounded() {
        let mut costs = costs(&[100, 120, 120]);
        let sure = [0.9, 0.8];
        let mut drafted = 0;
        for _ in 0..1000 {
            let guesses = count(&costs, 1, &sure);
            let time = if guesses > 0 { 200 } else { 100 };
            costs.seconds[3] = Some(0.12);
            costs.measured(1 + guesses, guesses, Duration::from_millis(time));
            drafted += usize::from(guesses > 0);
        }
        assert!((15..=25).contains(&drafted), "{drafted} steps, each of which loses a step");
        for _ in 0..100 {
            costs.measured(3, 2, Duration::from_millis(120));
            (0..2).for_each(|_| costs.accepted());
        }
        assert_eq!(count(&costs, 1, &sure), 2, "right guesses make up for it");
    }

    /// An unknown number of rows is tried where the guesses are good, and a delayed measurement is forgotten.
    #[test]
    fn unknown_costs_are_tried_and_bad_measurements_forgotten() {
        let mut costs = costs(&[100]);
        assert_eq!(count(&costs, 1, &chances(0.2)), 0, "bad guesses are not tried");
        assert!(count(&costs, 1, &chances(0.7)) > 0);
        costs.measured(2, 0, Duration::from_millis(1000));
        assert_eq!(count(&costs, 1, &chances(0.7)), 0, "more rows take at least as long");
        (0..1500).for_each(|_| costs.measured(1, 0, Duration::from_millis(100)));
        assert!(count(&costs, 1, &chances(0.7)) > 0);
    }
}
