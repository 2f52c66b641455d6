//! [`AdapterChoice`]: which adapters act on a generation.

use menagerie_model::AdapterSet;
use std::sync::Arc;

/// Which adapters act on a generation.
#[derive(Clone, Debug, Default)]
pub enum AdapterChoice {
    /// Those of the engine: the ones the model was opened with, if any.
    #[default]
    AsOpened,
    /// None.
    Bare,
    /// These.
    Set(Arc<AdapterSet>),
}
