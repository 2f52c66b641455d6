//! [`LoadQuantization`]: how a model is quantized while it is loaded.

use menagerie_quantize::{Importance, Policy};
use std::sync::Arc;

/// How a model is quantized while it is loaded.
#[derive(Clone, Debug)]
pub struct LoadQuantization {
    /// The type of each tensor.
    pub policy: Policy,
    /// The importance of the columns of each weight, with the name of its file.
    pub importance: Option<(String, Arc<Importance>)>,
    /// Whether weights that are quantized already may be quantized again.
    pub requantize: bool,
}
