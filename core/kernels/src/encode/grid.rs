//! Groups that are words of a codebook: the scale of each group, its words, and the factor of the super-block.
//!
//! All these formats store an odd number `n` for a group of 16 or 32 values, whose scale is `factor * n`.

use half::f16;

use super::codebook::{CodeWords, FindWords, Grid};
use super::levels::Even;
use super::one_scale::fit;
use super::panel::{Effort, Panel, inverse};
use crate::simd::{Kernel, LANES, Simd};

/// What the search needs to know of a codebook format.
pub(super) struct Coded {
    /// Its book.
    pub grid: &'static Grid,
    /// Its levels, for values that occur in no word.
    pub levels: Even,
    /// Values of a group.
    pub group: usize,
    /// The scale of a group is the stored f16 times this times an odd number.
    pub unit: f32,
    /// The largest odd number.
    pub most: f32,
    /// Where the search of a scale begins, relative to the scale that would be best if every value had its own level.
    pub starts: &'static [f32],
    /// How many times words are searched for a group's scale, which least squares then improve.
    pub rounds: usize,
    /// The shifts that may be added to all values of a word, at most two.
    pub shifts: &'static [f32],
    /// Values that share a shift.
    pub run: usize,
}

/// A super-block as it will be written.
pub(super) struct Coding {
    /// The stored f16.
    pub factor: f16,
    /// The odd number of each group.
    pub numbers: [u8; 16],
    /// The words of each group.
    pub words: [[u16; 8]; 16],
    /// A bit for each run of a group that has the second shift.
    pub shifts: [u8; 16],
}

/// Which shifts are looked at.
#[derive(Clone, Copy)]
enum Shifts {
    /// All.
    Every,
    /// The choices of an earlier search, a bit for each run.
    Given(u8),
}

/// The best words of a group at a scale, each run with the better of its shifts, and a bit for each run that has the
/// second.
#[inline(always)]
fn shifted<S: Simd>(
    s: S,
    coded: &Coded,
    GroupValues { x, w }: GroupValues,
    scale: f32,
    start: &[u16; 8],
    shifts: Shifts,
) -> (CodeWords, u8) {
    let (mut all, mut bits) = (CodeWords { error: 0.0, ..CodeWords::none() }, 0);
    let (levels, book) = (&coded.grid.levels, (coded.grid.book)());
    let (run, count) = (coded.run, coded.run / coded.grid.values);
    for n in 0..coded.group / run {
        let mut best = CodeWords::none();
        for (number, &shift) in coded.shifts.iter().enumerate() {
            if matches!(shifts, Shifts::Given(bits) if usize::from(bits >> n & 1) != number) {
                continue;
            }
            let (x, w, start) = (&x[n * run..][..run], &w[n * run..][..run], &start[n * count..][..count]);
            let found = match coded.grid.values {
                8 => s.call(FindWords::<8> { x, w, scale, shift, start, levels, book }),
                _ => s.call(FindWords::<4> { x, w, scale, shift, start, levels, book }),
            };
            if found.error < best.error {
                best = found;
                bits = bits & !(1 << n) | (number as u8) << n;
            }
        }
        all.words[n * count..][..count].copy_from_slice(&best.words[..count]);
        all.along += best.along;
        all.square += best.square;
        all.error += best.error;
    }
    (all, bits)
}

/// The scale that each group would have if every value had its own level.
struct FirstScales<'a> {
    group: usize,
    levels: Even,
    x: &'a [f32; 256],
    w: &'a [f32; 256],
}

impl Kernel for FirstScales<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f32; LANES] {
        let (mut values, mut weights) = ([0.0; 512], [0.0; 512]);
        values[..256].copy_from_slice(self.x);
        weights[..256].copy_from_slice(self.w);
        let panel = Panel::weighted(s, self.group, &values, &weights);
        s.lanes(s.abs(fit(s, self.levels, &panel, Effort::Full).0))
    }
}

/// A group's values and their weights.
#[derive(Clone, Copy)]
struct GroupValues<'a> {
    x: &'a [f32],
    w: &'a [f32],
}

/// The best found for a group.
#[derive(Clone, Copy)]
struct BestWords {
    scale: f32,
    /// `sum w g^2`.
    square: f32,
    words: [u16; 8],
    shifts: u8,
}

/// The scale of a group with the least error, searched from a first one on.
#[inline(always)]
fn scale_of<S: Simd>(s: S, coded: &Coded, group: GroupValues, first: f32) -> BestWords {
    let mut best = BestWords { scale: 0.0, square: 0.0, words: [0; 8], shifts: 0 };
    let (mut gain, mut start) = (0.0, [0; 8]);
    // The first word has the lowest level throughout. If a group is constant nothing is better, and no search finds it.
    let (lowest, mut weight, mut sum) = (coded.grid.levels[0], 0.0, 0.0);
    for (x, w) in group.x.iter().zip(group.w) {
        weight += w;
        sum += w * x;
    }
    if lowest * sum > 0.0 {
        gain = sum * (sum / weight);
        best = BestWords {
            scale: sum / weight / lowest,
            square: lowest * lowest * weight,
            words: [0; 8],
            shifts: 0,
        };
    }
    for &around in coded.starts {
        let (mut next, mut shifts, mut here) = (first * around, Shifts::Every, 0.0);
        for _ in 0..coded.rounds {
            if next <= 0.0 {
                break;
            }
            let (found, bits) = shifted(s, coded, group, next, &start, shifts);
            (start, shifts) = (found.words, Shifts::Given(bits));
            next = if found.square > 0.0 { found.along / found.square } else { 0.0 };
            if found.along * next > gain {
                gain = found.along * next;
                best = BestWords { scale: next, square: found.square, words: found.words, shifts: bits };
            }
            if found.along * next <= here {
                break;
            }
            here = found.along * next;
        }
    }
    best
}

/// The factor for which `sum weight (scale - factor n)^2` with odd `n` up to `most` is least: sixteen candidates in
/// lanes.
#[inline(always)]
fn factor_of<S: Simd>(s: S, scales: &[f32], weights: &[f32], most: f32) -> f32 {
    const STEPS: [f32; LANES] =
        [-2.4, -1.8, -1.4, -1.0, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.4, 1.8];
    let largest = scales.iter().copied().fold(0.0, f32::max);
    if largest < 1e-20 {
        return 0.0;
    }
    let unit = s.mul(s.add(s.splat(most), s.load(&STEPS)), s.splat(1.0 / largest));
    let (mut along, mut square) = (s.splat(0.0), s.splat(0.0));
    for (&scale, &weight) in scales.iter().zip(weights) {
        let n = odd(s, s.mul(unit, s.splat(scale)), most);
        let wn = s.mul(n, s.splat(weight));
        along = s.add(along, s.mul(wn, s.splat(scale)));
        square = s.add(square, s.mul(wn, n));
    }
    let factor = s.mul(along, inverse(s, square));
    let (gains, factors) = (s.lanes(s.mul(along, factor)), s.lanes(factor));
    let (mut best, mut gain) = (largest / most, 0.0);
    for i in 0..LANES {
        if gains[i] > gain {
            (best, gain) = (factors[i], gains[i]);
        }
    }
    best
}

/// The nearest odd number from 1 to `most`.
#[inline(always)]
fn odd<S: Simd>(s: S, value: S::F, most: f32) -> S::F {
    let half = s.round(s.mul(s.sub(value, s.splat(1.0)), s.splat(0.5)));
    let n = s.add(s.mul(half, s.splat(2.0)), s.splat(1.0));
    s.max(s.min(n, s.splat(most)), s.splat(1.0))
}

/// Encodes a super-block of 256 values (magnitudes if signs are stored separately) with their weights.
pub(super) struct EncodeGrid<'a> {
    pub coded: &'static Coded,
    pub x: &'a [f32; 256],
    pub w: &'a [f32; 256],
}

impl Kernel for EncodeGrid<'_> {
    type Output = Coding;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Coding {
        code(s, self.coded, self.x, self.w)
    }
}

#[inline(always)]
fn code<S: Simd>(s: S, coded: &Coded, x: &[f32; 256], w: &[f32; 256]) -> Coding {
    let (groups, levels) = (256 / coded.group, coded.levels);
    let first = s.call(FirstScales { group: coded.group, levels, x, w });
    let group = |g: usize| GroupValues {
        x: &x[g * coded.group..][..coded.group],
        w: &w[g * coded.group..][..coded.group],
    };
    let none = BestWords { scale: 0.0, square: 0.0, words: [0; 8], shifts: 0 };
    let (mut scales, mut squares, mut best) = ([0.0; 16], [0.0; 16], [none; 16]);
    for g in 0..groups {
        best[g] = scale_of(s, coded, group(g), first[g]);
        (scales[g], squares[g]) = (best[g].scale, best[g].square);
    }
    let factor = factor_of(s, &scales[..groups], &squares[..groups], coded.most);
    let mut coding = Coding { factor: f16::ZERO, numbers: [1; 16], words: [[0; 8]; 16], shifts: [0; 16] };
    // The words are chosen for the factor that f16 can hold.
    coding.factor = f16::from_f32(factor / coded.unit);
    let unit = coding.factor.to_f32() * coded.unit;
    if unit <= 0.0 {
        return coding;
    }
    let (mut along, mut square) = (0.0, 0.0);
    for g in 0..groups {
        let most = (coded.most - 1.0) * 0.5;
        let exact = ((scales[g] / unit - 1.0) * 0.5).clamp(0.0, most);
        let (mut least, mut number) = (CodeWords::none(), 1.0);
        for l in [exact.floor(), exact.floor() + 1.0] {
            // A word that is further than this from the scale is never better, or hardly.
            if (exact - l).abs() > 0.75 || l > most {
                continue;
            }
            let n = 2.0 * l + 1.0;
            let shifts = Shifts::Given(best[g].shifts);
            let found = shifted(s, coded, group(g), unit * n, &best[g].words, shifts).0;
            if found.error < least.error {
                (least, number) = (found, n);
            }
        }
        coding.numbers[g] = number as u8;
        best[g].words = least.words;
        along += number * least.along;
        square += number * number * least.square;
    }
    if square > 0.0 && along > 0.0 {
        coding.factor = f16::from_f32(along / square / coded.unit);
    }
    let unit = coding.factor.to_f32() * coded.unit;
    for g in 0..groups {
        let (scale, shifts) = (unit * f32::from(coding.numbers[g]), Shifts::Given(best[g].shifts));
        let (found, shifts) = shifted(s, coded, group(g), scale, &best[g].words, shifts);
        (coding.words[g], coding.shifts[g]) = (found.words, shifts);
    }
    coding
}

/// Magnitudes, and for every eight values a byte of signs.
#[inline(always)]
pub(super) fn signs(x: &[f32], out: &mut [f32; 256]) -> [u8; 32] {
    let mut signs = [0; 32];
    for i in 0..256 {
        out[i] = x[i].abs();
        signs[i / 8] |= u8::from(x[i] < 0.0) << (i % 8);
    }
    signs
}

/// The same with an even number of signs per eight: if it is odd, the value whose wrong sign costs least takes it, and
/// its magnitude becomes negative.
#[inline(always)]
pub(super) fn even_signs(x: &[f32], w: &[f32; 256], out: &mut [f32; 256]) -> [u8; 32] {
    let mut signs = signs(x, out);
    for n in 0..32 {
        if signs[n].count_ones().is_multiple_of(2) {
            continue;
        }
        let mut least = n * 8;
        for i in n * 8..n * 8 + 8 {
            // w ((|x| + g)^2 - (|x| - g)^2) = 4 w |x| g
            least = if w[i] * out[i] < w[least] * out[least] { i } else { least };
        }
        out[least] = -out[least];
        signs[n] ^= 1 << (least % 8);
    }
    signs
}
