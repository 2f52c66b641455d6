//! [`StageDescription`]: what a stage says about itself.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a stage says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageDescription {
    /// Version of the requests to stages.
    pub protocol: u32,
    /// Version of the frames.
    pub frames: u16,
    /// The identifier of its node.
    pub node: String,
    /// The name of its machine.
    pub host: String,
    /// The number of its process.
    pub process: u32,
    /// Where its node listens.
    pub endpoints: Vec<String>,
    /// The name of the model in keys; see [`crate::model_name`].
    pub model: String,
    /// The name of its replica.
    pub replica: String,
    /// What it must have in common with the head, by name: version, spec, weights, arithmetic, adapters.
    pub identity: BTreeMap<String, String>,
    /// The plugins that are loaded, each with its checksum.
    pub plugins: Vec<String>,
    /// Its first layer.
    pub first: usize,
    /// The layer after its last.
    pub end: usize,
    /// Layers of the whole model.
    pub layers: usize,
    /// Its memory.
    pub memory: MemoryFigures,
    /// What it has computed.
    pub steps: StepFigures,
    /// What it does.
    pub state: StageState,
    /// Why the last pipeline ended, if it ended because of a fault.
    pub last_fault: Option<String>,
}

/// The memory of a stage, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFigures {
    /// The weights of its layers, embedding and head included.
    pub weights: u64,
    /// What the states of all requests may take, if there is a limit.
    pub states: Option<u64>,
    /// What the machine has free, if known.
    pub free: Option<u64>,
}

/// What a stage has computed since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepFigures {
    /// Steps.
    pub steps: u64,
    /// Rows of these steps.
    pub rows: u64,
    /// Whether it computes a step now.
    pub is_computing: bool,
    /// Requests whose states it has.
    pub requests: u64,
    /// Mean milliseconds of a layer in a step of one row; `None` before the first such step.
    pub layer_ms: Option<f64>,
}

/// What a stage does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// It waits for a head.
    Ready,
    /// It serves this head.
    Serving(String),
    /// It accepts no further head, and ends.
    Draining,
}

impl StageDescription {
    /// Its layers as the options of commands name them: first and last.
    pub fn layer_range(&self) -> String {
        match self.end.saturating_sub(self.first) {
            0 | 1 => self.first.to_string(),
            _ => format!("{}-{}", self.first, self.end - 1),
        }
    }
}

impl fmt::Display for StageDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, process, replica, .. } = self;
        write!(f, "layers {} of replica {replica} on {host} (process {process})", self.layer_range())
    }
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let known = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname"));
    let given = || ["HOSTNAME", "COMPUTERNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    known.filter(|name| !name.is_empty()).or_else(given).unwrap_or_else(|| "this machine".to_owned())
}
