//! [`OutputCheck`]: how closely the outputs of plugins are looked at.

use std::sync::atomic::{AtomicBool, Ordering};

/// How closely outputs are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputCheck {
    /// The last row of each sequence must be numbers: what logits are made from, at next to no cost.
    LastRows,
    /// Every element of every row, and whether it was written at all; for trying a plugin out.
    EveryRow,
}

static EVERY_ROW: AtomicBool = AtomicBool::new(false);

/// Changes how closely the outputs of all plugins of this process are looked at; [`OutputCheck::LastRows`] until then.
pub fn watch(how: OutputCheck) {
    EVERY_ROW.store(how == OutputCheck::EveryRow, Ordering::Relaxed);
}

pub(crate) fn how() -> OutputCheck {
    if EVERY_ROW.load(Ordering::Relaxed) { OutputCheck::EveryRow } else { OutputCheck::LastRows }
}
