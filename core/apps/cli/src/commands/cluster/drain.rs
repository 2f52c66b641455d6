//! `cluster drain`: takes a replica out of service.

use super::joining::JoinArguments;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::cluster::StageDescription;
use serde_json::json;
use std::collections::BTreeSet;

/// Drain a replica: its stages accept no further head and end once nothing is computed
///
/// Heads continue with another replica, if there is one.
#[derive(Args)]
pub(crate) struct ClusterDrainCommand {
    #[command(flatten)]
    join: JoinArguments,
    /// Name of the replica
    #[arg(long, value_name = "NAME")]
    replica: String,
    /// Only stages of this model, named as in `cluster status`
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ClusterDrainCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (node, status) = self.join.join()?;
        let is_meant = |stage: &&StageDescription| {
            stage.replica == self.replica && self.model.as_ref().is_none_or(|model| *model == stage.model)
        };
        let stages: Vec<&StageDescription> = status.stages.iter().filter(is_meant).collect();
        let models: BTreeSet<&str> = stages.iter().map(|stage| stage.model.as_str()).collect();
        if stages.is_empty() {
            return Err(self.none(&status.stages));
        }
        if models.len() > 1 {
            let models: Vec<&str> = models.into_iter().collect();
            let reason = format!("several models have a replica {}: {}", self.replica, models.join(", "));
            return Err(Failure::Failed(reason).with_help("name one with --model"));
        }
        let asked = |stage: &&StageDescription| {
            let result = node.drain(stage, self.join.patience());
            (stage.to_string(), result.err().map(|error| error.to_string()))
        };
        let asked: Vec<(String, Option<String>)> = stages.iter().map(asked).collect();
        if self.json {
            let one = |(stage, fault): &(String, Option<String>)| json!({ "stage": stage, "fault": fault });
            output::json(
                &json!({ "replica": self.replica, "stages": asked.iter().map(one).collect::<Vec<_>>() }),
            )?;
        }
        let said = |(stage, fault): (String, Option<String>)| match fault {
            None if self.json => Ok(()),
            None => output::line(&format!("draining: {stage}")),
            Some(fault) => Err(Failure::about(stage, fault)),
        };
        Failure::of_all(asked.into_iter().map(said).collect::<Vec<_>>())
    }

    /// There is no such replica.
    fn none(&self, stages: &[StageDescription]) -> Failure {
        let known: BTreeSet<String> =
            stages.iter().map(|stage| format!("{} of {}", stage.replica, stage.model)).collect();
        let known: Vec<String> = known.into_iter().collect();
        let known =
            if known.is_empty() { "no stages".to_owned() } else { format!("replicas {}", known.join(", ")) };
        Failure::Failed(format!(
            "cluster {} has no replica {} to drain; it has {known}",
            self.join.cluster(),
            self.replica
        ))
    }
}
