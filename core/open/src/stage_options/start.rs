//! [`StageStart`]: what a process is told of the stage that it is to be.

use menagerie_model::SlotDeclarations;
use std::fmt;
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;

/// What a process is told of the stage that it is to be, beside the model and its options.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StageStart {
    /// Which stage it is.
    pub index: usize,
    /// The layers of all stages.
    pub layers: Vec<Range<usize>>,
    /// Names and widths of the slots that earlier stages declare.
    pub slots: Vec<(String, usize)>,
}

impl StageStart {
    /// The slots as the stage before left them.
    pub(crate) fn declared(&self) -> SlotDeclarations {
        let mut slots = SlotDeclarations::default();
        for (name, width) in &self.slots {
            // Each is declared for the first time here, so that no width can be another.
            drop(slots.declare(name, *width));
        }
        slots
    }
}

type Launch = dyn Fn(&StageStart) -> Result<Command, String> + Send + Sync;

/// Makes the command that starts the process of a stage: its standard input and output become its links, so that it prints
/// nothing, and it calls [`crate::serve_stage`] with the same model and options.
#[derive(Clone)]
pub struct StageLauncher(pub Arc<Launch>);

impl fmt::Debug for StageLauncher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StageLauncher")
    }
}
