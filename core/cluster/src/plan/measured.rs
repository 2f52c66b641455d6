//! [`measured_nodes`]: nodes for a plan, from what the stages of a running cluster say.

use super::inputs::NodeMeasure;
use crate::description::StageDescription;
use crate::names::file_part;
use std::collections::BTreeSet;

/// The nodes that serve stages of the model with this file name. A node has memory for the weights that it has, and for
/// states: its limit, or what is free.
///
/// # Errors
/// There are none, or one has not computed a token yet.
pub fn measured_nodes(stages: &[StageDescription], file: &str) -> Result<Vec<NodeMeasure>, String> {
    let own: Vec<&StageDescription> = stages.iter().filter(|stage| file_part(&stage.model) == file).collect();
    if own.is_empty() {
        let known: BTreeSet<&str> = stages.iter().map(|stage| file_part(&stage.model)).collect();
        let known: Vec<&str> = known.into_iter().collect();
        let known = if known.is_empty() {
            "none at all".to_owned()
        } else {
            format!("those of {}", known.join(", "))
        };
        return Err(format!(
            "no stage serves {file}, and so none has measured it ({known}); give --nodes FILE"
        ));
    }
    let node = |stage: &StageDescription| {
        let ms_per_layer = stage.steps.layer_ms.filter(|ms| *ms > 0.0).ok_or_else(|| {
            format!("{stage} has not computed a token yet: send a request through it, or give --nodes FILE")
        })?;
        let states = stage.memory.states.or(stage.memory.free).unwrap_or(0);
        let several = own.iter().filter(|other| other.host == stage.host).count() > 1;
        let name = if several { format!("{}/{}", stage.host, stage.process) } else { stage.host.clone() };
        Ok(NodeMeasure { name, memory_bytes: stage.memory.weights.saturating_add(states), ms_per_layer })
    };
    own.iter().map(|stage| node(stage)).collect()
}
