//! [`ClusterStatus`]: the stages of a cluster, as an operator sees them.

mod coverage;

pub use coverage::ReplicaStatus;

use crate::description::StageDescription;
use crate::error::ClusterError;
use crate::keys::ClusterKeys;
use crate::node::ClusterNode;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use zenoh::Wait;

/// How often the tokens are read until they stay the same.
const AGAIN: Duration = Duration::from_millis(50);

/// The most tokens that are read.
const MOST_TOKENS: usize = 4096;

/// The stages of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    /// Stages that answered, ordered by model, replica and layers.
    pub stages: Vec<StageDescription>,
    /// Stages that are announced and did not answer.
    pub silent: Vec<SilentStage>,
}

/// A stage that is announced and did not answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SilentStage {
    /// The name of the model in keys.
    pub model: String,
    /// The name of the replica.
    pub replica: String,
    /// The identifier of the node.
    pub node: String,
}

impl ClusterStatus {
    /// Waits until no further stage appears for the time `settle`, at most for the time `within`, and asks each what it is.
    ///
    /// Nodes find each other one after the other, so a status that is read at once would show only the first.
    ///
    /// # Errors
    /// The network failed.
    pub fn read(node: &ClusterNode, settle: Duration, within: Duration) -> Result<Self, ClusterError> {
        let by = Instant::now() + within;
        let (mut seen, mut changed) = (BTreeSet::new(), Instant::now());
        while Instant::now() < by && changed.elapsed() < settle {
            let now = announced(node, within)?;
            if now != seen {
                (seen, changed) = (now, Instant::now());
            }
            std::thread::sleep(AGAIN);
        }
        let left = by.saturating_duration_since(Instant::now()).max(AGAIN);
        let stages = node.describe(left)?;
        let answered = |silent: &SilentStage| stages.iter().any(|stage| stage.node == silent.node);
        let silent = seen.into_iter().filter(|silent| !answered(silent)).collect();
        Ok(Self { stages, silent })
    }

    /// The replicas of all models.
    pub fn replicas(&self) -> Vec<ReplicaStatus> {
        coverage::replicas(&self.stages)
    }
}

/// The stages that are announced.
fn announced(node: &ClusterNode, within: Duration) -> Result<BTreeSet<SilentStage>, ClusterError> {
    let asked = node.session().liveliness().get(node.keys().all_stages()).timeout(within).wait();
    let replies = asked.map_err(|error| ClusterError::network("cannot look for stages", error))?;
    let (by, mut found) = (Instant::now() + within, BTreeSet::new());
    while let Ok(Some(reply)) = replies.recv_deadline(by) {
        if found.len() == MOST_TOKENS {
            break;
        }
        let Ok(sample) = reply.result() else { continue };
        if let Some([model, replica, node]) = ClusterKeys::parts_of_stage(sample.key_expr().as_str()) {
            found.insert(SilentStage { model, replica, node });
        }
    }
    Ok(found)
}
