//! The time and the memory of a stage, and [`ExpectedSpeed`] of several.

use super::inputs::{LayerSizes, NodeMeasure};
use super::ranges::PlannedStage;
use std::ops::Range;

/// Sums over the layers of a model, so that the cost of a range is a difference.
pub(crate) struct LayerSums {
    /// `[L + 1]` bytes of weights and states of the layers before an index.
    bytes: Vec<u64>,
    /// `[L + 1]` the sizes of the layers before an index, in average layers.
    sizes: Vec<f64>,
    embedding_bytes: u64,
    head_bytes: u64,
    /// The size of the head in average layers.
    head_size: f64,
}

impl LayerSums {
    pub(crate) fn new(model: &LayerSizes) -> Self {
        let weights: f64 = model.layers.iter().map(|layer| layer.weight_bytes as f64).sum();
        let average = (weights / model.layers.len().max(1) as f64).max(1.0);
        let (mut bytes, mut before) = (vec![0u64], vec![0.0]);
        let (mut sum, mut weight_sum) = (0u64, 0u64);
        for layer in &model.layers {
            sum = sum.saturating_add(layer.weight_bytes).saturating_add(layer.state_bytes);
            weight_sum = weight_sum.saturating_add(layer.weight_bytes);
            bytes.push(sum);
            before.push(weight_sum as f64 / average);
        }
        let LayerSizes { embedding_bytes, head_bytes, layers: _ } = *model;
        Self { bytes, sizes: before, embedding_bytes, head_bytes, head_size: head_bytes as f64 / average }
    }

    pub(crate) fn layers(&self) -> usize {
        self.bytes.len() - 1
    }

    /// Bytes of a stage with these layers.
    pub(crate) fn bytes(&self, layers: &Range<usize>) -> u64 {
        let first = if layers.start == 0 { self.embedding_bytes } else { 0 };
        let last = if layers.end == self.layers() { self.head_bytes } else { 0 };
        (self.bytes[layers.end] - self.bytes[layers.start]).saturating_add(first).saturating_add(last)
    }

    /// Milliseconds of a token in a stage with these layers.
    pub(crate) fn milliseconds(&self, layers: &Range<usize>, node: &NodeMeasure) -> f64 {
        let head = if layers.end == self.layers() { self.head_size } else { 0.0 };
        (self.sizes[layers.end] - self.sizes[layers.start] + head) * node.ms_per_layer
    }
}

/// The speed that stages should have together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedSpeed {
    /// Sequences that are computed at once.
    pub sequences: usize,
    /// Milliseconds from one token of a sequence to its next.
    pub ms_per_token: f64,
    /// Tokens per second of all sequences together.
    pub tokens_per_second: f64,
    /// The part of the time in which the average stage waits, 0 to 1.
    pub idle: f64,
}

/// The speed of stages that compute one row at a time, with this number of sequences and this time of a hop.
///
/// A sequence has one token on its way. With few sequences the way of a token limits, with many the slowest stage.
pub fn expected_speed(stages: &[PlannedStage], hop_ms: f64, sequences: usize) -> ExpectedSpeed {
    let work: f64 = stages.iter().map(|stage| stage.ms_per_token).sum();
    let slowest = stages.iter().map(|stage| stage.ms_per_token).fold(0.0, f64::max);
    let way = work + hop_ms * (stages.len() + 1) as f64;
    let count = sequences.max(1) as f64;
    // Milliseconds between two tokens that leave the last stage.
    let between = (way / count).max(slowest).max(f64::MIN_POSITIVE);
    ExpectedSpeed {
        sequences: sequences.max(1),
        ms_per_token: between * count,
        tokens_per_second: 1000.0 / between,
        idle: 1.0 - work / (between * stages.len().max(1) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(times: &[f64]) -> Vec<PlannedStage> {
        let stage = |(index, ms): (usize, &f64)| PlannedStage {
            node: format!("n{index}"),
            layers: index..index + 1,
            bytes: 0,
            memory_bytes: 0,
            ms_per_token: *ms,
        };
        times.iter().enumerate().map(stage).collect()
    }

    #[test]
    fn one_sequence_takes_the_whole_way_and_many_the_slowest_stage() {
        let (even, hop) = (stages(&[10.0, 10.0]), 0.5);
        // 10 + 10 + 3 hops.
        let one = expected_speed(&even, hop, 1);
        assert_eq!((one.ms_per_token, one.tokens_per_second), (21.5, 1000.0 / 21.5));
        assert!((one.idle - (1.0 - 10.0 / 21.5)).abs() < 1e-12);
        // Two are limited by the way, because a hop keeps a sequence away from both stages.
        let two = expected_speed(&even, hop, 2);
        assert_eq!((two.ms_per_token, two.tokens_per_second), (21.5, 2000.0 / 21.5));
        let four = expected_speed(&even, hop, 4);
        assert_eq!((four.ms_per_token, four.tokens_per_second, four.idle), (40.0, 100.0, 0.0));
        let uneven = expected_speed(&stages(&[30.0, 10.0]), 0.0, 8);
        assert_eq!((uneven.ms_per_token, uneven.tokens_per_second), (240.0, 1000.0 / 30.0));
        assert!((uneven.idle - 1.0 / 3.0).abs() < 1e-12);
    }
}
