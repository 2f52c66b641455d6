//! [`AdapterSet`]: adapters that act together, with their weights.

mod magnitude;
mod part;

pub use magnitude::Magnitude;
pub use part::{Adapter, FullWeight, LinearPart, SitePart, TablePart};

use crate::backend::Backend;
use crate::{ModelError, Result};
use magnitude::Stretch;
use std::sync::Arc;

/// By number of the site, the layer that [`crate::Scalings`] have for it, if they have one.
pub type ScalingLayers = Arc<[Option<usize>]>;

/// Adapters that act together on a sequence, in order.
#[derive(Debug)]
pub struct AdapterSet {
    members: Vec<Member>,
    /// By site: whether any adapter acts there.
    acts: Vec<bool>,
    scaling_layers: Option<ScalingLayers>,
}

/// An adapter of a set.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) adapter: Arc<Adapter>,
    /// The factor of the adapter's terms.
    pub(crate) weight: f32,
    /// By site: DoRA's stretch under that weight.
    stretches: Vec<Option<Stretch>>,
}

impl Member {
    pub(crate) fn stretch(&self, site: usize) -> Option<&Stretch> {
        self.stretches.get(site)?.as_ref()
    }
}

impl AdapterSet {
    /// These adapters with their weights; 1 is the adapter as it was trained. All are of one model.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] names adapters that cannot act together: two that replace the same weight, or two
    /// with biases.
    pub fn new(members: Vec<(Arc<Adapter>, f32)>, backend: &dyn Backend) -> Result<Self> {
        let sites = members.iter().map(|(adapter, _)| adapter.parts().len()).max().unwrap_or(0);
        for site in 0..sites {
            check_site(&members, site)?;
        }
        check_biases(&members)?;
        let acts = (0..sites).map(|site| members.iter().any(|(of, _)| of.part(site).is_some())).collect();
        let member = |(adapter, weight): (Arc<Adapter>, f32)| {
            let stretch = |site: usize| {
                let magnitude = adapter.linear(site).and_then(|part| part.magnitude.as_ref());
                magnitude.map(|magnitude| magnitude.stretch(weight, backend)).transpose()
            };
            let stretches = (0..adapter.parts().len()).map(stretch).collect::<Result<_>>()?;
            Ok(Member { adapter, weight, stretches })
        };
        let members = members.into_iter().map(member).collect::<Result<_>>()?;
        Ok(Self { members, acts, scaling_layers: None })
    }

    /// Also multiplied by the step's [`crate::Scalings`]: adapter `a` of the set by `[row, layers[site], a]`.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] together with DoRA and replaced weights, which cannot be weighted row by row.
    pub fn with_scalings(mut self, layers: ScalingLayers) -> Result<Self> {
        for Member { adapter, .. } in &self.members {
            let parts = (0..adapter.parts().len()).filter_map(|site| adapter.linear(site));
            if let Some(what) = parts.filter_map(unscalable).next() {
                return Err(ModelError::Unsupported(format!(
                    "adapter \"{}\" has {what}, which X-LoRA cannot weight row by row; use it without X-LoRA",
                    adapter.name()
                )));
            }
        }
        self.scaling_layers = Some(layers);
        Ok(self)
    }

    /// Whether another set has the same adapters with the same weights, so that it computes the same.
    pub fn is_same(&self, other: &Self) -> bool {
        let pairs = || self.members.iter().zip(&other.members);
        let alike = |(own, other): (&Member, &Member)| {
            Arc::ptr_eq(&own.adapter, &other.adapter) && own.weight.to_bits() == other.weight.to_bits()
        };
        let layers = match (&self.scaling_layers, &other.scaling_layers) {
            (None, None) => true,
            (Some(own), Some(other)) => own == other,
            _ => false,
        };
        self.members.len() == other.members.len() && layers && pairs().all(alike)
    }

    /// By site, the layer of the step's scalings, if the set is multiplied by them.
    pub fn scaling_layers(&self) -> Option<&ScalingLayers> {
        self.scaling_layers.as_ref()
    }

    /// The adapters and their weights.
    pub fn adapters(&self) -> impl Iterator<Item = (&Arc<Adapter>, f32)> {
        self.members.iter().map(|member| (&member.adapter, member.weight))
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether any adapter acts at a site.
    pub(crate) fn acts_at(&self, site: usize) -> bool {
        self.acts.get(site).copied().unwrap_or(false)
    }

    /// The layer of the step's scalings that a site has; `None` if the set is not multiplied by them.
    pub(crate) fn scaling_layer(&self, site: usize) -> Option<usize> {
        self.scaling_layers.as_ref()?.get(site).copied().flatten()
    }
}

fn unscalable(part: &LinearPart) -> Option<&'static str> {
    match (&part.magnitude, &part.whole, &part.bias) {
        (Some(_), ..) => Some("DoRA magnitudes"),
        (_, Some(_), _) => Some("whole weights (modules_to_save)"),
        (_, _, Some(_)) => Some("biases"),
        _ => None,
    }
}

/// No other adapter may change a weight that one adapter replaces.
fn check_site(members: &[(Arc<Adapter>, f32)], site: usize) -> Result<()> {
    let whole = |adapter: &Adapter| match adapter.part(site) {
        Some(SitePart::Linear(part)) => part.whole.as_ref().map(|whole| whole.weight.name().to_owned()),
        Some(SitePart::Table(TablePart::Whole(table))) => Some(table.name().to_owned()),
        _ => None,
    };
    let mut acting =
        members.iter().map(|(adapter, _)| adapter).filter(|adapter| adapter.part(site).is_some());
    let (Some(first), Some(second)) = (acting.next(), acting.next()) else { return Ok(()) };
    let Some(tensor) = whole(first).or_else(|| whole(second)) else { return Ok(()) };
    Err(ModelError::Unsupported(format!(
        "adapters \"{}\" and \"{}\" cannot be combined: tensor \"{tensor}\" replaces a weight that both change; \
         use one of them",
        first.name(),
        second.name()
    )))
}

/// Trained biases replace the model's: they cannot be added, and DoRA would need to know them.
fn check_biases(members: &[(Arc<Adapter>, f32)]) -> Result<()> {
    let has = |adapter: &Adapter, what: fn(&LinearPart) -> bool| {
        (0..adapter.parts().len()).filter_map(|site| adapter.linear(site)).any(what)
    };
    for (index, (adapter, _)) in members.iter().enumerate() {
        if !has(adapter, |part| part.bias.is_some()) {
            continue;
        }
        let conflicts = |other: &Adapter| has(other, |part| part.bias.is_some() || part.magnitude.is_some());
        let mut others =
            members.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, (other, _))| other);
        if let Some(other) = others.find(|other| conflicts(other)) {
            return Err(ModelError::Unsupported(format!(
                "adapters \"{}\" and \"{}\" cannot be combined: the first was trained with its own biases, and the \
                 second has biases or DoRA magnitudes, which depend on them; use one of them",
                adapter.name(),
                other.name()
            )));
        }
    }
    Ok(())
}
