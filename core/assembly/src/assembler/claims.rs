//! [`ClaimTable`]: which role takes which tensor. Every tensor is claimed by one role, or ignored with a reason.

use crate::source::{TensorEntry, TensorPiece, TensorShare, WeightSource};
use menagerie_registry::TensorPart;
use std::collections::HashMap;

/// A tensor and the role that claims it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The role, with `.bias` for a bias.
    pub role: String,
    /// The block; `None` for a tensor of the whole model.
    pub layer: Option<usize>,
    /// The tensor.
    pub tensor: TensorEntry,
}

/// A tensor that is ignored on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredTensor {
    /// The tensor.
    pub tensor: TensorEntry,
    /// The reason.
    pub reason: String,
}

/// A tensor claimed by two roles.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DoubleClaim {
    /// The role that has it.
    pub(crate) first: String,
    /// The role that claims it too.
    pub(crate) second: String,
}

/// The role of each claimed entry, and the entries that share a tensor of the file.
pub(crate) struct ClaimTable {
    roles: Vec<Option<(String, Option<usize>)>>,
    shares: HashMap<usize, Vec<(TensorShare, usize)>>,
}

impl ClaimTable {
    pub(crate) fn new(entries: usize) -> Self {
        Self { roles: vec![None; entries], shares: HashMap::new() }
    }

    /// Claims an entry and the tensors that it is made of. The same role may claim it again (a tensor that all layers
    /// share), and two roles may take disjoint parts of a tensor.
    pub(crate) fn claim(
        &mut self,
        source: &dyn WeightSource,
        index: usize,
        (role, layer, part): (&str, Option<usize>, TensorPart),
    ) -> Result<(), DoubleClaim> {
        let role = match part {
            TensorPart::Main => role.to_owned(),
            TensorPart::Bias => format!("{role}.bias"),
            TensorPart::Scale => format!("{role}.scale"),
        };
        if let Some(Some((first, at))) = self.roles.get(index)
            && (*first != role || *at != layer)
        {
            return Err(DoubleClaim { first: first.clone(), second: role });
        }
        let itself = [TensorPiece { tensor: index, share: TensorShare::Whole }];
        let pieces = source.pieces(index);
        for piece in if pieces.is_empty() { &itself[..] } else { pieces } {
            let taken = self.shares.entry(piece.tensor).or_default();
            let other = taken.iter().find(|(share, by)| *by != index && !share.is_disjoint_from(piece.share));
            if let Some((_, by)) = other {
                let first = self.roles.get(*by).cloned().flatten().map(|(role, _)| role).unwrap_or_default();
                return Err(DoubleClaim { first, second: role });
            }
            if !taken.contains(&(piece.share, index)) {
                taken.push((piece.share, index));
            }
        }
        if let Some(slot) = self.roles.get_mut(index) {
            *slot = Some((role, layer));
        }
        Ok(())
    }

    /// Whether an entry, or an entry that is made of it, is claimed.
    pub(crate) fn is_claimed(&self, index: usize) -> bool {
        self.roles.get(index).is_some_and(Option::is_some) || self.shares.contains_key(&index)
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
