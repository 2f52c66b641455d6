//! [`Compute`]: where and how a forward computes.

use crate::backend::Backend;
use std::sync::Arc;

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// Quantized weights times activations quantized to 8 bits, as llama.cpp does.
    #[default]
    Fast,
    /// Weights dequantized, products in f32.
    Exact,
}

/// A backend and an arithmetic; cheap to clone.
#[derive(Clone)]
pub struct Compute {
    /// Where a forward computes.
    pub backend: Arc<dyn Backend>,
    /// How products are computed.
    pub arithmetic: Arithmetic,
}

impl Compute {
    /// Computes on `backend`.
    pub fn new(backend: Arc<dyn Backend>, arithmetic: Arithmetic) -> Self {
        Self { backend, arithmetic }
    }
}
