//! The pace of drafts on simulated machines: fast where guesses are right, and never slow where they are wrong.

use super::{DecodeCosts, Drafting, PromptLookup};
use menagerie_random::SplitMix64;
use std::time::Duration;

/// A machine: microseconds of steps with 1 to 9 rows, as measured with 8-bit products of one small and one larger model,
/// and one where rows are cheap.
const MACHINES: [(&str, [u64; 9]); 3] = [
    ("small", [7800, 18_400, 18_500, 18_700, 22_200, 23_600, 24_400, 22_800, 25_000]),
    ("larger", [16_800, 50_600, 52_000, 55_300, 68_000, 70_000, 72_000, 73_400, 80_000]),
    ("cheap rows", [10_000, 11_000, 11_500, 12_000, 13_000, 13_500, 14_000, 15_000, 16_000]),
];

/// How many times as fast a text is generated after its prompt with drafts as without.
fn gain(text: &[u32], prompt: usize, machine: &[u64; 9], noise: u64) -> f64 {
    let mut drafting = Drafting::new(&PromptLookup).unwrap();
    let (mut costs, mut random) = (DecodeCosts::default(), SplitMix64::new(1));
    let (mut done, mut plain, mut drafted) = (prompt, 0, 0);
    while done < text.len() {
        let proposed = drafting.propose(&text[..done], None);
        let chances: Vec<f64> = proposed.iter().map(|guess| guess.chance).collect();
        let count = costs.worthwhile(1, &chances);
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
    plain as f64 / drafted as f64
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
