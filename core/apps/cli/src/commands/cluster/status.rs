//! `cluster status`: the stages of a cluster.

use super::joining::JoinArguments;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::cluster::{ClusterStatus, ReplicaStatus, StageDescription, StageState};
use serde_json::{Value, json};
use std::ops::Range;

/// Show the stages of a cluster: layers, memory, running requests and the last fault
///
/// Give --connect with the address of any node, or --lan. Nodes that use certificates also need --tls-dir with those of an
/// operator or a head.
#[derive(Args)]
pub(crate) struct ClusterStatusCommand {
    #[command(flatten)]
    join: JoinArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ClusterStatusCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (_node, status) = self.join.join()?;
        if self.json {
            return output::json(&as_json(self.join.cluster(), &status));
        }
        if status.stages.is_empty() && status.silent.is_empty() {
            return output::line(&format!(
                "no stages in cluster {}: start them with `menagerie stage`; --connect HOST:PORT names a node on another machine",
                self.join.cluster()
            ));
        }
        for replica in status.replicas() {
            output::line(&format!("{} replica {}: {}", replica.model, replica.replica, state_of(&replica)))?;
            let own =
                |stage: &&StageDescription| stage.model == replica.model && stage.replica == replica.replica;
            let rows: Vec<Vec<String>> = status.stages.iter().filter(own).map(row).collect();
            output::table(
                &[
                    "layers",
                    "host",
                    "process",
                    "state",
                    "weights",
                    "free",
                    "requests",
                    "ms/layer",
                    "last fault",
                ],
                &rows,
            )?;
        }
        for silent in &status.silent {
            output::note(&format!(
                "a stage of {} replica {} is announced and does not answer (node {})",
                silent.model, silent.replica, silent.node
            ))?;
        }
        Ok(())
    }
}

/// Whether a head can use a replica, as text.
fn state_of(replica: &ReplicaStatus) -> String {
    let mut parts = Vec::new();
    if !replica.missing.is_empty() {
        parts.push(format!("incomplete, without layers {}", ranges(&replica.missing)));
    }
    if !replica.doubled.is_empty() {
        parts.push(format!("several stages have layers {}", ranges(&replica.doubled)));
    }
    if replica.is_draining {
        parts.push("draining".to_owned());
    }
    match parts.is_empty() {
        true => format!("complete, {}", output::counted(replica.stages, "stage")),
        false => parts.join("; "),
    }
}

/// Ranges of layers as text, first and last.
pub(super) fn ranges(ranges: &[Range<usize>]) -> String {
    let text = |range: &Range<usize>| match range.len() {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end.saturating_sub(1)),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

fn state_name(state: &StageState) -> &'static str {
    match state {
        StageState::Ready => "ready",
        StageState::Serving(_) => "serving",
        StageState::Draining => "draining",
    }
}

fn row(stage: &StageDescription) -> Vec<String> {
    let unknown = || "-".to_owned();
    let StageDescription { memory, steps, .. } = stage;
    vec![
        stage.layer_range(),
        stage.host.clone(),
        stage.process.to_string(),
        state_name(&stage.state).to_owned(),
        output::bytes(memory.weights),
        memory.free.map_or_else(unknown, output::bytes),
        steps.requests.to_string(),
        steps.layer_ms.map_or_else(unknown, |ms| format!("{ms:.3}")),
        stage.last_fault.clone().unwrap_or_else(unknown),
    ]
}

fn as_json(cluster: &str, status: &ClusterStatus) -> Value {
    let replica = |replica: &ReplicaStatus| {
        let layers = |list: &[Range<usize>]| {
            list.iter().map(|range| json!([range.start, range.end])).collect::<Vec<_>>()
        };
        json!({
            "model": replica.model, "replica": replica.replica, "stages": replica.stages,
            "complete": replica.is_complete(), "draining": replica.is_draining,
            "missing_layers": layers(&replica.missing), "doubled_layers": layers(&replica.doubled),
        })
    };
    let silent: Vec<Value> = status
        .silent
        .iter()
        .map(|one| json!({ "model": one.model, "replica": one.replica, "node": one.node }))
        .collect();
    json!({
        "cluster": cluster,
        "replicas": status.replicas().iter().map(replica).collect::<Vec<_>>(),
        "stages": status.stages,
        "silent": silent,
    })
}
