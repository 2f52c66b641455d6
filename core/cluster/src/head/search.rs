//! [`StageSearch`]: what a head finds among the stages of its cluster.

use super::complete::{complete, missing};
use super::{ClusterHead, WantedModel};
use crate::control::{PROTOCOL, differences, fields_of};
use crate::description::{StageDescription, StageState};
use crate::names::file_part;
use menagerie_stages::FRAME_VERSION;
use std::collections::BTreeMap;

/// What a head finds among the stages of its cluster.
pub(super) struct StageSearch {
    /// Stages that together have all layers and wait for a head.
    pub(super) ready: Option<Vec<StageDescription>>,
    /// Stages that are there but serve another head, or are drained.
    pub(super) busy: Vec<StageDescription>,
    /// Stages of the same model that differ from the head, each with the differences.
    pub(super) different: Vec<(StageDescription, String)>,
    /// What is missing, as text.
    pub(super) missing: String,
}

impl ClusterHead {
    /// Sorts the stages that are alive.
    pub(super) fn search(&self, wanted: &WantedModel, all: Vec<StageDescription>) -> StageSearch {
        let options = &self.0.options;
        let of_replica =
            |stage: &StageDescription| options.replica.as_ref().is_none_or(|one| *one == stage.replica);
        let living = all.into_iter().filter(|stage| self.0.membership.has(&stage.node) && of_replica(stage));
        let (mut different, mut same) = (Vec::new(), Vec::new());
        let identity = fields_of(&wanted.identity);
        for stage in living {
            match difference(&stage, wanted, &identity, &options.plugins) {
                None => same.push(stage),
                Some(text) if is_meant(&stage, wanted) => different.push((stage, text)),
                Some(_) => {}
            }
        }
        let mut replicas = BTreeMap::<String, Vec<&StageDescription>>::new();
        for stage in &same {
            replicas.entry(stage.replica.clone()).or_default().push(stage);
        }
        let is_ready = |stage: &&&StageDescription| stage.state == StageState::Ready;
        let ready = replicas.values().find_map(|stages| {
            complete(&stages.iter().filter(is_ready).copied().collect::<Vec<_>>(), wanted.layers)
        });
        let whole = replicas.values().find(|stages| complete(stages, wanted.layers).is_some());
        let busy = whole.into_iter().flatten().filter(|stage| stage.state != StageState::Ready);
        let busy = busy.map(|stage| (*stage).clone()).collect();
        let missing = self.missing(&replicas, wanted.layers);
        StageSearch { ready, busy, different, missing }
    }

    /// The layers that the most complete replica lacks.
    fn missing(&self, replicas: &BTreeMap<String, Vec<&StageDescription>>, layers: usize) -> String {
        let covered = |stages: &[&StageDescription]| {
            (0..layers).filter(|layer| stages.iter().any(|one| (one.first..one.end).contains(layer))).count()
        };
        match replicas.iter().max_by_key(|(_, stages)| covered(stages)) {
            Some((replica, stages)) => format!("{} of replica {replica}", missing(stages, layers)),
            None => match &self.0.options.replica {
                Some(replica) => format!("{} of replica {replica}", missing(&[], layers)),
                None => missing(&[], layers),
            },
        }
    }
}

/// How a stage differs from the head; `None` if it does not.
fn difference(
    stage: &StageDescription,
    wanted: &WantedModel,
    identity: &BTreeMap<String, String>,
    plugins: &[String],
) -> Option<String> {
    let mut found = Vec::new();
    for (name, of_stage, of_head) in [
        ("protocol", u64::from(stage.protocol), u64::from(PROTOCOL)),
        ("frames", u64::from(stage.frames), u64::from(FRAME_VERSION)),
        ("layers of the model", stage.layers as u64, wanted.layers as u64),
    ] {
        if of_stage != of_head {
            found.push(format!("{name}: the stage has {of_stage}, the head has {of_head}"));
        }
    }
    found.extend(differences((&stage.identity, &stage.plugins), (identity, plugins)));
    (!found.is_empty()).then(|| found.join("; "))
}

/// Whether a stage that differs is meant to serve this model: its file has the same name, or it has the same weights.
fn is_meant(stage: &StageDescription, wanted: &WantedModel) -> bool {
    file_part(&stage.model) == file_part(&wanted.name)
        || stage.identity.get("weights") == Some(&wanted.identity.weights)
}
