//! The pace of drafts on simulated machines: fast where guesses are right, and never slow where they are wrong.

use super::{
    DecodeCosts, DraftCost, DraftPace, DraftRequest, DraftSource, DraftToken, Drafter, Drafting, PricedGuess,
    PromptLookup,
};
use crate::error::GenerateError;
use menagerie_random::SplitMix64;
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static SIMULATED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static TOTAL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The time that a simulated drafter took since the last call.
pub(super) fn take_simulated() -> Duration {
    SIMULATED.take()
}

/// A drafter that knows the text, and guesses each token with a probability.
#[derive(Clone, Debug)]
struct SimulatedModel {
    text: Vec<u32>,
    /// The probability that a guess is right.
    rate: f64,
    /// The probability that it guesses at all.
    eagerness: f64,
    /// Microseconds of a guess, and of each token that it has not seen.
    each: u64,
    unseen: u64,
    /// Tokens that it has seen.
    seen: usize,
    random: SplitMix64,
}

impl DraftSource for SimulatedModel {
    fn start(&self, _: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError> {
        Ok(Box::new(self.clone()))
    }
}

impl SimulatedModel {
    fn chance(&mut self, probability: f64) -> bool {
        (self.random.below(1000) as f64) < 1000.0 * probability
    }
}

impl Drafter for SimulatedModel {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken> {
        let mut time = self.cost(tokens).start;
        self.seen = tokens.len();
        let mut draft = Vec::new();
        let rest = self.text[tokens.len()..].to_vec();
        for id in rest.into_iter().take(most) {
            time += Duration::from_micros(self.each);
            if !self.chance(self.eagerness) {
                break;
            }
            let id = if self.chance(self.rate) { id } else { id ^ 1 };
            draft.push(DraftToken { id, grade: 4 });
        }
        SIMULATED.set(SIMULATED.get() + time);
        TOTAL.set(TOTAL.get() + time);
        draft
    }

    fn cost(&mut self, tokens: &[u32]) -> DraftCost {
        let unseen = (tokens.len() - self.seen) as u64;
        let unseen = if unseen > 9 { unseen } else { 0 };
        // As measured: the time of a guess that came of it.
        let each = (self.each as f64 / self.eagerness) as u64;
        DraftCost { start: Duration::from_micros(self.unseen * unseen), each: Duration::from_micros(each) }
    }
}

/// A machine: microseconds of steps with 1 to 9 rows, as measured with 8-bit products of one small and one larger model,
/// and one where rows are cheap.
const MACHINES: [(&str, [u64; 9]); 3] = [
    ("small", [7800, 18_400, 18_500, 18_700, 22_200, 23_600, 24_400, 22_800, 25_000]),
    ("larger", [16_800, 50_600, 52_000, 55_300, 68_000, 70_000, 72_000, 73_400, 80_000]),
    ("cheap rows", [10_000, 11_000, 11_500, 12_000, 13_000, 13_500, 14_000, 15_000, 16_000]),
];

/// How many times as fast a text is generated after its prompt with drafts as without.
fn gain(text: &[u32], prompt: usize, machine: &[u64; 9], noise: u64) -> f64 {
    gain_of(&[&PromptLookup], text, prompt, machine, noise)
}

/// The same for one answer after the other, with the guesses of these sources.
fn gain_of(sources: &[&dyn DraftSource], text: &[u32], prompt: usize, machine: &[u64; 9], noise: u64) -> f64 {
    let (mut costs, mut random) = (DecodeCosts::default(), SplitMix64::new(1));
    let (mut plain, mut drafted) = (0, 0);
    TOTAL.set(Duration::ZERO);
    for source in sources {
        let mut drafting = Drafting::new(*source, &DraftRequest::default()).unwrap();
        let mut done = prompt;
        while done < text.len() {
            drafting.prepare(&text[..done], None, &costs, DraftPace::WhenFaster);
            let proposed = drafting.propose(&text[..done], &mut costs).unwrap();
            let priced: Vec<PricedGuess> =
                proposed.iter().map(|guess| PricedGuess::new(guess.chance, false, None)).collect();
            let count = costs.worthwhile(1, 1, &priced);
            let time = machine[count] * (100 + random.below(noise as usize + 1) as u64) / 100;
            costs.measured(1 + count, count, Duration::from_micros(time));
            drafted += time;
            let mut guesses = proposed.iter().take(count);
            loop {
                let token = text[done];
                plain += machine[0] * (200 + noise) / 200;
                done += 1;
                drafting.came(token);
                let is_right = guesses.next().is_some_and(|guess| guess.id == token);
                if done == text.len() || !is_right {
                    break;
                }
                costs.accepted();
            }
        }
    }
    plain as f64 / (drafted as f64 + TOTAL.get().as_secs_f64() * 1e6)
}

/// A text in which each token depends on the two before it, and on chance: the larger `choices`, the more.
fn chain(symbols: usize, choices: usize, tokens: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    let mut text = vec![1u32, 2];
    while text.len() < tokens {
        let [one, two] = [text[text.len() - 2], text[text.len() - 1]].map(|id| id as usize);
        text.push(((one * 7 + two * 13 + random.below(choices) * 5) % symbols) as u32);
    }
    text
}

/// A text that copies itself from place to place, with new tokens in between.
fn copying(tokens: usize, longest: usize, fresh: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    let mut text: Vec<u32> = (0..200).map(|_| random.below(5000) as u32).collect();
    while text.len() < tokens {
        let from = random.below(text.len() - longest);
        text.extend_from_within(from..from + 1 + random.below(longest));
        text.extend((0..random.below(fresh + 1)).map(|_| random.below(5000) as u32));
    }
    text
}

#[test]
fn text_that_does_not_repeat_itself_is_never_slower_by_more_than_three_percent() {
    for (name, machine) in MACHINES {
        for seed in 0..6 {
            for noise in [0, 10] {
                for (symbols, choices) in [(5000, 5000), (50, 50), (40, 8), (300, 4), (8, 8), (100, 3)] {
                    let text = chain(symbols, choices, 900, seed);
                    let gain = gain(&text, 400, &machine, noise);
                    assert!(
                        gain > 0.97,
                        "{name}: {gain:.3} with {choices} of {symbols}, noise {noise}, seed {seed}"
                    );
                }
                let text = copying(900, 12, 30, seed);
                let gain = gain(&text, 400, &machine, noise);
                assert!(gain > 0.97, "{name}: {gain:.3} of short copies, noise {noise}, seed {seed}");
            }
        }
    }
}

#[test]
fn text_that_copies_itself_is_faster() {
    for ((name, machine), least) in MACHINES.into_iter().zip([1.8, 1.2, 3.0]) {
        for seed in 0..6 {
            let gain = gain(&copying(1500, 120, 4, seed), 400, &machine, 10);
            assert!(gain > least, "{name}: {gain:.3}, seed {seed}");
        }
    }
}

/// Whatever a draft model costs, and however often it is right: it first has to compute a prompt of 400 tokens for each
/// answer. One short answer may lose what it takes to try.
#[test]
fn a_draft_model_is_asked_only_where_it_pays() {
    let text = copying(2400, 12, 30, 7);
    for (name, machine) in MACHINES {
        for (each, unseen) in [(300, 30), (1000, 100), (3000, 400), (9000, 3000)] {
            for (rate, eagerness) in
                [(0.02, 0.9), (0.3, 0.5), (0.5, 0.9), (0.6, 0.2), (0.8, 0.7), (0.95, 0.95)]
            {
                for (length, answers) in [(450, 1), (450, 20), (1000, 1), (1000, 5), (2400, 1)] {
                    let random = SplitMix64::new(each + length as u64);
                    let text = text[..length].to_vec();
                    let model =
                        SimulatedModel { text: text.clone(), rate, eagerness, each, unseen, seen: 0, random };
                    let gain = gain_of(&vec![&model as _; answers], &text, 400, &machine, 5);
                    let what = format!(
                        "{name}: {gain:.3} with {each}+{unseen}, {rate} {eagerness}, {answers} of {length}"
                    );
                    let least = match (answers, length) {
                        (1, 450) => 0.88,
                        (1, _) => 0.95,
                        _ => 0.97,
                    };
                    assert!(gain > least, "{what}");
                    let is_good =
                        rate > 0.9 && each <= 1000 && name == "cheap rows" && (answers, length) != (1, 450);
                    assert!(!is_good || gain > 1.7, "{what}");
                }
            }
        }
    }
}

/// Guesses that were wrong for a long time are tried again, with a small share of the time.
#[test]
fn a_draft_model_that_becomes_right_is_asked_again() {
    let text = copying(4000, 12, 30, 3);
    let (_, machine) = MACHINES[2];
    let mut wrong = text.clone();
    wrong[1000..2000].iter_mut().for_each(|id| *id ^= 1);
    let random = SplitMix64::new(5);
    let model = |text: Vec<u32>| {
        let random = random.clone();
        SimulatedModel { text, rate: 1.0, eagerness: 1.0, each: 800, unseen: 50, seen: 0, random }
    };
    let gain = gain_of(&[&model(wrong)], &text, 1000, &machine, 5);
    let best = gain_of(&[&model(text.clone())], &text, 1000, &machine, 5);
    assert!(gain > 1.5 && best > gain, "{gain:.3} of {best:.3}");
}
