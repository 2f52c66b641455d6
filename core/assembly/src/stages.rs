//! [`StagePlan`]: the layers of each stage of a model, and [`StagePlan::assemble`].

use crate::fault::AssemblyFaults;
use crate::model::{Assembly, assemble};
use crate::options::AssembleOptions;
use crate::source::WeightSource;
use menagerie_model::StagePosition;
use menagerie_spec::ModelConfig;
use menagerie_spec::config::AttentionConfig;
use std::ops::Range;

/// The layers of each stage of a model, in order and without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    stages: Vec<Range<usize>>,
}

/// Why a model cannot be split in the requested way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// More stages than layers, or none.
    #[error("{stages} stages for a model of {layers} layers: expected 1 to {layers}")]
    Stages {
        /// Requested stages.
        stages: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// Ranges that do not cover the layers one after the other.
    #[error(
        "stage {stage} has layers {first} to {last}, expected them to begin at {expected} and to end below {layers}: \
         together, the stages have the layers 0 to {} of the model, in order and each once", .layers.saturating_sub(1)
    )]
    Ranges {
        /// The stage, from 0.
        stage: usize,
        /// Its first layer.
        first: usize,
        /// Its last layer.
        last: usize,
        /// The layer it should begin with.
        expected: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// The stages have too few layers.
    #[error("the stages end with layer {last} of a model of {layers} layers; expected the last stage to end with layer \
         {}", .layers.saturating_sub(1))]
    Short {
        /// The last layer of the stages.
        last: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// A boundary separates a layer from one whose keys it reads.
    #[error(
        "a boundary before layer {boundary}: layer {reader} attends to the keys of layer {of}, which must be in the same \
         stage{}",
        advice(*.latest)
    )]
    SharedKeys {
        /// The first layer after the boundary.
        boundary: usize,
        /// The layer that reads.
        reader: usize,
        /// The layer that has the keys.
        of: usize,
        /// The last possible boundary.
        latest: usize,
    },
    /// There are too few possible boundaries.
    #[error("{stages} stages: layers of this model share keys, so {}", possible_stages(*most))]
    Joined {
        /// Requested stages.
        stages: usize,
        /// The most stages that are possible.
        most: usize,
    },
}

fn possible_stages(most: usize) -> String {
    match most {
        0 | 1 => "this model cannot be split; run it without --stages".to_owned(),
        most => format!("it can be split into at most {most} stages; use --stages {most}"),
    }
}

fn advice(latest: usize) -> String {
    match latest {
        0 => "; this model cannot be split".to_owned(),
        latest => format!("; the last possible boundary is before layer {latest}"),
    }
}

impl StagePlan {
    /// A plan with these layers for each stage.
    ///
    /// # Errors
    /// [`PlanError`] for ranges that do not cover the layers in order, and for impossible boundaries.
    pub fn given(config: &ModelConfig, stages: Vec<Range<usize>>) -> Result<Self, PlanError> {
        let layers = config.layers.len();
        if stages.is_empty() {
            return Err(PlanError::Stages { stages: 0, layers });
        }
        let mut expected = 0;
        for (stage, range) in stages.iter().enumerate() {
            let last = range.end.saturating_sub(1);
            if range.start != expected || range.is_empty() || range.end > layers {
                return Err(PlanError::Ranges { stage, first: range.start, last, expected, layers });
            }
            expected = range.end;
        }
        if expected != layers {
            return Err(PlanError::Short { last: expected.saturating_sub(1), layers });
        }
        for range in stages.iter().skip(1) {
            if let Some((reader, of)) = key_reader(config, range.start) {
                let latest = (1..layers).rev().find(|&cut| key_reader(config, cut).is_none()).unwrap_or(0);
                return Err(PlanError::SharedKeys { boundary: range.start, reader, of, latest });
            }
        }
        Ok(Self { stages })
    }

    /// `count` stages such that the largest has as few bytes of weights as possible, including embedding and head.
    ///
    /// # Errors
    /// [`PlanError`] for no stages, and for more than are possible.
    pub fn by_bytes(
        config: &ModelConfig,
        source: &dyn WeightSource,
        count: usize,
    ) -> Result<Self, PlanError> {
        let layers = config.layers.len();
        if count == 0 || count > layers.max(1) {
            return Err(PlanError::Stages { stages: count, layers });
        }
        let bytes = layer_bytes(config, source);
        let cuts = possible_cuts(config);
        let most = cuts.len() - 1;
        if count > most {
            return Err(PlanError::Joined { stages: count, most });
        }
        Ok(Self { stages: balanced(&bytes, &cuts, count) })
    }

    /// The smallest possible stages: of one layer each, or of more where layers share keys. A model without layers has none.
    pub fn finest(config: &ModelConfig) -> Self {
        Self { stages: possible_cuts(config).windows(2).map(|cuts| cuts[0]..cuts[1]).collect() }
    }

    /// The layers of each stage.
    pub fn stages(&self) -> &[Range<usize>] {
        &self.stages
    }

    /// Assembles every stage of the plan, one after the other. Together they use every tensor that the whole model uses.
    ///
    /// # Errors
    /// As [`assemble`], for the first stage that has faults; otherwise the tensors that no stage uses.
    pub fn assemble(
        &self,
        config: &ModelConfig,
        source: &dyn WeightSource,
        options: &AssembleOptions,
    ) -> Result<Vec<Assembly>, AssemblyFaults> {
        let mut made: Vec<Assembly> = Vec::with_capacity(self.stages.len());
        for (index, range) in self.stages.iter().enumerate() {
            let slots = made.last().map(|before| before.slots.clone()).unwrap_or_default();
            let stage = options.clone().stage(self.position(index), range.clone()).after(slots);
            made.push(assemble(config, source, &stage)?);
        }
        let mut faults = AssemblyFaults::new(source.file(), &config.architecture);
        for (index, entry) in source.entries().iter().enumerate().take(source.file_tensors()) {
            if !made.iter().any(|stage| stage.covered.get(index).copied().unwrap_or(false)) {
                let text = format!(
                    "tensor \"{}\" ({} {:?}): no stage of the model uses it; name it in the spec, or list it under {} \
                     with a reason",
                    entry.name,
                    entry.kind,
                    entry.dims,
                    source.ignore_table()
                );
                faults.push(entry.layer, &text);
            }
        }
        if faults.is_empty() { Ok(made) } else { Err(faults) }
    }

    /// The position of stage `index`.
    pub fn position(&self, index: usize) -> StagePosition {
        match (index, self.stages.len()) {
            (_, 1) => StagePosition::Only,
            (0, _) => StagePosition::First,
            (index, count) if index + 1 == count => StagePosition::Last,
            _ => StagePosition::Middle,
        }
    }

    /// Bytes of the weights of stage `index` in the file, with embedding and head if it has them; 0 if there is no such
    /// stage.
    pub fn bytes(&self, index: usize, config: &ModelConfig, source: &dyn WeightSource) -> u64 {
        let bytes = layer_bytes(config, source);
        self.stages.get(index).and_then(|layers| bytes.get(layers.clone())).map_or(0, |own| own.iter().sum())
    }
}

/// The possible boundaries, with 0 and the end.
fn possible_cuts(config: &ModelConfig) -> Vec<usize> {
    let layers = config.layers.len();
    let inner = (1..layers).filter(|&cut| key_reader(config, cut).is_none());
    std::iter::once(0).chain(inner).chain((layers > 0).then_some(layers)).collect()
}

/// The first layer after a boundary that attends to the keys of a layer before it, and that layer.
fn key_reader(config: &ModelConfig, boundary: usize) -> Option<(usize, usize)> {
    let behind = config.layers.iter().enumerate().skip(boundary);
    behind.into_iter().find_map(|(index, layer)| {
        let of = layer.mixer.as_ref()?.downcast_ref::<AttentionConfig>()?.keys_of?;
        (of < boundary).then_some((index, of))
    })
}

/// Bytes of the tensors of every layer; the first includes the embedding, the last the head.
fn layer_bytes(config: &ModelConfig, source: &dyn WeightSource) -> Vec<u64> {
    use menagerie_registry::TensorPart;
    let mut blocks = vec![0; config.blocks()];
    let stored = source.entries().iter().take(source.file_tensors());
    for (block, bytes) in stored.clone().filter_map(|entry| Some((entry.layer?, entry.bytes))) {
        if let Some(sum) = blocks.get_mut(block) {
            *sum += bytes;
        }
    }
    let of_role =
        |role| source.find(role, None, TensorPart::Main).and_then(|index| source.entries().get(index));
    let table = of_role("token_embd").map_or(0, |entry| entry.bytes);
    let head = of_role("output").map_or(table, |entry| entry.bytes);
    let mut bytes: Vec<u64> =
        config.layers.iter().map(|layer| blocks.get(layer.index).copied().unwrap_or(0)).collect();
    if let Some(first) = bytes.first_mut() {
        *first += table;
    }
    if let Some(last) = bytes.last_mut() {
        *last += head;
    }
    bytes
}

/// The ranges between `count - 1` of the cuts whose largest sum of bytes is minimal.
fn balanced(bytes: &[u64], cuts: &[usize], count: usize) -> Vec<Range<usize>> {
    let mut sums = vec![0u64];
    for value in bytes {
        sums.push(sums[sums.len() - 1].saturating_add(*value));
    }
    let between = |from: usize, to: usize| sums[cuts[to]] - sums[cuts[from]];
    // `best[to]`: the largest of the stages that end at cut `to`; `before`: the cut before the last of them.
    let mut best: Vec<Option<u64>> = (0..cuts.len()).map(|to| (to > 0).then(|| between(0, to))).collect();
    let mut before: Vec<Vec<usize>> = vec![vec![0; cuts.len()]];
    for stages in 2..=count {
        let choose = |to: usize| {
            let froms = (stages - 1..to).filter_map(|from| Some((best[from]?.max(between(from, to)), from)));
            froms.min()
        };
        let chosen: Vec<Option<(u64, usize)>> = (0..cuts.len()).map(choose).collect();
        before.push(chosen.iter().map(|one| one.map_or(0, |(_, from)| from)).collect());
        best = chosen.into_iter().map(|one| one.map(|(largest, _)| largest)).collect();
    }
    let (mut ranges, mut to) = (Vec::with_capacity(count), cuts.len() - 1);
    for froms in before.iter().rev() {
        ranges.push(cuts[froms[to]]..cuts[to]);
        to = froms[to];
    }
    ranges.reverse();
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stage_is_as_small_as_possible() {
        let all: Vec<usize> = (0..=6).collect();
        assert_eq!(balanced(&[1, 1, 1, 1, 1, 1], &all, 3), [0..2, 2..4, 4..6]);
        assert_eq!(balanced(&[9, 1, 1, 1, 1, 5], &all, 2), [0..1, 1..6]);
        assert_eq!(balanced(&[9, 1, 1, 1, 1, 5], &all, 3), [0..1, 1..2, 2..6]);
        assert_eq!(balanced(&[1, 1, 1, 9, 9, 9], &[0, 1, 2, 6], 2), [0..2, 2..6], "possible cuts");
        assert_eq!(balanced(&[3, 3], &[0, 1, 2], 1), std::slice::from_ref(&(0..2)));
    }
}
