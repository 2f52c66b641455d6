//! [`plan`]: the tensors of a resolved config and their dimensions, from the tables of its kinds.

use crate::error::SynthError;
use menagerie_spec::ModelConfig;
use menagerie_spec::config::{BiasRule, HeadKind, LayerConfig, MODEL_SIZES, NormSite};
use menagerie_spec::kind::{Bits, Component, FreeSize, Scope, Sizes, StoredTensor, WantedRole};
use std::collections::{BTreeMap, BTreeSet};

/// A tensor of a random model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SynthTensor {
    /// Role with its suffix, `attn_q.weight`.
    pub(crate) role: String,
    /// The block, for a tensor of a block.
    pub(crate) layer: Option<usize>,
    /// Dimensions in ggml order, fastest first.
    pub(crate) dims: Vec<u64>,
    /// Whether it is f32 in every file type, as vectors and some roles are.
    pub(crate) is_full: bool,
    /// The mean of its values: 1 for norm weights and divisors, else 0.
    pub(crate) center: f32,
}

/// Collects the tensors of one model.
struct TensorPlan<'a> {
    hints: &'a BTreeMap<String, f64>,
    width: usize,
    tensors: Vec<SynthTensor>,
    /// Planned tensors: sites may share a tensor, and layers share those of the model.
    seen: BTreeSet<(Option<usize>, String)>,
}

/// Plans every tensor of the model, in the order of files. Sizes that a config does not state come from its hints. `tied`
/// says whether the embedding is also the head.
///
/// # Errors
/// A size that is missing.
pub(crate) fn plan(config: &ModelConfig, tied: bool) -> Result<Vec<SynthTensor>, SynthError> {
    let mut hints = config.hints.clone();
    hints.extend(config.context_length.map(|length| ("context_length".to_owned(), length as f64)));
    let tied = tied || config.output.head == HeadKind::Tied;
    let mut plan = TensorPlan {
        hints: &hints,
        width: config.embedding_length,
        tensors: Vec::new(),
        seen: BTreeSet::new(),
    };
    let sizes = plan.with_model(config.embedding.sizes(), &MODEL_SIZES);
    plan.all(config.embedding.wanted(&sizes), None, &MODEL_SIZES)?;
    plan.site(config.embedding.norm.as_ref(), None)?;
    plan.site(config.output.norm.as_ref(), None)?;
    plan.site(config.output.classifier.as_ref().and_then(|classifier| classifier.norm.as_ref()), None)?;
    if !tied {
        let sizes = plan.with_model(config.output.sizes(), &MODEL_SIZES);
        plan.all(config.output.wanted(&sizes), None, &MODEL_SIZES)?;
    }
    for layer in &config.layers {
        plan.layer(layer)?;
    }
    for nextn in &config.nextn {
        let at = Some(nextn.block.index);
        plan.layer(&nextn.block)?;
        nextn.sites().try_for_each(|site| plan.site(Some(site), at))?;
        let sizes = plan.with_model(nextn.sizes(), &MODEL_SIZES);
        plan.all(nextn.wanted(&sizes), at, &MODEL_SIZES)?;
    }
    Ok(plan.tensors)
}

impl TensorPlan<'_> {
    /// The sizes of a config, with the width of the model and the sizes from hints.
    fn with_model(&self, mut sizes: Sizes, free: &[FreeSize]) -> Sizes {
        sizes.set("D", self.width);
        for size in free {
            if sizes.dim(size.symbol).size.is_some() {
                continue;
            }
            let hint = size.hints.iter().find_map(|key| self.hints.get(*key));
            if let Some(hint) = hint.filter(|hint| **hint > 0.0 && hint.fract() == 0.0) {
                sizes.set(size.symbol, *hint as usize);
            }
        }
        sizes
    }

    fn layer(&mut self, layer: &LayerConfig) -> Result<(), SynthError> {
        let at = Some(layer.index);
        let (sites, components) = layer.parts();
        for site in sites {
            self.site(Some(site), at)?;
        }
        components.into_iter().try_for_each(|component| self.component(component, at))
    }

    fn component(&mut self, component: &Component, layer: Option<usize>) -> Result<(), SynthError> {
        let kind = component.kind();
        let sizes = self.with_model(component.sizes(), kind.free);
        self.all(sizes.wanted(kind.roles), layer, kind.free)?;
        component.parts().into_iter().try_for_each(|part| self.component(part, layer))
    }

    fn site(&mut self, site: Option<&NormSite>, layer: Option<usize>) -> Result<(), SynthError> {
        match site {
            Some(site) => self.all(site.wanted(self.width), layer, &[]),
            None => Ok(()),
        }
    }

    /// Adds the tensors of roles. Of alternative forms, only the first is used.
    fn all(
        &mut self,
        wanted: Vec<WantedRole>,
        layer: Option<usize>,
        free: &[FreeSize],
    ) -> Result<(), SynthError> {
        let mut forms: BTreeMap<&str, &str> = BTreeMap::new();
        for wanted in wanted {
            let of_form =
                wanted.def.form.is_none_or(|(group, form)| *forms.entry(group).or_insert(form) == form);
            let layer = layer.filter(|_| wanted.def.scope == Scope::Block);
            for stored in wanted.stored() {
                if of_form && stored.rule == BiasRule::Required {
                    self.push(&stored, layer, free)?;
                }
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        stored: &StoredTensor,
        layer: Option<usize>,
        free: &[FreeSize],
    ) -> Result<(), SynthError> {
        if !self.seen.insert((layer, stored.role.clone())) {
            return Ok(());
        }
        let mut dims = Vec::new();
        for dim in &stored.dims {
            dims.push(dim.size.ok_or_else(|| missing(dim.text, &stored.role, free))?);
        }
        // Files store a single row as a vector.
        while dims.len() > 1 && stored.dims.get(dims.len() - 1).is_some_and(|dim| dim.text == "1") {
            dims.pop();
        }
        let is_full = dims.len() < 2 || stored.def.bits == Bits::Full;
        let center = if stored.is_bias { 0.0 } else { stored.def.around };
        self.tensors.push(SynthTensor { role: stored.role.clone(), layer, dims, is_full, center });
        Ok(())
    }
}

/// The error for a dimension without a size, with the missing key.
fn missing(dim: &str, role: &str, free: &[FreeSize]) -> SynthError {
    let symbol = |name: &str| free.iter().find(|size| size.symbol == name);
    match dim.split(['*', '+', '/']).find_map(symbol) {
        Some(FreeSize { hints: [key, ..], doc, .. }) => {
            let why = doc.trim().trim_end_matches('.').to_lowercase();
            SynthError::MissingKey { key: (*key).to_owned(), why }
        }
        _ => SynthError::Unsupported(format!("tensor `{role}`: the size of `{dim}` is unknown")),
    }
}
