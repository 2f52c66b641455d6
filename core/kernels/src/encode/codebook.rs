//! Codebooks: the word with the least weighted square error for given values, weights and scale, exactly.
//!
//! The error of a word is a sum over its values, and a value has few levels. So the errors of all first halves of words
//! and of all second halves are tabulated. Words are listed by their first half, and a list is searched only if the
//! error of its half plus the least error of any second half is less than the best error found.

use std::sync::OnceLock;

use crate::blocks::{IQ1_TIMES_8, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use crate::simd::{Kernel, Simd};

/// The most halves a word may have: nine rows of sixteen.
const HALVES: usize = 9 * 16;

/// Errors of halves of words.
pub(super) struct Tables {
    low: [f32; HALVES],
    high: [f32; HALVES],
    /// The least error of any second half.
    floor: f32,
}

impl Tables {
    #[inline(always)]
    pub(super) fn new() -> Tables {
        Tables { low: [f32::INFINITY; HALVES], high: [f32::INFINITY; HALVES], floor: 0.0 }
    }
}

/// The words of a book.
pub(super) struct Codebook {
    /// Where the list of each first half begins in `entries`.
    lists: [u16; HALVES + 1],
    /// Second half and number of each word, by first half.
    entries: Vec<[u16; 2]>,
    /// Both halves of each word.
    halves: Vec<[u16; 2]>,
    /// The values of each word; for words of four, the rest is zero.
    pub values: Vec<[f32; 8]>,
}

/// A codebook: words of 8 values with three levels, or of 4 values with eight levels.
pub(super) struct Grid {
    /// Values of a word.
    pub values: usize,
    /// The levels in ascending order; if there are three, the others are NaN.
    pub levels: [f32; 8],
    /// Its words.
    pub book: fn() -> &'static Codebook,
}

macro_rules! grids {
    ($($(#[$doc:meta])* $name:ident = $table:ident, $values:literal, $levels:expr;)*) => {$(
        $(#[$doc])*
        pub(super) static $name: Grid = Grid {
            values: $values,
            levels: $levels,
            book: || {
                static BOOK: OnceLock<Codebook> = OnceLock::new();
                BOOK.get_or_init(|| {
                    let words = $table.iter().map(|word| word.to_le_bytes().map(|v| v as i8).to_vec());
                    Codebook::new(&$name, &words.collect::<Vec<_>>())
                })
            },
        };
    )*};
}

/// Three levels.
const fn three(levels: [f32; 3]) -> [f32; 8] {
    let [low, middle, high] = levels;
    [low, middle, high, f32::NAN, f32::NAN, f32::NAN, f32::NAN, f32::NAN]
}

const TWO_BITS: [f32; 8] = three([8.0, 25.0, 43.0]);

grids! {
    /// 256 words of eight.
    IQ2_XXS_GRID = IQ2_XXS, 8, TWO_BITS;
    /// 512 words of eight.
    IQ2_XS_GRID = IQ2_XS, 8, TWO_BITS;
    /// 1024 words of eight.
    IQ2_S_GRID = IQ2_S, 8, TWO_BITS;
    /// 256 words of four.
    IQ3_XXS_GRID = IQ3_XXS, 4, [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0];
    /// 512 words of four.
    IQ3_S_GRID = IQ3_S, 4, [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];
    /// 2048 words of eight values, each eight times -1, 0 or 1.
    IQ1_GRID = IQ1_TIMES_8, 8, three([-8.0, 0.0, 8.0]);
}

impl Codebook {
    fn new(grid: &Grid, words: &[Vec<i8>]) -> Codebook {
        let number = |v: i8| grid.levels.iter().position(|level| *level == f32::from(v)).unwrap_or_default();
        let half = |part: &[i8]| {
            let at = |i: usize| number(part[i]);
            let slot = match part.len() {
                4 => (at(0) * 3 + at(1)) * 16 + at(2) * 3 + at(3),
                _ => at(0) * 8 + at(1),
            };
            slot as u16
        };
        let halves: Vec<[u16; 2]> = words
            .iter()
            .map(|word| {
                let (low, high) = word.split_at(grid.values / 2);
                [half(low), half(high)]
            })
            .collect();
        let (mut lists, mut entries) = ([0; HALVES + 1], Vec::with_capacity(words.len()));
        for slot in 0..HALVES {
            for (number, [low, high]) in halves.iter().enumerate() {
                if usize::from(*low) == slot {
                    entries.push([*high, number as u16]);
                }
            }
            lists[slot + 1] = entries.len() as u16;
        }
        let padded = |word: &Vec<i8>| {
            let mut values = [0.0; 8];
            for (value, v) in values.iter_mut().zip(word) {
                *value = f32::from(*v);
            }
            values
        };
        Codebook { lists, entries, halves, values: words.iter().map(padded).collect() }
    }

    /// The word with the least error according to the tables, and that error; `start` is a word that may be near it.
    #[inline(always)]
    fn nearest(&self, rows: usize, tables: &Tables, start: u16) -> (u16, f32) {
        let [low, high] = self.halves[usize::from(start)];
        let (mut word, mut best) = (start, tables.low[usize::from(low)] + tables.high[usize::from(high)]);
        for row in 0..rows {
            let errors = &tables.low[row * 16..][..16];
            let (mut near, limit) = (0u32, best - tables.floor);
            for i in 0..16 {
                near |= u32::from(errors[i] < limit) << i;
            }
            while near != 0 {
                let i = near.trailing_zeros() as usize;
                near &= near - 1;
                let slot = row * 16 + i;
                let list = usize::from(self.lists[slot])..usize::from(self.lists[slot + 1]);
                let entries = &self.entries[list];
                for n in 0..entries.len() {
                    let error = errors[i] + tables.high[usize::from(entries[n][0])];
                    if error < best {
                        (word, best) = (entries[n][1], error);
                    }
                }
            }
        }
        (word, best)
    }
}

/// The result for a group: its words and the sums that decide how good they are.
#[derive(Clone, Copy)]
pub(super) struct CodeWords {
    /// The words of the group.
    pub words: [u16; 8],
    /// `sum w x g` over the values `g` of the words.
    pub along: f32,
    /// `sum w g^2`.
    pub square: f32,
    /// `sum w (x - scale g)^2`.
    pub error: f32,
}

impl CodeWords {
    /// Before any search.
    #[inline(always)]
    pub(super) fn none() -> CodeWords {
        CodeWords { words: [0; 8], along: 0.0, square: 0.0, error: f32::INFINITY }
    }
}

/// The best words for the values of a run, or of a whole group, at a scale.
pub(super) struct FindWords<'a, const V: usize> {
    pub x: &'a [f32],
    pub w: &'a [f32],
    pub scale: f32,
    /// The shift that is added to the levels.
    pub shift: f32,
    /// Words that may be near.
    pub start: &'a [u16],
    /// The levels of a value.
    pub levels: &'static [f32; 8],
    /// The words, of `V` values.
    pub book: &'static Codebook,
}

impl<const V: usize> Kernel for FindWords<'_, V> {
    type Output = CodeWords;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> CodeWords {
        let (book, mut tables) = (self.book, Tables::new());
        let (mut along, mut square, mut found) = ([0.0; 8], [0.0; 8], CodeWords::none());
        found.error = 0.0;
        for n in 0..self.x.len() / V {
            let (x, w) = (&self.x[n * V..][..V], &self.w[n * V..][..V]);
            let rows = match V {
                8 => tables_of_eight(self.levels, x, w, [self.scale, self.shift], &mut tables),
                _ => tables_of_four(self.levels, x, w, [self.scale, self.shift], &mut tables),
            };
            let (word, error) = book.nearest(rows, &tables, self.start[n]);
            found.words[n] = word;
            found.error += error;
            let values = &book.values[usize::from(word)];
            for i in 0..V {
                let g = values[i] + self.shift;
                along[i] += w[i] * x[i] * g;
                square[i] += w[i] * g * g;
            }
        }
        for i in 0..V {
            found.along += along[i];
            found.square += square[i];
        }
        found
    }
}

/// Fills the tables for words of eight values with three levels, four values per half; returns how many rows they have.
#[inline(always)]
fn tables_of_eight(
    levels: &[f32; 8],
    x: &[f32],
    w: &[f32],
    [scale, shift]: [f32; 2],
    out: &mut Tables,
) -> usize {
    let mut errors = [[0.0; 8]; 3];
    for level in 0..3 {
        let value = scale * (levels[level] + shift);
        for i in 0..8 {
            let off = x[i] - value;
            errors[level][i] = w[i] * off * off;
        }
    }
    for at in [0, 4] {
        let half = if at == 0 { &mut out.low } else { &mut out.high };
        let mut second = [f32::INFINITY; 16];
        for a in 0..3 {
            for b in 0..3 {
                second[a * 3 + b] = errors[a][at + 2] + errors[b][at + 3];
            }
        }
        for a in 0..3 {
            for b in 0..3 {
                let first = errors[a][at] + errors[b][at + 1];
                let row = &mut half[(a * 3 + b) * 16..][..16];
                for i in 0..16 {
                    row[i] = first + second[i];
                }
            }
        }
    }
    out.floor = 0.0;
    for i in 4..8 {
        out.floor += errors[0][i].min(errors[1][i]).min(errors[2][i]);
    }
    9
}

/// The same for words of four values with eight levels, two values per half.
#[inline(always)]
fn tables_of_four(
    levels: &[f32; 8],
    x: &[f32],
    w: &[f32],
    [scale, shift]: [f32; 2],
    out: &mut Tables,
) -> usize {
    let mut errors = [[0.0; 8]; 4];
    for i in 0..4 {
        for level in 0..8 {
            let off = x[i] - scale * (levels[level] + shift);
            errors[i][level] = w[i] * off * off;
        }
    }
    for at in [0, 2] {
        let half = if at == 0 { &mut out.low } else { &mut out.high };
        for a in 0..8 {
            for b in 0..8 {
                half[a * 8 + b] = errors[at][a] + errors[at + 1][b];
            }
        }
    }
    out.floor = least(&errors[2]) + least(&errors[3]);
    4
}

#[inline(always)]
fn least(errors: &[f32; 8]) -> f32 {
    let mut half = [0.0; 4];
    for i in 0..4 {
        half[i] = if errors[i] < errors[i + 4] { errors[i] } else { errors[i + 4] };
    }
    let first = if half[0] < half[2] { half[0] } else { half[2] };
    let second = if half[1] < half[3] { half[1] } else { half[3] };
    if first < second { first } else { second }
}
