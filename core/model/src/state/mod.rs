//! State of sequences: declared by components ([`StateSpec`]), owned by the pipeline ([`StateStore`]).
//!
//! A component declares what it keeps and gets a [`StateId`] at assembly; it reads and writes through the store for the
//! rows of the layout. Position and length live here and nowhere else.

mod pages;
mod sequence;
mod store;

pub use menagerie_kernels::KvType;
pub use sequence::Snapshot;
pub use store::StateStore;

/// Index of a declared state in a [`StateStore`]; not a layer index (layers may share, loops may have several).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub usize);

/// A sequence in a [`StateStore`]; X-LoRA and speculation use several for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// What a component keeps between steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateSpec {
    /// One row per token: keys, values, latents.
    PerToken {
        /// For errors and listings, e.g. `blk.3.k`.
        name: String,
        /// Heads per row.
        heads: usize,
        /// Elements per head.
        head_dim: usize,
        /// Tokens that stay visible; older rows may be dropped. Absent = all.
        window: Option<usize>,
    },
    /// One block of f32 per sequence: recurrent state, token shift. Cannot be truncated, only restored.
    PerSequence {
        /// For errors and listings.
        name: String,
        /// Elements.
        shape: Vec<usize>,
    },
}

impl StateSpec {
    /// The name, for errors and listings.
    pub fn name(&self) -> &str {
        match self {
            Self::PerToken { name, .. } | Self::PerSequence { name, .. } => name,
        }
    }

    /// Elements of a row (per token) or of the block (per sequence).
    pub fn elements(&self) -> usize {
        match self {
            Self::PerToken { heads, head_dim, .. } => heads * head_dim,
            Self::PerSequence { shape, .. } => shape.iter().product(),
        }
    }
}

/// Hands out state ids while a model is assembled.
#[derive(Clone, Debug, Default)]
pub struct StateDeclarations {
    specs: Vec<StateSpec>,
}

impl StateDeclarations {
    /// Declares a state and gives its id.
    pub fn declare(&mut self, spec: StateSpec) -> StateId {
        self.specs.push(spec);
        StateId(self.specs.len() - 1)
    }

    /// Everything declared, in the order of the ids.
    pub fn into_specs(self) -> Vec<StateSpec> {
        self.specs
    }
}
