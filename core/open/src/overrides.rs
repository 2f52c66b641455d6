//! [`Overrides`]: what a model was opened with beside its own files, and that changes what it computes.

use std::path::PathBuf;

/// What a model was opened with beside its own files, and that changes what it computes. LoRA adapters are not here: they
/// come and go.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// An X-LoRA, experts and gate of a mixture, an importance matrix.
    pub files: Vec<PathBuf>,
}
