//! Experts of a mixture: the feed-forwards of another model, or the model's own with an adapter.

use super::MixtureBase;
use crate::adapters::{MixtureRoles, with_target};
use crate::error::LoadError;
use crate::fitting::check_fits;
use crate::in_memory::InMemory;
use crate::memory;
use crate::memory::MemoryEstimate;
use crate::mixture_option::ExpertOption;
use crate::quantization::quantized;
use crate::recipe::is_recipe;
use crate::resolved::ResolvedFile;
use menagerie_adapters::{AdapterFile, fit, fit_stage};
use menagerie_assembly::{AssembleOptions, Claim, TensorEntry, assemble_feed_forwards, open_model};
use menagerie_entries::{nearest, nearest_clause};
use menagerie_model::{AdaptedFeedForward, AdapterSet, AdapterSites, FeedForward, WeightGuard};
use menagerie_registry::{Components, TensorPart};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Assembles experts for some layers of a model.
pub(super) struct ExpertLoader<'a> {
    pub(super) base: MixtureBase<'a>,
    pub(super) layers: &'a [usize],
    pub(super) scope: ExpertScope,
    pub(super) roles: &'a MixtureRoles,
    pub(super) components: &'a Components,
}

/// What experts are assembled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpertScope {
    /// A model in this process.
    Whole,
    /// A stage: without a mapping only the tensors of the stage are read.
    #[cfg_attr(not(unix), expect(dead_code, reason = "stages in processes need Unix sockets"))]
    Stage,
}

/// An assembled expert.
pub(super) struct LoadedExpert {
    /// By layer.
    pub(super) parts: BTreeMap<usize, Arc<dyn FeedForward>>,
    /// Bytes of its weights besides those of the model itself.
    pub(super) bytes: u64,
    /// Fails once its file has changed since it was opened.
    pub(super) guard: Option<WeightGuard>,
}

impl ExpertLoader<'_> {
    pub(super) fn load(&self, expert: &ExpertOption) -> Result<LoadedExpert, LoadError> {
        match expert {
            ExpertOption::Model(path) => self.of_model(path),
            ExpertOption::Adapter { path, modules } => self.of_adapter(path, modules.as_deref()),
        }
    }

    /// The feed-forwards of another model.
    fn of_model(&self, path: &Path) -> Result<LoadedExpert, LoadError> {
        let MixtureBase { resolved: base, request, compute } = self.base;
        let (environment, options) = (&base.environment, &request.options);
        if is_recipe(path) {
            let reason =
                "it is a recipe; an expert is a model's file or folder, or an adapter (`adapter = ..`)";
            return Err(fault(path, reason.to_owned()));
        }
        let reads_parts = !options.weights.mmap && self.scope == ExpertScope::Stage;
        let file = open_model(path, environment.entries(), options.weights.mmap || reads_parts)?;
        let mut resolved = ResolvedFile::new(file, environment, options.keys.clone())?;
        self.compare(&resolved)?;
        quantized(&mut resolved, request)?;
        if reads_parts {
            resolved.tensors = Arc::new(InMemory(Arc::clone(&resolved.tensors)));
        }
        self.expect_room(&resolved)?;
        let how = AssembleOptions::whole(compute, self.components);
        let made = assemble_feed_forwards(resolved.config(), &*resolved.tensors, &how, self.layers);
        let made = made.map_err(LoadError::Tensors)?;
        let mut guard = Some(resolved.file.guard());
        if reads_parts && let Some(guard) = guard.take() {
            // The weights are in memory, so only changes of the file before this check matter.
            guard().map_err(|error| fault(path, error.to_string()))?;
        }
        self.compare_sizes(&resolved, &made.claims)?;
        let parts = made.parts.into_iter().map(|(layer, part)| (layer, Arc::from(part))).collect();
        let bytes = |claim: &Claim| claim.tensor.bytes.max(claim.tensor.bytes_taken(compute));
        let bytes = made.claims.iter().map(bytes).sum();
        Ok(LoadedExpert { parts, bytes, guard })
    }

    /// Weights that do not stay in their file must fit into memory before they are loaded.
    fn expect_room(&self, part: &ResolvedFile) -> Result<(), LoadError> {
        let MixtureBase { request, compute, .. } = self.base;
        let weights = &request.options.weights;
        let made = weights.quantization.is_some() || !weights.mmap;
        let entry = |(role, layer): (&str, usize)| {
            let index = part.tensors.find(role, Some(layer), TensorPart::Main)?;
            part.tensors.entries().get(index)
        };
        let bytes = |entry: &TensorEntry| match entry.bytes_taken(compute) {
            0 if made => entry.bytes,
            taken => taken,
        };
        let own = self.roles.iter().filter(|(_, layer)| self.layers.contains(layer));
        let weights = own.filter_map(entry).map(bytes).sum();
        let free = memory::free(request.options.context.memory_limit, compute);
        let estimate = MemoryEstimate { weights, available: free, ..MemoryEstimate::default() };
        check_fits(&part.file_name(), estimate, 0)
    }

    /// The model's own feed-forwards with an adapter.
    fn of_adapter(&self, path: &Path, modules: Option<&[String]>) -> Result<LoadedExpert, LoadError> {
        let MixtureBase { resolved, compute, .. } = self.base;
        let mut file = AdapterFile::open(path)?;
        self.keep(&mut file, modules)?;
        let sites = AdapterSites::default();
        let how = AssembleOptions::whole(compute, self.components).with_wrapper(&sites);
        let made = assemble_feed_forwards(resolved.config(), &*resolved.tensors, &how, self.layers);
        let made = made.map_err(LoadError::Tensors)?;
        let sites = sites.into_sites();
        let adapter = with_target(&sites, resolved, compute, |target| match self.scope {
            ExpertScope::Whole => fit(&file, &file.name(), target),
            ExpertScope::Stage => fit_stage(&file, &file.name(), target),
        })?;
        let set = AdapterSet::new(vec![(Arc::new(adapter), 1.0)], &*compute.backend);
        let set = Arc::new(set.map_err(|error| fault(path, error.to_string()))?);
        let adapted = |(layer, part)| {
            let part: Arc<dyn FeedForward> = Arc::new(AdaptedFeedForward::new(part, Arc::clone(&set)));
            (layer, part)
        };
        // A device that copies weights has copied those of the model a second time.
        let copied: u64 = made.claims.iter().map(|claim| claim.tensor.bytes_taken(compute)).sum();
        let bytes = copied.saturating_add(file.parameters().saturating_mul(4));
        Ok(LoadedExpert { parts: made.parts.into_iter().map(adapted).collect(), bytes, guard: None })
    }

    /// Keeps the modules of an adapter that are in the mixture's layers. Without `modules` all must be there.
    fn keep(&self, file: &mut AdapterFile, modules: Option<&[String]>) -> Result<(), LoadError> {
        let spec = &self.base.resolved.spec;
        let path = file.path.clone();
        let Some(modules) = modules else {
            let outside =
                file.modules.iter().find(|module| self.roles.layer_of(file, module, spec).is_none());
            return match outside {
                None => Ok(()),
                Some(module) => Err(fault(
                    &path,
                    format!(
                        "module \"{}\" is not a feed-forward of the mixture's layers; name the modules that the expert uses \
                         (modules = {:?}), and the others are left out",
                        module.name,
                        self.names_inside(file)
                    ),
                )),
            };
        };
        let names: Vec<String> = file.modules.iter().map(|module| last(&module.name).to_owned()).collect();
        if let Some(unknown) = modules.iter().find(|name| !names.contains(name)) {
            let near = nearest_clause(nearest(unknown, names.iter().map(String::as_str)));
            return Err(fault(&path, format!("it has no module \"{unknown}\"{near}")));
        }
        let kept = std::mem::take(&mut file.modules);
        let kept = kept.into_iter().filter(|module| {
            modules.iter().any(|name| name == last(&module.name))
                && self.roles.layer_of(file, module, spec).is_some()
        });
        let kept: Vec<_> = kept.collect();
        file.modules = kept;
        match file.modules.is_empty() {
            false => Ok(()),
            true => Err(fault(
                &path,
                format!(
                    "none of its modules {} is a feed-forward of the mixture's layers",
                    modules.join(", ")
                ),
            )),
        }
    }

    /// The names of the modules that can be used, for messages.
    fn names_inside(&self, file: &AdapterFile) -> Vec<String> {
        let spec = &self.base.resolved.spec;
        let inside = file.modules.iter().filter(|module| self.roles.layer_of(file, module, spec).is_some());
        let names: BTreeSet<String> = inside.map(|module| last(&module.name).to_owned()).collect();
        names.into_iter().collect()
    }

    /// The other model must have the same architecture and the same sizes.
    fn compare(&self, part: &ResolvedFile) -> Result<(), LoadError> {
        let (own, other) = (self.base.resolved.config(), part.config());
        let base = self.base.resolved.file_name();
        let differs = |what: &str, own: &str, other: &str| {
            let reason = format!(
                "its {what} is {other}, and that of {base} is {own}: experts come from models of one architecture and size \
                 (fine-tunes of the same base)"
            );
            Err(fault(Path::new(&part.file_name()), reason))
        };
        if own.architecture != other.architecture {
            return differs("architecture", &own.architecture, &other.architecture);
        }
        let numbers = [
            ("width", own.embedding_length, other.embedding_length),
            ("number of layers", own.layers.len(), other.layers.len()),
            ("vocabulary", vocabulary(self.base.resolved), vocabulary(part)),
        ];
        if let Some((what, own, other)) = numbers.into_iter().find(|(_, own, other)| own != other) {
            return differs(what, &own.to_string(), &other.to_string());
        }
        for &layer in self.layers {
            let of = |config: &menagerie_spec::ModelConfig| {
                config.layers.get(layer).and_then(|layer| layer.feed_forward.clone())
            };
            let (own, other) = (of(own), of(other));
            if own != other {
                let shown = |part| serde_json::to_string(&part).unwrap_or_default();
                return differs(&format!("feed-forward of layer {layer}"), &shown(own), &shown(other));
            }
        }
        Ok(())
    }

    /// The tensors of the other model must have the sizes of the model's own.
    fn compare_sizes(&self, part: &ResolvedFile, claims: &[Claim]) -> Result<(), LoadError> {
        let base = &self.base.resolved.tensors;
        for claim in claims {
            let Some(index) = base.find(&claim.role, claim.layer, TensorPart::Main) else { continue };
            let Some(own) = base.entries().get(index).filter(|own| own.dims != claim.tensor.dims) else {
                continue;
            };
            let reason = format!(
                "tensor \"{}\" is {:?}, and that of {} is {:?}: experts are of one size",
                claim.tensor.name,
                claim.tensor.dims,
                self.base.resolved.file_name(),
                own.dims
            );
            return Err(fault(Path::new(&part.file_name()), reason));
        }
        Ok(())
    }
}

/// The last part of a module's name.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The number of rows of a model's embedding.
fn vocabulary(resolved: &ResolvedFile) -> usize {
    let index = resolved.tensors.find("token_embd", None, TensorPart::Main);
    let entry = index.and_then(|index| resolved.tensors.entries().get(index));
    entry.and_then(|entry| entry.dims.get(1)).map_or(0, |rows| *rows as usize)
}

fn fault(path: &Path, reason: String) -> LoadError {
    LoadError::Mixture { file: path.display().to_string(), reason }
}
