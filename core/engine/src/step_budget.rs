//! [`StepBudget`]: how many rows a step may have, so that it takes a bounded time.

use std::time::Duration;

/// The fewest rows of prompts in a step, if that many are pending. Smaller chunks cost too much: per row, a chunk of
/// 32 rows takes 1.24 times as long as one of 256, of 16 rows 1.6 times, of 8 rows 2.6 times.
const MIN_ROWS: usize = 32;

/// The share of the newest measurement in an estimate.
const NEWEST: f64 = 0.5;

/// The most by which one measurement raises an estimate: a step that something else delayed does not count in full.
const MAX_RISE: f64 = 2.0;

/// The least share of the time of a step that belongs to prompts, in a measurement and in a prediction. The time of
/// decoding is an estimate, too, and may be longer than the whole step.
const MIN_SHARE: f64 = 0.25;

/// What a step computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepLoad {
    /// Rows of sequences that decode.
    pub(crate) decoded: usize,
    /// Rows of prompts, or of texts whose vectors are computed.
    pub(crate) prompt: usize,
    /// Whether it produced logits or vectors. Backends return from other steps before they are complete.
    pub(crate) has_rows: bool,
}

/// Bounds the time of steps by the number of rows of prompts in them. The time of such a row is estimated from the
/// steps before, so it follows the position of the prompts (a row attends to all rows before it), the machine and its
/// load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepBudget {
    /// Seconds of a step that only decodes.
    decode: Option<f64>,
    /// Seconds of a row of a prompt, without the decoding in the same step.
    row: Option<f64>,
}

impl StepBudget {
    /// The most rows of prompts in the next step, which is to take this time; `None` = any time.
    pub(crate) fn rows(&self, time: Option<Duration>) -> usize {
        let Some(time) = time.map(|time| time.as_secs_f64()) else { return usize::MAX };
        let Some(row) = self.row else { return MIN_ROWS };
        let left = (time - self.decode.unwrap_or(0.0)).max(time * MIN_SHARE);
        // A quotient past the integers, also of a row that took no time, becomes the largest one.
        let rows = if row > 0.0 { left / row } else { f64::INFINITY };
        (rows as usize).max(MIN_ROWS)
    }

    /// Learns from a step that took this long.
    pub(crate) fn measured(&mut self, load: StepLoad, time: Duration) {
        let time = time.as_secs_f64();
        if !load.has_rows {
            return;
        }
        if load.prompt == 0 {
            self.decode = Some(blended(self.decode, time));
        } else if load.prompt >= MIN_ROWS {
            let decode = self.decode.filter(|_| load.decoded > 0).unwrap_or(0.0);
            let own = (time - decode).max(time * MIN_SHARE) / load.prompt as f64;
            // Slower rows count at once, so that the next step is not too long again.
            self.row = match self.row {
                Some(row) if own > row && row > 0.0 => Some(own.min(row * MAX_RISE)),
                row => Some(blended(row, own)),
            };
        }
    }
}

/// An estimate that moves to the newest measurement.
fn blended(estimate: Option<f64>, newest: f64) -> f64 {
    estimate.map_or(newest, |estimate| estimate + NEWEST * (newest - estimate))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(100);

    /// A machine: seconds of a step.
    struct Machine {
        /// A step with one decoded row, which reads all weights.
        decode: f64,
        /// A row at the start of a prompt.
        row: f64,
        /// The same for each position before it.
        attention: f64,
    }

    impl Machine {
        /// Rows `from..from + rows` of a prompt beside `decoded` rows. Small chunks cost more, as measured: 1.24 times at 32.
        fn step(&self, decoded: usize, from: usize, rows: usize) -> Duration {
            let small = 1.0 + 8.0 / rows.max(1) as f64;
            let middle = from as f64 + rows as f64 / 2.0;
            let prompt = rows as f64 * (self.row * small + self.attention * middle);
            Duration::from_secs_f64(if decoded > 0 { self.decode + prompt } else { prompt })
        }

        /// Reads a prompt beside a stream; the time of each step.
        fn read(&self, budget: &mut StepBudget, tokens: usize) -> Vec<Duration> {
            let (mut done, mut times) = (0, Vec::new());
            while done < tokens {
                let rows = budget.rows(Some(BOUND)).min(tokens - done).min(512);
                let time = self.step(1, done, rows);
                budget.measured(StepLoad { decoded: 1, prompt: rows, has_rows: true }, time);
                times.push(time);
                done += rows;
            }
            times
        }

        fn decode(&self, budget: &mut StepBudget) {
            let load = StepLoad { decoded: 1, prompt: 0, has_rows: true };
            (0..10).for_each(|_| budget.measured(load, self.step(1, 0, 0)));
        }
    }

    /// From 1,000 to 300 rows a second, with attention that doubles the price of a row in 4,000 tokens.
    #[test]
    fn steps_stay_near_their_bound_along_a_prompt() {
        // Without a limit of the whole time where decoding alone takes a third of the bound or more.
        for (decode, row, most) in [
            (0.008, 0.001, 1.4),
            (0.02, 0.0008, 1.4),
            (0.001, 0.0005, 1.4),
            (0.03, 0.002, 2.5),
            (0.06, 0.0012, 2.5),
        ] {
            let machine = Machine { decode, row, attention: row / 4000.0 };
            let mut budget = StepBudget::default();
            machine.decode(&mut budget);
            let times = machine.read(&mut budget, 4000);
            let longest = times.iter().max().unwrap();
            let allowed = Duration::from_millis(130).max(machine.step(1, 4000, MIN_ROWS));
            assert!(*longest <= allowed, "{decode} {row}: {longest:?} of {times:?}");
            let total: Duration = times.iter().sum();
            let whole: Duration = (0..8).map(|at| machine.step(1, at * 500, 500)).sum();
            assert!(total < whole.mul_f64(most), "{decode} {row}: {total:?} for {whole:?}");
            assert_eq!(times[0], machine.step(1, 0, MIN_ROWS), "the first step is small");
        }
    }

    /// The next prompt begins where rows are cheap, and one that was set aside goes on where they are expensive.
    #[test]
    fn a_jump_of_the_position_is_followed() {
        let machine = Machine { decode: 0.01, row: 0.0005, attention: 0.000_000_25 };
        let mut budget = StepBudget::default();
        machine.decode(&mut budget);
        machine.read(&mut budget, 4000);
        let expensive = budget.rows(Some(BOUND));
        machine.read(&mut budget, 600);
        let cheap = budget.rows(Some(BOUND));
        assert!(cheap > expensive + 30, "{cheap} {expensive}");
        let load = StepLoad { decoded: 1, prompt: cheap, has_rows: true };
        let times: Vec<Duration> = (0..4)
            .map(|at| {
                let load = StepLoad { prompt: budget.rows(Some(BOUND)).min(cheap), ..load };
                let time = machine.step(1, 4000 + at * cheap, load.prompt);
                budget.measured(load, time);
                time
            })
            .collect();
        assert!(times[3] <= BOUND.mul_f64(1.2), "{times:?}");
    }

    /// One step that something else delayed costs a few small steps, not the prompt.
    #[test]
    fn one_delayed_step_is_forgotten() {
        let machine = Machine { decode: 0.01, row: 0.0005, attention: 0.0 };
        let mut budget = StepBudget::default();
        machine.decode(&mut budget);
        machine.read(&mut budget, 4000);
        let before = budget.rows(Some(BOUND));
        budget.measured(StepLoad { decoded: 1, prompt: before, has_rows: true }, Duration::from_secs(30));
        assert!(budget.rows(Some(BOUND)) >= before / 2 - 1, "{} after {before}", budget.rows(Some(BOUND)));
        machine.read(&mut budget, 2000);
        assert!(budget.rows(Some(BOUND)) * 10 > before * 9, "{} after {before}", budget.rows(Some(BOUND)));
    }

    #[test]
    fn the_smallest_chunk_is_the_least_and_no_number_is_divided_by_zero() {
        let step = |prompt, has_rows| StepLoad { decoded: 1, prompt, has_rows };
        assert_eq!(StepBudget::default().rows(None), usize::MAX);
        for time in [Duration::ZERO, BOUND, Duration::MAX] {
            let mut budget = StepBudget::default();
            assert_eq!(budget.rows(Some(time)), MIN_ROWS, "nothing is known yet");
            // The end of a step without logits is unknown, and the time of a few rows does not predict that of many.
            budget.measured(step(512, false), Duration::from_micros(1));
            budget.measured(step(MIN_ROWS - 1, true), Duration::from_micros(1));
            assert_eq!(budget.rows(Some(time)), MIN_ROWS);
            budget.measured(step(64, true), Duration::ZERO);
            assert_eq!(budget.rows(Some(time)), usize::MAX, "rows that take no time");
            budget.measured(step(64, true), Duration::from_secs(3600));
            budget.measured(step(64, true), Duration::MAX);
            assert!(budget.rows(Some(time)) >= MIN_ROWS);
        }
        // A model whose decoding alone takes longer than the bound still computes prompts.
        let mut slow = StepBudget::default();
        slow.measured(step(0, true), Duration::from_secs(1));
        slow.measured(step(64, true), Duration::from_secs(2));
        assert_eq!(slow.rows(Some(BOUND)), MIN_ROWS);
    }
}
