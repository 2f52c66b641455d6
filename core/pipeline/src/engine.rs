//! [`Engine`]: a model, how it computes and how its state is kept; immutable and shared by every session.

use crate::error::GenerateError;
use gguf_file::GgufFile;
use menagerie_model::state::KvType;
use menagerie_model::{Compute, LanguageModel, ModelError, StateStore};
use std::sync::Arc;

/// A model with everything that stays the same from call to call.
#[derive(Clone)]
pub struct Engine {
    /// The model.
    pub model: Arc<dyn LanguageModel>,
    /// Device, kernels and arithmetic.
    pub compute: Compute,
    /// How keys and values are stored.
    pub kv_type: KvType,
    /// Most tokens of a sequence.
    pub context: usize,
    /// Most tokens of a prompt computed in one step.
    pub chunk: usize,
    /// The file behind the weights, asked after each step whether it is still whole.
    pub file: Option<Arc<GgufFile>>,
}

impl Engine {
    /// Columns of the logits.
    pub fn vocabulary(&self) -> usize {
        self.model.head().vocabulary()
    }

    /// An empty store with contiguous room for `tokens` tokens of a sequence.
    ///
    /// # Errors
    /// The cache type does not fit a state, or the room cannot be addressed.
    pub fn new_states(&self, tokens: usize) -> Result<StateStore, ModelError> {
        StateStore::new(self.model.stack().states().to_vec(), self.kv_type, tokens, tokens)
    }

    /// Refuses tokens that the model cannot embed.
    ///
    /// # Errors
    /// [`GenerateError::TokenOutOfRange`] names the first one.
    pub fn check_tokens(&self, tokens: &[u32]) -> Result<(), GenerateError> {
        let vocabulary = self.model.embedding().vocabulary();
        match tokens.iter().position(|&id| id as usize >= vocabulary) {
            Some(index) => Err(GenerateError::TokenOutOfRange { id: tokens[index], index, vocabulary }),
            None => Ok(()),
        }
    }

    /// Refuses prompts that do not fit.
    ///
    /// # Errors
    /// [`GenerateError::EmptyPrompt`] or [`GenerateError::PromptTooLong`].
    pub fn check_prompt(&self, tokens: &[u32]) -> Result<(), GenerateError> {
        if tokens.is_empty() {
            return Err(GenerateError::EmptyPrompt);
        }
        if tokens.len() > self.context {
            return Err(GenerateError::PromptTooLong { tokens: tokens.len(), context: self.context });
        }
        self.check_tokens(tokens)
    }
}
