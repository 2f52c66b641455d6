//! [`ClusterKeys`] and [`PipelineKeys`]: the keys of zenoh.
//!
//! | key | what |
//! |---|---|
//! | `mng/{cluster}/v1/node/{node}` | token: the node is alive |
//! | `mng/{cluster}/v1/{model}/{replica}/stage/{node}` | token: the node serves a stage |
//! | `mng/{cluster}/v1/{model}/{replica}/rpc/{node}/{request}` | requests to a stage: describe, open, drain |
//! | `mng/{cluster}/v1/{model}/{replica}/e{epoch}/member/{i}` | token: member i of a pipeline has its links |
//! | `mng/{cluster}/v1/{model}/{replica}/e{epoch}/fwd/{i}` | frames into member i, from the member before it |
//! | `mng/{cluster}/v1/{model}/{replica}/e{epoch}/back/{i}` | acknowledgments into member i, from the member after it |
//!
//! The members of a pipeline of n stages are the stages 0 to n - 1 and the head, member n.

/// The keys of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterKeys(String);

impl ClusterKeys {
    pub(crate) fn new(cluster: &str) -> Self {
        Self(format!("mng/{cluster}/v1"))
    }

    pub(crate) fn node(&self, node: &str) -> String {
        format!("{}/node/{node}", self.0)
    }

    pub(crate) fn stage(&self, model: &str, replica: &str, node: &str) -> String {
        format!("{}/{model}/{replica}/stage/{node}", self.0)
    }

    /// All tokens of stages.
    pub(crate) fn all_stages(&self) -> String {
        self.stage("*", "*", "*")
    }

    /// Model, replica and node of the token of a stage.
    pub(crate) fn parts_of_stage(key: &str) -> Option<[String; 3]> {
        match key.split('/').collect::<Vec<_>>()[..] {
            ["mng", _, "v1", model, replica, "stage", node] => {
                Some([model, replica, node].map(str::to_owned))
            }
            _ => None,
        }
    }

    /// The requests to a stage, as a verb or `*`.
    pub(crate) fn request(&self, [model, replica, node]: [&str; 3], verb: &str) -> String {
        format!("{}/{model}/{replica}/rpc/{node}/{verb}", self.0)
    }

    pub(crate) fn pipeline(&self, [model, replica, epoch]: [&str; 3]) -> PipelineKeys {
        PipelineKeys(format!("{}/{model}/{replica}/e{epoch}", self.0))
    }
}

/// The keys of a pipeline in an epoch. Frames of another epoch have other keys, so nobody receives them.
#[derive(Clone, Debug)]
pub(crate) struct PipelineKeys(String);

impl PipelineKeys {
    pub(crate) fn forward(&self, member: usize) -> String {
        format!("{}/fwd/{member}", self.0)
    }

    pub(crate) fn back(&self, member: usize) -> String {
        format!("{}/back/{member}", self.0)
    }

    pub(crate) fn member(&self, member: usize) -> String {
        format!("{}/member/{member}", self.0)
    }
}
