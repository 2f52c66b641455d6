//! [`Mutator`]: inputs made from valid ones, reproducibly.

use crate::{LONGEST_INPUT, Target};
use menagerie_random::SplitMix64;

/// Numbers at which readers of binary formats go wrong.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    7,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 60,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Numbers at which readers of texts go wrong.
const NUMBERS: [&str; 10] =
    ["0", "-1", "1e308", "4294967296", "9223372036854775807", "-0.0", "null", "true", "[]", "\"\""];

/// Makes inputs from a corpus. Equal seeds make equal inputs.
pub struct Mutator {
    corpus: Vec<Vec<u8>>,
    words: &'static [&'static str],
    random: SplitMix64,
}

impl Mutator {
    /// A mutator over the corpus of a target.
    pub fn new(target: &Target, seed: u64) -> Self {
        Self { corpus: target.corpus(), words: target.words, random: SplitMix64::new(seed) }
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.entry();
        for _ in 0..=self.random.below(6) {
            self.change(&mut input);
        }
        input.truncate(LONGEST_INPUT);
        input
    }

    fn entry(&mut self) -> Vec<u8> {
        let at = self.random.below(self.corpus.len());
        self.corpus.get(at).cloned().unwrap_or_default()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        match self.random.below(9) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.below(8);
                }
            }
            1 => {
                let edge = EDGES[self.random.below(EDGES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][self.random.below(4)];
                let end = input.len().min(at + width);
                input[at..end].copy_from_slice(&edge[..end - at]);
            }
            2 => drop(input.drain(at..(at + 1 + self.random.below(16)).min(input.len()))),
            3 => {
                let end = (at + 1 + self.random.below(64)).min(input.len());
                let copy = input[at..end].to_vec();
                self.insert(input, &copy);
            }
            4 => input.truncate(at),
            5 => {
                let other = self.entry();
                let from = self.random.below(other.len() + 1);
                let end = (from + self.random.below(256)).min(other.len());
                self.insert(input, &other[from..end]);
            }
            6 => {
                let number = NUMBERS[self.random.below(NUMBERS.len())];
                self.replace_word(input, number);
            }
            7 => {
                let word = self.random.choose(self.words).unwrap_or("");
                self.replace_word(input, word);
            }
            _ => {
                let word = self.random.choose(self.words).unwrap_or("");
                self.insert(input, word.as_bytes());
            }
        }
    }

    fn insert(&mut self, input: &mut Vec<u8>, bytes: &[u8]) {
        let at = self.random.below(input.len() + 1);
        input.splice(at..at, bytes.iter().copied());
    }

    /// Puts a word in the place of one, of a number or of a quoted text.
    fn replace_word(&mut self, input: &mut Vec<u8>, word: &str) {
        let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let from = self.random.below(input.len() + 1);
        let Some(start) = input[from..].iter().position(is_inside).map(|skipped| from + skipped) else {
            return;
        };
        let length = input[start..].iter().position(|byte| !is_inside(byte)).unwrap_or(input.len() - start);
        input.splice(start..start + length, word.bytes());
    }
}
