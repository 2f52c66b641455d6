//! [`SerializableHook`]: hooks that other processes run copies of, for the layers there.

use crate::{ModelError, Result};

/// The description from which another process makes a copy of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRecipe {
    /// Selects the code that makes the copy in the other process.
    pub kind: String,
    /// Its parameters.
    pub content: Vec<u8>,
}

/// A hook that other processes run copies of, each for its own layers ([`crate::LayerHook::serializable`]).
pub trait SerializableHook {
    /// The description of a copy.
    fn recipe(&self) -> HookRecipe;

    /// Whether the results of copies are collected after every step, not only on request.
    fn is_followed(&self) -> bool {
        false
    }

    /// In a copy: passes the recorded results to `piece`, piece by piece, and drops them. Pieces are small compared to
    /// memory.
    ///
    /// # Errors
    /// The results cannot be read; errors of `piece`.
    fn give(&self, piece: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let _ = piece;
        Ok(())
    }

    /// Takes a piece from a copy.
    ///
    /// # Errors
    /// The piece cannot be stored, or does not come from a copy.
    fn take(&self, piece: &[u8]) -> Result<()> {
        let reason = format!("a copy of it returned {} bytes, and it accepts none", piece.len());
        Err(ModelError::Hook { hook: self.recipe().kind, reason })
    }
}
