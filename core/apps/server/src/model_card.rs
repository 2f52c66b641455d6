//! [`ModelCard`]: what the file of a model says about it.

/// What the file of a model says about it, for lists of models.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelCard {
    /// Id of its spec.
    pub architecture: String,
    /// Bytes of its files.
    pub bytes: u64,
}

impl ModelCard {
    /// A model of this architecture with files of this many bytes.
    pub fn new(architecture: impl Into<String>, bytes: u64) -> Self {
        Self { architecture: architecture.into(), bytes }
    }
}
