//! [`Heads`]: the delta rule of RWKV-7, head by head.

use super::functions::{exp, sigmoid};
use super::sum::{LANES, sum, total};
use std::ops::Range;

/// What a layer has for each element of its heads, `[D]` each; names as in Peng et al., 2025 ("RWKV-7 Goose").
#[derive(Clone, Debug)]
pub struct Heads {
    /// Elements of a head, at most [`Heads::LARGEST`].
    pub size: usize,
    /// `w0`: added to the decay.
    pub decay: Vec<f32>,
    /// `a0`: added to the rate at which the state learns.
    pub rate: Vec<f32>,
    /// `v0`: added to the share of the first layer's values; none in that layer.
    pub first_share: Option<Vec<f32>>,
    /// `k_k`: what of a key is removed from the state.
    pub removal: Vec<f32>,
    /// `k_a`: how far the rate changes a key.
    pub key_rate: Vec<f32>,
    /// `r_k`: how far a token reads itself beside the state.
    pub bonus: Vec<f32>,
    /// Norm of what a head reads.
    pub norm: Option<HeadNorm>,
}

/// A layer norm over each head.
#[derive(Clone, Debug)]
pub struct HeadNorm {
    /// `[D]`.
    pub weight: Vec<f32>,
    /// `[D]`.
    pub bias: Vec<f32>,
    /// Added to the variance.
    pub eps: f32,
}

/// The projections of a step, rows `[T, D]` each.
#[derive(Clone, Copy, Debug)]
pub struct Projected<'a> {
    /// What reads the state.
    pub receptance: &'a [f32],
    /// The decay, before [`Heads::decay`] is added.
    pub decay: &'a [f32],
    /// The key.
    pub key: &'a [f32],
    /// The value.
    pub value: &'a [f32],
    /// The rate, before [`Heads::rate`] is added.
    pub rate: &'a [f32],
    /// The first layer's values; none in that layer.
    pub first: Option<FirstValues<'a>>,
    /// Multiplies what the heads give; none in models without gates.
    pub gate: Option<&'a [f32]>,
}

/// Values of the first layer, which later ones mix in; rows `[T, D]`.
#[derive(Clone, Copy, Debug)]
pub struct FirstValues<'a> {
    /// The values.
    pub values: &'a [f32],
    /// Their share, before [`Heads::first_share`] is added.
    pub share: &'a [f32],
}

/// One row of one head.
struct Row {
    decay: [f32; Heads::LARGEST],
    key: [f32; Heads::LARGEST],
    value: [f32; Heads::LARGEST],
    /// Minus the normalized removal.
    remove: [f32; Heads::LARGEST],
    /// The removal times the rate.
    restore: [f32; Heads::LARGEST],
}

impl Heads {
    /// Elements of the largest head there is room for.
    pub const LARGEST: usize = 256;

    /// Runs one head over the rows of a sequence: `state` is its `[value, key]` block; `write` is given each row's place in
    /// `rows` and its `size` elements.
    ///
    /// `S = S diag(w) - (S k') (a k')^T + v k^T`, `y = norm(S r) + (r . (r_k k)) v`, times the gate.
    pub fn run(
        &self,
        head: usize,
        x: &Projected,
        rows: Range<usize>,
        state: &mut [f32],
        write: impl FnMut(usize, &[f32]),
    ) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.run_avx2(head, x, rows, state, write) };
        }
        self.run_plain(head, x, rows, state, write);
    }

    /// [`Heads::run`] in wider vectors; the same numbers, for no product is fused with a sum.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn run_avx2(
        &self,
        head: usize,
        x: &Projected,
        rows: Range<usize>,
        state: &mut [f32],
        write: impl FnMut(usize, &[f32]),
    ) {
        self.run_plain(head, x, rows, state, write);
    }

    #[inline(always)]
    fn run_plain(
        &self,
        head: usize,
        x: &Projected,
        rows: Range<usize>,
        state: &mut [f32],
        mut write: impl FnMut(usize, &[f32]),
    ) {
        let (size, width) = (self.size, self.decay.len());
        let own = head * size..(head + 1) * size;
        let zeros = [0.0; Heads::LARGEST];
        let mut row = Row { decay: zeros, key: zeros, value: zeros, remove: zeros, restore: zeros };
        let mut out = [0.0; Heads::LARGEST];
        let out = &mut out[..size];
        for (index, t) in rows.enumerate() {
            let at = t * width + own.start..t * width + own.end;
            self.prepare(&own, x, &at, &mut row);
            let receptance = &x.receptance[at.clone()];
            for ((state, out), value) in state.chunks_exact_mut(size).zip(out.iter_mut()).zip(&row.value) {
                *out = row.step(state, *value, receptance);
            }
            self.finish(&own, &row, receptance, out);
            if let Some(gate) = x.gate {
                out.iter_mut().zip(&gate[at]).for_each(|(out, gate)| *out *= gate);
            }
            write(index, out);
        }
    }

    /// Decay, key, value and what is removed, of the elements `own` of a row, which lie at `at` in the projections.
    #[inline(always)]
    fn prepare(&self, own: &Range<usize>, x: &Projected, at: &Range<usize>, row: &mut Row) {
        let size = self.size;
        let (decay, rate, key, value) =
            (&x.decay[at.clone()], &x.rate[at.clone()], &x.key[at.clone()], &x.value[at.clone()]);
        let (decay_base, rate_base) = (&self.decay[own.clone()], &self.rate[own.clone()]);
        let (removal, key_rate) = (&self.removal[own.clone()], &self.key_rate[own.clone()]);
        // Minus the root of 1 / e, so that nothing decays faster than by exp(-0.6065) a token.
        const FASTEST: f32 = -0.606_530_66;
        for i in 0..size {
            row.decay[i] = exp(FASTEST * sigmoid(decay_base[i] + decay[i]));
            row.remove[i] = key[i] * removal[i];
        }
        let length = sum(&row.remove[..size], &row.remove[..size], |a, b| a * b).sqrt().max(1e-12);
        let inverse = 1.0 / length;
        for i in 0..size {
            let rate = sigmoid(rate_base[i] + rate[i]);
            let removed = row.remove[i] * inverse;
            row.remove[i] = -removed;
            row.restore[i] = removed * rate;
            row.key[i] = key[i] * (1.0 + (rate - 1.0) * key_rate[i]);
        }
        row.value[..size].copy_from_slice(value);
        if let (Some(first), Some(base)) = (&x.first, &self.first_share) {
            let (values, share, base) =
                (&first.values[at.clone()], &first.share[at.clone()], &base[own.clone()]);
            for i in 0..size {
                row.value[i] += (values[i] - row.value[i]) * sigmoid(base[i] + share[i]);
            }
        }
    }

    /// Norm and bonus of what a head has read.
    #[inline(always)]
    fn finish(&self, own: &Range<usize>, row: &Row, receptance: &[f32], out: &mut [f32]) {
        let size = self.size;
        if let Some(HeadNorm { weight, bias, eps }) = &self.norm {
            let inverse = 1.0 / size as f32;
            let mean = sum(out, out, |x, _| x) * inverse;
            let variance = sum(out, out, |x, _| (x - mean) * (x - mean)) * inverse;
            let scale = 1.0 / (variance + eps).sqrt();
            let (weight, bias) = (&weight[own.clone()], &bias[own.clone()]);
            for i in 0..size {
                out[i] = (out[i] - mean) * scale * weight[i] + bias[i];
            }
        }
        let mut read = [0.0; Heads::LARGEST];
        for ((read, key), bonus) in read.iter_mut().zip(&row.key[..size]).zip(&self.bonus[own.clone()]) {
            *read = key * bonus;
        }
        let bonus = sum(&read[..size], receptance, |a, b| a * b);
        out.iter_mut().zip(&row.value).for_each(|(out, value)| *out += bonus * value);
    }
}

impl Row {
    /// Renews one row of the state, which belongs to one element of the value, and reads it.
    #[inline(always)]
    fn step(&self, state: &mut [f32], value: f32, receptance: &[f32]) -> f32 {
        let size = state.len();
        let removed = sum(state, &self.remove[..size], |s, remove| s * remove);
        let mut lanes = [0.0; LANES];
        let whole = size / LANES * LANES;
        let (head, rest) = state.split_at_mut(whole);
        for (index, state) in head.chunks_exact_mut(LANES).enumerate() {
            let at = index * LANES..(index + 1) * LANES;
            let (decay, key) = (&self.decay[at.clone()], &self.key[at.clone()]);
            let (restore, read) = (&self.restore[at.clone()], &receptance[at]);
            for lane in 0..LANES {
                state[lane] = state[lane] * decay[lane] + value * key[lane] + removed * restore[lane];
                lanes[lane] += state[lane] * read[lane];
            }
        }
        for (lane, state) in rest.iter_mut().enumerate() {
            let i = whole + lane;
            *state = *state * self.decay[i] + value * self.key[i] + removed * self.restore[i];
            lanes[lane] += *state * receptance[i];
        }
        total(lanes)
    }
}

#[cfg(test)]
mod tests;
