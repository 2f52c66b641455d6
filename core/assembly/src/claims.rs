//! Claims: which role wants which tensor. Every tensor is claimed by one role, or ignored with a reason.

use crate::source::{Piece, Share, TensorEntry, WeightSource};
use menagerie_registry::TensorPart;
use std::collections::HashMap;

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

/// Which role claimed each entry, by index, and which entries take what of a tensor of the file.
pub(crate) struct Claims {
    roles: Vec<Option<(String, Option<usize>)>>,
    shares: HashMap<usize, Vec<(Share, usize)>>,
}

impl Claims {
    pub(crate) fn new(entries: usize) -> Self {
        Self { roles: vec![None; entries], shares: HashMap::new() }
    }

    /// Claims an entry and the tensors it is made of; the same role may claim it again (a factor tensor that all layers
    /// share), and two roles may take parts of a tensor that have nothing in common.
    pub(crate) fn claim(
        &mut self,
        source: &dyn WeightSource,
        index: usize,
        (role, layer, part): (&str, Option<usize>, TensorPart),
    ) -> Result<(), ClaimedTwice> {
        let role = match part {
            TensorPart::Main => role.to_owned(),
            TensorPart::Bias => format!("{role}.bias"),
            TensorPart::Scale => format!("{role}.scale"),
        };
        if let Some(Some((first, at))) = self.roles.get(index)
            && (*first != role || *at != layer)
        {
            return Err(ClaimedTwice { first: first.clone(), second: role });
        }
        let itself = [Piece { tensor: index, share: Share::Whole }];
        let pieces = source.made_of(index);
        for piece in if pieces.is_empty() { &itself[..] } else { pieces } {
            let taken = self.shares.entry(piece.tensor).or_default();
            let other = taken.iter().find(|(share, by)| *by != index && !share.is_apart_from(piece.share));
            if let Some((_, by)) = other {
                let first = self.roles.get(*by).cloned().flatten().map(|(role, _)| role).unwrap_or_default();
                return Err(ClaimedTwice { first, second: role });
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

    /// Whether an entry, or something that is made of it, is claimed.
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
