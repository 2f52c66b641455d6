//! Every operation of the backend on candle's CPU device against plain loops in f64.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod attention;
mod blocks;
mod experts;
mod pointwise;
mod products;
mod short_conv;

use menagerie_candle::CandleBackend;
use menagerie_model::{
    Backend, InferenceStep, Rows, SequenceId, SequenceLayout, SequenceRows, Weight, WeightShape,
};
use menagerie_random::SplitMix64;

fn backend() -> CandleBackend {
    CandleBackend::open("candle").unwrap()
}

/// Values from -1 to 1.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    SplitMix64::new(seed).values(len, 0.0, 1.0)
}

fn rows(seed: u64, count: usize, cols: usize) -> (Rows, Vec<f32>) {
    let values = noise(seed, count * cols);
    (backend().upload(values.clone(), cols).unwrap(), values)
}

fn matrix(seed: u64, shape: WeightShape) -> (Weight, Vec<f32>) {
    let values = noise(seed, shape.count * shape.rows * shape.cols);
    (Weight::from_f32("w", &values, shape).unwrap(), values)
}

fn one(rows: usize, cols: usize) -> WeightShape {
    WeightShape { count: 1, rows, cols }
}

/// Rows of these sizes and values, within `tolerance` of each value's magnitude (at least 1).
#[track_caller]
fn expect(found: &Rows, wanted: &[f64], cols: usize, tolerance: f64) {
    assert_eq!((found.rows() * found.cols(), found.cols()), (wanted.len(), cols));
    let found = backend().read(found).unwrap().into_owned();
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let off = (f64::from(*found) - wanted).abs() / wanted.abs().max(1.0);
        assert!(off <= tolerance, "element {i}: {found} instead of {wanted}");
    }
}

/// `y[t, r] = sum over c of w[r, c] * x[t, c]`.
fn product(w: &[f32], x: &[f32], cols: usize) -> Vec<f64> {
    let dot = |w: &[f32], x: &[f32]| w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>();
    x.chunks_exact(cols).flat_map(|x| w.chunks_exact(cols).map(move |w| dot(w, x))).collect()
}

/// One part of a step: the sequence, where it begins, and how many rows it has.
fn layout(parts: &[(SequenceId, usize, usize)]) -> SequenceLayout {
    let mut next = 0;
    let parts = parts.iter().map(|&(sequence, first_position, rows)| {
        let range = next..next + rows;
        next = range.end;
        SequenceRows {
            sequence,
            rows: range,
            first_position,
            step: InferenceStep::Prefill {
                chunk_tokens: rows,
                chunk_start_position: first_position,
                total_prompt_tokens: first_position + rows,
                is_final_chunk: true,
            },
            regime: menagerie_model::RopeRegime::Short,
            logits: 0..rows,
            adapters: None,
        }
    });
    SequenceLayout::new(parts.collect()).unwrap()
}
