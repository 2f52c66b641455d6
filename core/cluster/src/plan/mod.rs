//! Which node of a cluster computes which layers: from the memory and the speed of the nodes, to the shortest time of the
//! slowest stage.
//!
//! The model of time is that of generation. A layer of a token takes the time that its node needs to read the layer's
//! weights, so it is the node's time for an average layer times the bytes of the layer relative to the average. The head
//! counts as a layer of its size; the embedding is a look-up and takes no time. A token passes through all stages and one
//! hop more than there are stages, because it begins and ends in the process with the sampler.

mod cost;
mod inputs;
mod measured;
mod ranges;
mod search;

pub use cost::{ExpectedSpeed, expected_speed};
pub use inputs::{LayerSizes, NodeMeasure, NodesFile, ShapeLayer};
pub use measured::measured_nodes;
pub use ranges::{ClusterPlan, LayerRangesError, PlannedStage, plan_layers};
