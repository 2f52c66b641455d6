//! [`OutputCheck`]: which outputs of plugins are checked.

use std::sync::atomic::{AtomicBool, Ordering};

/// The outputs that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputCheck {
    /// The last row of each sequence, which determines the logits, must be finite. This costs almost nothing.
    LastRows,
    /// Every element of every row must be written and finite; for `plugin check` and tests.
    EveryRow,
}

static EVERY_ROW: AtomicBool = AtomicBool::new(false);

/// Sets the checked outputs of all plugins of this process; the default is [`OutputCheck::LastRows`].
pub fn watch(how: OutputCheck) {
    EVERY_ROW.store(how == OutputCheck::EveryRow, Ordering::Relaxed);
}

pub(crate) fn how() -> OutputCheck {
    if EVERY_ROW.load(Ordering::Relaxed) { OutputCheck::EveryRow } else { OutputCheck::LastRows }
}
