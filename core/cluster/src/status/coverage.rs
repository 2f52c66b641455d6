//! [`ReplicaStatus`]: whether the stages of a replica have every layer once.

use crate::description::{StageDescription, StageState};
use std::collections::BTreeMap;
use std::ops::Range;

/// The stages of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The name of the model in keys.
    pub model: String,
    /// The name of the replica.
    pub replica: String,
    /// Its stages.
    pub stages: usize,
    /// Layers of the model that no stage has.
    pub missing: Vec<Range<usize>>,
    /// Layers that several stages have.
    pub doubled: Vec<Range<usize>>,
    /// Whether a stage is drained.
    pub is_draining: bool,
}

impl ReplicaStatus {
    /// Whether a head can use it.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && !self.is_draining
    }
}

/// The replicas of these stages, which `received.rs` accepted.
pub(super) fn replicas(stages: &[StageDescription]) -> Vec<ReplicaStatus> {
    let mut groups = BTreeMap::<(&str, &str), Vec<&StageDescription>>::new();
    for stage in stages {
        groups.entry((&stage.model, &stage.replica)).or_default().push(stage);
    }
    groups.into_iter().map(|((model, replica), stages)| status(model, replica, &stages)).collect()
}

fn status(model: &str, replica: &str, stages: &[&StageDescription]) -> ReplicaStatus {
    let layers = stages.iter().map(|stage| stage.layers).max().unwrap_or(0);
    let mut counts = vec![0usize; layers];
    for stage in stages {
        counts[stage.first..stage.end].iter_mut().for_each(|count| *count += 1);
    }
    ReplicaStatus {
        model: model.to_owned(),
        replica: replica.to_owned(),
        stages: stages.len(),
        missing: runs(&counts, |count| count == 0),
        doubled: runs(&counts, |count| count > 1),
        is_draining: stages.iter().any(|stage| stage.state == StageState::Draining),
    }
}

/// The ranges of layers with such a count.
fn runs(counts: &[usize], is_meant: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for layer in (0..counts.len()).filter(|layer| is_meant(counts[*layer])) {
        match runs.last_mut() {
            Some(run) if run.end == layer => run.end += 1,
            _ => runs.push(layer..layer + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined() {
        assert_eq!(runs(&[0, 0, 1, 0, 2], |count| count == 0), [0..2, 3..4]);
        assert_eq!(runs(&[0, 0, 1, 0, 2], |count| count > 1), vec![Range { start: 4, end: 5 }]);
        assert!(runs(&[], |_| true).is_empty());
    }
}
