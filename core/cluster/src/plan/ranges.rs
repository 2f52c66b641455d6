//! [`plan_layers`]: the layers of each node.

use super::cost::LayerSums;
use super::inputs::{LayerSizes, NodeMeasure, check_nodes};
use super::search::DivisionSearch;
use std::ops::Range;

/// The most layers of a model.
const MOST_LAYERS: usize = 4096;

/// The stages of a model, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterPlan {
    /// The stages. Nodes that do not help have none.
    pub stages: Vec<PlannedStage>,
}

/// A stage of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStage {
    /// The name of its node.
    pub node: String,
    /// Its layers.
    pub layers: Range<usize>,
    /// Bytes of its weights and states, with embedding and head where it has them.
    pub bytes: u64,
    /// Bytes that the node has for them.
    pub memory_bytes: u64,
    /// Milliseconds of a token in it.
    pub ms_per_token: f64,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerRangesError {
    /// The nodes or the model are invalid.
    #[error("{0}")]
    Input(String),
    /// The model does not fit.
    #[error(
        "the model does not fit into the memory of the nodes: it needs {needed} bytes with its states, and the nodes have \
         {available} bytes{detail}; add nodes or memory, use a smaller --context or --parallel, or quantize the model"
    )]
    Memory {
        /// Bytes of the model and its states.
        needed: u64,
        /// Bytes of all nodes.
        available: u64,
        /// More about it, or nothing.
        detail: String,
    },
}

/// The layers of each node such that the slowest stage is as fast as possible; among those plans one with the shortest sum
/// of times, and then with the fewest stages.
///
/// With at most ten nodes any order of the nodes is considered; with more, the given order. A node may be left out.
///
/// # Errors
/// Invalid nodes, or a model that does not fit into their memory.
pub fn plan_layers(model: &LayerSizes, nodes: &[NodeMeasure]) -> Result<ClusterPlan, LayerRangesError> {
    check_nodes(nodes).map_err(LayerRangesError::Input)?;
    if model.layers.is_empty() || model.layers.len() > MOST_LAYERS {
        let layers = model.layers.len();
        return Err(LayerRangesError::Input(format!(
            "a model of {layers} layers: expected 1 to {MOST_LAYERS}"
        )));
    }
    let sums = LayerSums::new(model);
    let search = DivisionSearch::new(model, &sums, nodes);
    let Some(slowest) = search.slowest() else { return Err(too_large(&sums, nodes)) };
    let chosen = search.shortest(slowest).ok_or_else(|| too_large(&sums, nodes))?;
    let stage = |(node, layers): (usize, Range<usize>)| PlannedStage {
        node: nodes[node].name.clone(),
        bytes: sums.bytes(&layers),
        memory_bytes: nodes[node].memory_bytes,
        ms_per_token: sums.milliseconds(&layers, &nodes[node]),
        layers,
    };
    Ok(ClusterPlan { stages: chosen.into_iter().map(stage).collect() })
}

fn too_large(sums: &LayerSums, nodes: &[NodeMeasure]) -> LayerRangesError {
    let needed = sums.bytes(&(0..sums.layers()));
    let available = nodes.iter().fold(0u64, |sum, node| sum.saturating_add(node.memory_bytes));
    let detail = if available >= needed {
        let layer = (0..sums.layers()).map(|layer| sums.bytes(&(layer..layer + 1))).max().unwrap_or(0);
        format!(", but no division puts whole layers (the largest has {layer} bytes) into each node's share")
    } else {
        String::new()
    };
    LayerRangesError::Memory { needed, available, detail }
}

#[cfg(test)]
mod tests;
