//! [`DivisionSearch`]: dynamic programming over the nodes that are used and the layers that have a place.

use super::cost::LayerSums;
use super::inputs::{LayerSizes, NodeMeasure};
use std::ops::Range;

/// With at most this number of nodes every order of them is considered.
const MOST_FREE_NODES: usize = 10;

/// The layers of each stage, with the index of its node.
type DividedLayers = Vec<(usize, Range<usize>)>;

/// A search for the ranges of layers.
///
/// A state is the set of used nodes if their order is free, and the number of nodes that are decided on otherwise. A stage
/// always leads to a larger state, so one pass over the states in their order is enough.
pub(crate) struct DivisionSearch<'a> {
    sums: &'a LayerSums,
    nodes: &'a [NodeMeasure],
    /// The layers with which a stage may begin, and the end.
    cuts: Vec<usize>,
    is_free: bool,
}

/// The best way to a state: its cost, and the stage before.
#[derive(Clone, Copy)]
struct DivisionStep {
    cost: DivisionCost,
    state: usize,
    cut: usize,
    node: usize,
}

/// Costs are compared in this order.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct DivisionCost(f64, usize);

impl<'a> DivisionSearch<'a> {
    pub(crate) fn new(model: &LayerSizes, sums: &'a LayerSums, nodes: &'a [NodeMeasure]) -> Self {
        let layers = model.layers.iter().enumerate();
        let mut cuts: Vec<usize> = layers
            .filter(|(index, layer)| *index == 0 || layer.may_begin_stage)
            .map(|(index, _)| index)
            .collect();
        cuts.push(sums.layers());
        Self { sums, nodes, cuts, is_free: nodes.len() <= MOST_FREE_NODES }
    }

    /// The shortest possible time of the slowest stage, in milliseconds; `None` if the model does not fit.
    pub(crate) fn slowest(&self) -> Option<f64> {
        let (last, _) = self.run(f64::INFINITY, |before, ms| DivisionCost(before.0.max(ms), 0))?;
        Some(last.0)
    }

    /// The stages with the shortest sum of times whose slowest takes at most `most` milliseconds.
    pub(crate) fn shortest(&self, most: f64) -> Option<DividedLayers> {
        self.run(most, |before, ms| DivisionCost(before.0 + ms, before.1 + 1)).map(|(_, stages)| stages)
    }

    /// The cheapest division whose stages take at most `most` milliseconds; `add` adds a stage to a cost.
    fn run(
        &self,
        most: f64,
        add: impl Fn(DivisionCost, f64) -> DivisionCost,
    ) -> Option<(DivisionCost, DividedLayers)> {
        let (states, cuts) = (self.states(), self.cuts.len());
        // `[states, cuts]`: the best way to a state with the layers before a cut placed.
        let mut best: Vec<Option<DivisionStep>> = vec![None; states * cuts];
        best[0] = Some(DivisionStep { cost: DivisionCost(0.0, 0), state: 0, cut: 0, node: 0 });
        for state in 0..states {
            for cut in 0..cuts - 1 {
                let Some(DivisionStep { cost, .. }) = best[state * cuts + cut] else { continue };
                for (node, next) in self.successors(state) {
                    for end in cut + 1..cuts {
                        let layers = self.cuts[cut]..self.cuts[end];
                        let ms = self.sums.milliseconds(&layers, &self.nodes[node]);
                        // Costs grow with the range.
                        if ms > most || self.sums.bytes(&layers) > self.nodes[node].memory_bytes {
                            break;
                        }
                        let step = DivisionStep { cost: add(cost, ms), state, cut, node };
                        let place = &mut best[next * cuts + end];
                        if place.is_none_or(|placed| step.cost < placed.cost) {
                            *place = Some(step);
                        }
                    }
                }
            }
        }
        let ends = (0..states).filter_map(|state| best[state * cuts + cuts - 1].map(|step| (state, step)));
        let (mut state, last) = ends.min_by(|(_, one), (_, other)| {
            one.cost.partial_cmp(&other.cost).unwrap_or(std::cmp::Ordering::Equal)
        })?;
        let (mut end, mut stages) = (cuts - 1, Vec::new());
        while let (Some(step), true) = (best[state * cuts + end], end > 0) {
            stages.push((step.node, self.cuts[step.cut]..self.cuts[end]));
            (state, end) = (step.state, step.cut);
        }
        stages.reverse();
        Some((last.cost, stages))
    }

    fn states(&self) -> usize {
        if self.is_free { 1 << self.nodes.len() } else { self.nodes.len() + 1 }
    }

    /// The nodes that may have the next stage, with the states after it.
    fn successors(&self, state: usize) -> Vec<(usize, usize)> {
        let nodes = 0..self.nodes.len();
        match self.is_free {
            true => nodes
                .filter(|node| state & (1 << node) == 0)
                .map(|node| (node, state | (1 << node)))
                .collect(),
            false => nodes.skip(state).map(|node| (node, node + 1)).collect(),
        }
    }
}
