//! [`AskedDraft`]: a draft that an answer asks for.

use super::states::DraftKey;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A draft that an answer asks for.
pub(super) struct AskedDraft {
    /// The state of the answer.
    pub(super) key: DraftKey,
    /// Prompt and answer so far.
    pub(super) tokens: Vec<u32>,
    /// The most guesses.
    pub(super) most: usize,
    /// Cancels the answer.
    pub(super) cancel: Option<Arc<AtomicBool>>,
}

impl AskedDraft {
    /// The flag that cancels the answer.
    pub(super) fn cancel(&self) -> Option<&AtomicBool> {
        self.cancel.as_deref()
    }
}
