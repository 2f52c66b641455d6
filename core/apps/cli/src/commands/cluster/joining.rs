//! [`JoinArguments`]: the cluster that a command looks at.

use crate::arguments::cluster::{NodeArguments, cluster_failure};
use crate::failure::Failure;
use clap::Args;
use menagerie::cluster::{ClusterNode, ClusterOptions, ClusterStatus};
use std::time::Duration;

/// Stages are looked for until none has appeared for this time.
const SETTLE: Duration = Duration::from_millis(500);

/// The cluster that a command looks at.
#[derive(Args)]
pub(crate) struct JoinArguments {
    /// Name of the cluster
    #[arg(long, value_name = "NAME")]
    cluster: String,
    #[command(flatten)]
    node: NodeArguments,
    /// Longest time to wait for the answers of the stages, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
}

impl JoinArguments {
    /// Joins the cluster and asks its stages what they are.
    pub(crate) fn join(&self) -> Result<(ClusterNode, ClusterStatus), Failure> {
        let within = Duration::from_secs(self.wait);
        joined(&self.node.options(&self.cluster, &[]), within)
    }

    /// The longest time to wait for an answer.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// The name of the cluster.
    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }
}

/// Joins a cluster and asks its stages what they are.
pub(crate) fn joined(
    options: &ClusterOptions,
    within: Duration,
) -> Result<(ClusterNode, ClusterStatus), Failure> {
    let node = ClusterNode::join(options).map_err(|error| cluster_failure(&error))?;
    let status = ClusterStatus::read(&node, SETTLE, within).map_err(|error| cluster_failure(&error))?;
    Ok((node, status))
}
