//! [`Compute`]: where and how a forward computes.

use crate::backend::Backend;
use menagerie_formulas::Arithmetic;
use std::sync::Arc;

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
