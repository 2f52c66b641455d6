//! Claims: which role wants which tensor. Every tensor is claimed by one role, or ignored with a reason.

use crate::source::{TensorEntry, WeightSource};
use menagerie_registry::Part;

/// A tensor and the role that wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The role, with `.bias` for a bias.
    pub role: String,
    /// The block, or `None` for a tensor of the whole model.
    pub layer: Option<usize>,
    /// The tensor.
    pub tensor: TensorEntry,
}

/// A tensor that is left out on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredTensor {
    /// The tensor.
    pub tensor: TensorEntry,
    /// Why.
    pub reason: String,
}

/// A tensor wanted by a second role.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClaimedTwice {
    /// The role that has it.
    pub(crate) first: String,
    /// The role that wants it too.
    pub(crate) second: String,
}

/// Which role claimed each tensor, by index.
pub(crate) struct Claims {
    roles: Vec<Option<(String, Option<usize>)>>,
}

impl Claims {
    pub(crate) fn new(tensors: usize) -> Self {
        Self { roles: vec![None; tensors] }
    }

    /// Claims a tensor; the same role may claim it again (a factor tensor that all layers share).
    pub(crate) fn claim(
        &mut self,
        index: usize,
        role: &str,
        layer: Option<usize>,
        part: Part,
    ) -> Result<(), ClaimedTwice> {
        let role = match part {
            Part::Main => role.to_owned(),
            Part::Bias => format!("{role}.bias"),
            Part::Scale => format!("{role}.scale"),
        };
        match self.roles.get_mut(index) {
            Some(Some((first, at))) if *first != role || *at != layer => {
                Err(ClaimedTwice { first: first.clone(), second: role })
            }
            Some(slot) => {
                *slot = Some((role, layer));
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(crate) fn is_claimed(&self, index: usize) -> bool {
        self.roles.get(index).is_some_and(Option::is_some)
    }

    /// The claims in the order of the file.
    pub(crate) fn list(&self, source: &dyn WeightSource) -> Vec<Claim> {
        let entries = source.entries().iter().zip(&self.roles);
        let claims = entries.filter_map(|(tensor, role)| {
            let (role, layer) = role.clone()?;
            Some(Claim { role, layer, tensor: tensor.clone() })
        });
        claims.collect()
    }
}
