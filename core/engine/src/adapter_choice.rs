//! [`AdapterChoice`]: the adapters of a generation.

use menagerie_model::AdapterSet;
use std::sync::Arc;

/// The adapters of a generation.
#[derive(Clone, Debug, Default)]
pub enum AdapterChoice {
    /// Those that the model was opened with, if any.
    #[default]
    AsOpened,
    /// None.
    Bare,
    /// These.
    Set(Arc<AdapterSet>),
}
