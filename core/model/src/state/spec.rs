//! [`StateSpec`]: what a component keeps between steps.

use super::StateId;
use menagerie_formulas::KvType;

/// What a component keeps between steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateSpec {
    /// One row per token: keys, values, latents.
    PerToken {
        /// For errors and listings, e.g. `blk.3.k`.
        name: String,
        /// How rows are stored; absent = the pool's cache type.
        dtype: Option<KvType>,
        /// Heads per row.
        heads: usize,
        /// Elements per head.
        head_dim: usize,
        /// Tokens that stay visible, the newest included; older rows are dropped. Absent = all.
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
            Self::PerToken { heads, head_dim, .. } => heads.saturating_mul(*head_dim),
            Self::PerSequence { shape, .. } => shape.iter().fold(1, |all, size| all.saturating_mul(*size)),
        }
    }
}

/// Assigns state ids while a model is assembled.
#[derive(Clone, Debug, Default)]
pub struct StateDeclarations {
    specs: Vec<StateSpec>,
}

impl StateDeclarations {
    /// Declares a state and returns its id.
    pub fn declare(&mut self, spec: StateSpec) -> StateId {
        self.specs.push(spec);
        StateId(self.specs.len() - 1)
    }

    /// The state that was declared last under this name; for blocks that run several times, that of the same run.
    pub fn find(&self, name: &str) -> Option<(StateId, &StateSpec)> {
        let index = self.specs.iter().rposition(|spec| spec.name() == name)?;
        Some((StateId(index), &self.specs[index]))
    }

    /// The states declared so far, in the order of the ids.
    pub fn specs(&self) -> &[StateSpec] {
        &self.specs
    }

    /// Everything declared, in the order of the ids.
    pub fn into_specs(self) -> Vec<StateSpec> {
        self.specs
    }
}
