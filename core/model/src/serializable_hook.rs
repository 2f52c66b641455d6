//! [`SerializableHook`]: hooks that act in other processes too, where layers of a model may be.

use crate::{ModelError, Result};

/// What a copy of a hook is made from in another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRecipe {
    /// By which the other process knows how.
    pub kind: String,
    /// What it needs.
    pub content: Vec<u8>,
}

/// A hook of which other processes make copies, each for the layers that are there ([`crate::LayerHook::serializable`]).
pub trait SerializableHook {
    /// What a copy is made from.
    fn recipe(&self) -> HookRecipe;

    /// Whether what copies keep is taken after every step, not only where somebody asks for it.
    fn is_followed(&self) -> bool {
        false
    }

    /// In a copy: gives what was kept for the hook, piece by piece, and forgets it. Pieces are small beside memory.
    ///
    /// # Errors
    /// What was kept cannot be read; what `piece` returns.
    fn give(&self, piece: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let _ = piece;
        Ok(())
    }

    /// Takes a piece that a copy gave.
    ///
    /// # Errors
    /// It cannot be kept, or is none of a copy's.
    fn take(&self, piece: &[u8]) -> Result<()> {
        let reason = format!("a copy of it returned {} bytes, and it accepts none", piece.len());
        Err(ModelError::Hook { hook: self.recipe().kind, reason })
    }
}
