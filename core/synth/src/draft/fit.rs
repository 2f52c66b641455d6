//! [`Fit`]: how well a spec describes a model, by the tables of its kinds. No weight is read.

use super::evidence::{Evidence, EvidenceRoles, without_layer};
use menagerie_spec::config::{BiasRule, HeadKind, LayerConfig, NormSite};
use menagerie_spec::kind::{Component, Scope, Sizes, StoredTensor, WantedRole};
use menagerie_spec::{ArchSpec, Resolution, ResolveInput, SourceFormat};
use std::collections::{BTreeMap, BTreeSet};

/// The differences between a spec and a model.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    /// Faults of the keys with the spec: failed checks, missing keys.
    pub faults: Vec<String>,
    /// Failed checks of the spec, if the keys have no other faults.
    pub failed_checks: Vec<String>,
    /// Keys that the spec does not read.
    pub unread: Vec<String>,
    /// Tensors of the spec, with `blk.N.` for all layers, that the file lacks or has in another shape.
    pub missing: BTreeSet<String>,
    /// Tensors of the file that the spec does not use.
    pub unclaimed: BTreeSet<String>,
    /// The resolved spec, if the keys have no faults.
    pub resolution: Option<Resolution>,
}

impl Fit {
    /// The fit of a spec.
    pub(crate) fn of(spec: &ArchSpec, evidence: &Evidence) -> Self {
        let roles = EvidenceRoles { evidence, spec };
        let keys = evidence.keys();
        let mut input =
            ResolveInput::new(SourceFormat::Gguf, &*evidence.file, &*evidence.architecture, keys, &roles);
        input.accept_unread = keys.keys().cloned().collect();
        let resolution = match spec.resolve_report(&input) {
            Ok(resolution) => resolution,
            Err(faults) => {
                let faults =
                    faults.faults().iter().map(|fault| format!("{}: {}", fault.subject, fault.message));
                return Self { faults: faults.collect(), ..Self::default() };
            }
        };
        let mut claims = TensorClaims { spec, evidence, claimed: BTreeSet::new(), missing: BTreeSet::new() };
        claims.model(&resolution);
        let layers = resolution.config.layers.len();
        let free = evidence.tensors().keys().filter(|name| {
            !claims.claimed.contains(name.as_str()) && spec.ignored_tensor(name, layers).is_none()
        });
        Self {
            unread: resolution.coverage.accepted_unread.clone(),
            unclaimed: free.map(|name| without_layer(name)).collect(),
            missing: claims.missing,
            resolution: Some(resolution),
            ..Self::default()
        }
    }

    /// Whether the only faults are failed checks of the spec.
    pub(crate) fn is_only_refused(&self) -> bool {
        !self.faults.is_empty() && self.faults.iter().all(|fault| fault.contains("does not hold"))
    }

    /// The distance from a complete fit; 0 if every key and tensor is used.
    pub fn cost(&self) -> usize {
        // Faults of keys hide all other differences.
        let faults = if self.resolution.is_none() { 200 + 20 * self.faults.len() } else { 0 };
        faults
            + 4 * self.failed_checks.len()
            + self.unread.len()
            + 3 * (self.missing.len() + self.unclaimed.len())
    }
}

/// The comparison of the tensors of a config with those of the file.
struct TensorClaims<'a> {
    spec: &'a ArchSpec,
    evidence: &'a Evidence,
    claimed: BTreeSet<String>,
    missing: BTreeSet<String>,
}

impl TensorClaims<'_> {
    fn model(&mut self, resolution: &Resolution) {
        let config = &resolution.config;
        let with_width = |mut sizes: Sizes| {
            sizes.set("D", config.embedding_length);
            sizes
        };
        let embedding = &config.embedding;
        self.all(embedding.wanted(&with_width(embedding.sizes())), None);
        self.site(embedding.norm.as_ref(), None, config.embedding_length);
        self.site(config.output.norm.as_ref(), None, config.embedding_length);
        let head = config.output.wanted(&with_width(config.output.sizes()));
        let own = self.evidence.stored(self.spec, "output", None).is_some();
        if own || config.output.head == HeadKind::Own {
            self.all(head, None);
        }
        for layer in &config.layers {
            self.layer(layer, config.embedding_length);
        }
    }

    fn layer(&mut self, layer: &LayerConfig, width: usize) {
        let at = Some(layer.index);
        let parts = [(&layer.mixer_branch, &layer.mixer), (&layer.feed_forward_branch, &layer.feed_forward)];
        for (branch, component) in parts {
            for site in [&branch.pre, &branch.post, &branch.after, &branch.again] {
                self.site(site.as_ref(), at, width);
            }
            if let Some(component) = component {
                self.component(component, at, width);
            }
        }
    }

    fn component(&mut self, component: &Component, layer: Option<usize>, width: usize) {
        let kind = component.kind();
        let mut sizes = component.sizes();
        sizes.set("D", width);
        // A size that only tensors state is taken from the last one that has it as a dimension: down, not a fused up
        // projection.
        for free in kind.free {
            let seen = kind.roles.iter().rev().find_map(|role| {
                let at = role.dims.iter().position(|dim| *dim == free.symbol)?;
                let layer = layer.filter(|_| role.scope == Scope::Block);
                let name = self.evidence.stored(self.spec, role.name, layer)?;
                self.evidence.tensors().get(name)?.get(at).copied()
            });
            if let Some(size) = seen.and_then(|size| usize::try_from(size).ok()) {
                sizes.set(free.symbol, size);
            }
        }
        self.all(sizes.wanted(kind.roles), layer);
    }

    fn site(&mut self, site: Option<&NormSite>, layer: Option<usize>, width: usize) {
        if let Some(site) = site {
            self.all(site.wanted(width), layer);
        }
    }

    /// Claims roles. Of alternative forms, the one with the fewest missing tensors is used, then the one with the most
    /// found.
    fn all(&mut self, wanted: Vec<WantedRole>, layer: Option<usize>) {
        let at = |wanted: &WantedRole| layer.filter(|_| wanted.def.scope == Scope::Block);
        let mut forms: BTreeMap<&str, Vec<(&'static str, usize, usize)>> = BTreeMap::new();
        for one in &wanted {
            let Some((group, form)) = one.def.form else { continue };
            let known = forms.entry(group).or_default();
            let place = known.iter().position(|(name, ..)| *name == form).unwrap_or_else(|| {
                known.push((form, 0, 0));
                known.len() - 1
            });
            for stored in one.stored().iter().filter(|stored| stored.rule == BiasRule::Required) {
                match self.found(stored, at(one)) {
                    Some((_, true)) => known[place].2 += 1,
                    _ => known[place].1 += 1,
                }
            }
        }
        let best = |forms: &Vec<(&'static str, usize, usize)>| {
            let best = forms.iter().min_by_key(|(_, lacks, has)| (*lacks, std::cmp::Reverse(*has)));
            best.map_or("", |(form, ..)| *form)
        };
        for one in &wanted {
            let of_form =
                one.def.form.is_none_or(|(group, form)| forms.get(group).is_some_and(|f| best(f) == form));
            if of_form {
                one.stored().iter().for_each(|stored| self.claim(stored, at(one)));
            }
        }
    }

    /// The name of the tensor in the file, and whether its shape matches.
    fn found(&self, stored: &StoredTensor, layer: Option<usize>) -> Option<(&'_ str, bool)> {
        let name = self.evidence.stored(self.spec, &stored.role, layer)?;
        let dims = self.evidence.tensors().get(name).map_or(&[][..], Vec::as_slice);
        let fits = |(at, wanted): (usize, &menagerie_spec::kind::Dim)| {
            wanted.size.is_none_or(|size| size == dims.get(at).copied().unwrap_or(1))
        };
        Some((name, stored.dims.iter().enumerate().all(fits)))
    }

    fn claim(&mut self, stored: &StoredTensor, layer: Option<usize>) {
        match self.found(stored, layer) {
            Some((name, fits)) => {
                let name = name.to_owned();
                if !fits {
                    self.missing.insert(without_layer(&name));
                }
                self.claimed.insert(name);
            }
            None if stored.rule == BiasRule::Required => {
                let name = self.spec.role_to_gguf_name(&stored.role, layer);
                self.missing.insert(without_layer(&name));
            }
            None => {}
        }
    }
}
