//! [`StageStart`]: what a process needs to know about the stage that it serves.

use menagerie_model::SlotDeclarations;
use std::fmt;
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;

/// What a process needs to know about the stage that it serves, besides the model and its options.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StageStart {
    /// The number of the stage, from 0.
    pub index: usize,
    /// The layers of all stages.
    pub layers: Vec<Range<usize>>,
    /// Names and widths of the slots that earlier stages declare.
    pub slots: Vec<(String, usize)>,
}

impl StageStart {
    /// The slots that earlier stages declare.
    pub(crate) fn declared(&self) -> SlotDeclarations {
        let mut slots = SlotDeclarations::default();
        for (name, width) in &self.slots {
            // Each is declared for the first time here, so its width cannot differ from an earlier one.
            drop(slots.declare(name, *width));
        }
        slots
    }
}

type Launch = dyn Fn(&StageStart) -> Result<Command, String> + Send + Sync;

/// Makes the command that starts the process of a stage. Its standard input and output become its links, so it must not
/// print anything. It calls [`crate::ModelBuilder::serve_stage`] with the same model and options.
#[derive(Clone)]
pub struct StageLauncher(pub Arc<Launch>);

impl fmt::Debug for StageLauncher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StageLauncher")
    }
}
