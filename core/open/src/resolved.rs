//! [`ResolvedFile`]: a file, the spec of its architecture, and the model that the spec describes for the file. No tensor is
//! read.

use crate::error::LoadError;
use crate::keys::KeyOptions;
use crate::notice::Notice;
use menagerie_assembly::{AssembleOptions, Assembly, ModelFile, ModelTensors, StagePlan, assemble};
use menagerie_model::{AdapterSite, AdapterSites, ExpertLinear, Linear, LinearSite, LinearWrapper, Table};
use menagerie_registry::{
    ArchitectureEntry, Environment, GGUFArchitecture, Origin, RegistryError, TensorPart,
};
use menagerie_spec::{ArchSpec, ModelConfig, Resolution, ResolveInput, SourceFormat};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A file with the spec of its architecture.
#[derive(Clone)]
pub struct ResolvedFile {
    /// The file.
    pub file: Arc<dyn ModelFile>,
    /// Its tensors, by the roles of the spec.
    pub tensors: Arc<dyn ModelTensors>,
    /// The environment in which the spec was found; the model is assembled from its kinds.
    pub environment: Environment,
    /// Where the spec comes from.
    pub origin: Origin,
    /// The spec that it replaces, if any.
    pub shadows: Option<Origin>,
    /// Notes of the environment: files that are not used, folders that cannot be read.
    pub notes: Vec<String>,
    /// The spec.
    pub spec: Arc<ArchSpec>,
    /// The spec resolved against the file.
    pub resolution: Resolution,
    /// Notices of what loading changed.
    pub loading: Vec<Notice>,
    /// Files that change what the model computes: an X-LoRA, the experts and the gate of a mixture, an importance matrix.
    /// LoRA adapters are left out, because they are loaded and unloaded while the model is open.
    pub beside: Vec<PathBuf>,
}

/// What was assembled of a model.
pub(crate) enum Assemblies {
    /// The model in one piece.
    Whole(Assembly),
    /// Its stages, and perhaps the whole model for a comparison.
    Split {
        /// In order; empty if they run in other processes.
        stages: Vec<Assembly>,
        /// The whole model.
        whole: Option<Assembly>,
    },
}

impl Assemblies {
    /// The stages of a plan, on whose linears adapters can act, with the sites of all stages; and the whole model, if it is
    /// requested.
    pub(crate) fn split(
        resolved: &ResolvedFile,
        options: &AssembleOptions,
        plan: &StagePlan,
        with_whole: bool,
    ) -> Result<(Self, Vec<AdapterSite>), LoadError> {
        let sites = AdapterSites::default();
        let wrapper = NestedWrapper { inner: options.wrapper, outer: &sites };
        let adaptable = options.clone().with_wrapper(&wrapper);
        let stages = plan.assemble(resolved.config(), &*resolved.tensors, &adaptable);
        let stages = stages.map_err(LoadError::Tensors)?;
        let whole = with_whole.then(|| resolved.assemble_adaptable(options)).transpose()?;
        let sites = sites.into_sites();
        // Adapters name sites by number, so the numbers must be the same in both.
        let whole = whole.and_then(|(whole, same)| (same == sites).then_some(whole));
        Ok((Self::Split { stages, whole }, sites))
    }

    /// Whether every tensor that is used has the type F32 in `tensors`. With `--quant`, stages in other processes have
    /// other types than the whole model here.
    ///
    /// A head for further tokens, whose block comes after the `blocks` of the model, does not count: it only guesses.
    pub(crate) fn is_f32(&self, tensors: &dyn ModelTensors, blocks: usize) -> bool {
        let others = tensors.entries().iter().filter(|tensor| tensor.kind != "F32");
        let others: HashSet<&str> = others.map(|tensor| tensor.name.as_str()).collect();
        let is_f32 = |assembly: &Assembly| {
            let own = assembly.claims.iter().filter(|claim| claim.layer.is_none_or(|layer| layer < blocks));
            own.into_iter().all(|claim| !others.contains(claim.tensor.name.as_str()))
        };
        match self {
            Self::Whole(assembly) => is_f32(assembly),
            Self::Split { stages, whole } => stages.iter().chain(whole).all(is_f32),
        }
    }
}

impl ResolvedFile {
    /// Looks up the architecture of `file` and resolves its spec against the file.
    ///
    /// # Errors
    /// An unknown architecture (with the nearest names) or an invalid one; all faults of the file under its spec.
    pub fn new(
        file: Arc<dyn ModelFile>,
        environment: &Environment,
        options: KeyOptions,
    ) -> Result<Self, LoadError> {
        let architecture = file.architecture()?.to_owned();
        let unusable = |source| LoadError::Architecture { file: file.file(), source };
        if file.format() == SourceFormat::Gguf {
            let name = GGUFArchitecture::new(&architecture).map_err(unusable)?;
            let found = environment.resolve(&name).map_err(unusable)?;
            return Self::under(file, environment, found, options);
        }
        let found = environment.of_class(&architecture).map_err(unusable)?;
        let (mut fitting, mut fault) = (Vec::new(), None);
        for found in found {
            match Self::under(Arc::clone(&file), environment, found, options.clone()) {
                Ok(resolved) => fitting.push(resolved),
                Err(error) => drop(fault.get_or_insert(error)),
            }
        }
        let ids: Vec<String> = fitting.iter().map(|resolved| resolved.spec.id().to_owned()).collect();
        match (fitting.pop(), fault) {
            (Some(only), _) if fitting.is_empty() => Ok(only),
            (None, Some(fault)) => Err(fault),
            _ => Err(unusable(RegistryError::ClassOfSeveral { name: architecture, ids })),
        }
    }

    /// Resolves one spec against the file.
    fn under(
        file: Arc<dyn ModelFile>,
        environment: &Environment,
        (entry, spec): (&ArchitectureEntry, Arc<ArchSpec>),
        options: KeyOptions,
    ) -> Result<Self, LoadError> {
        let architecture = file.architecture()?;
        let notes = entry.notes().into_iter().chain(environment.notes().iter().cloned()).collect();
        let ArchitectureEntry { origin, shadows, .. } = entry.clone();
        let tensors = file.tensors(Arc::clone(&spec))?;
        let keys = file.keys(&spec)?;
        let mut input = ResolveInput::new(file.format(), file.file(), architecture, &*keys, &*tensors);
        let KeyOptions { accept_unread, set, nextn } = options;
        (input.accept_unread, input.overrides, input.nextn) = (accept_unread, set, nextn);
        let resolution = spec.resolve_report(&input).map_err(LoadError::Spec)?;
        Ok(Self {
            file,
            tensors,
            environment: environment.clone(),
            origin,
            shadows,
            notes,
            spec,
            resolution,
            loading: Vec::new(),
            beside: Vec::new(),
        })
    }

    /// The resolved model.
    pub fn config(&self) -> &ModelConfig {
        &self.resolution.config
    }

    /// The number of learned positions of the embedding, if it has them: the longest context of the model.
    pub(crate) fn learned_positions(&self) -> Option<usize> {
        let role = self.config().embedding.positions.as_ref()?;
        let index = self.tensors.find(role, None, TensorPart::Main)?;
        // [D, positions], fastest first.
        let rows = self.tensors.entries().get(index)?.dims.get(1)?;
        usize::try_from(*rows).ok()
    }

    /// Path of the file, for messages.
    pub fn file_name(&self) -> String {
        self.file.file()
    }

    /// The model's name: as the file states it, else the file's.
    pub(crate) fn name(&self) -> String {
        let stem = self.file.paths().first().and_then(|path| path.file_stem());
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        self.file.name().map(str::to_owned).or(stem).unwrap_or_else(|| "the model".to_owned())
    }

    /// Assembles the model over the weights of the file.
    ///
    /// # Errors
    /// [`LoadError::Tensors`] with all faults at once.
    pub fn assemble(&self, options: &AssembleOptions) -> Result<Assembly, LoadError> {
        assemble(self.config(), &*self.tensors, options).map_err(LoadError::Tensors)
    }

    /// [`Self::assemble`] with every linear wrapped so that adapters can act there, and the sites in the order of their
    /// numbers. The wrapper of the options is between a linear and its adapters.
    ///
    /// # Errors
    /// As [`Self::assemble`].
    pub(crate) fn assemble_adaptable(
        &self,
        options: &AssembleOptions,
    ) -> Result<(Assembly, Vec<AdapterSite>), LoadError> {
        let sites = AdapterSites::default();
        let wrapper = NestedWrapper { inner: options.wrapper, outer: &sites };
        let made = self.assemble(&options.clone().with_wrapper(&wrapper))?;
        Ok((made, sites.into_sites()))
    }

    /// What every load of the file reports.
    pub fn notices(&self) -> Vec<Notice> {
        let id = self.spec.id().to_owned();
        let dropped_in = match (&self.shadows, &self.origin) {
            (Some(replaced), used) => {
                Some(Notice::Shadowed { id, used: used.to_string(), replaced: replaced.noun() })
            }
            (None, origin @ Origin::File { .. }) => {
                Some(Notice::DroppedIn { id, origin: origin.to_string() })
            }
            (None, Origin::BuiltIn(_) | Origin::Plugin(_)) => None,
        };
        let warnings = self.notes.iter().chain(&self.resolution.warnings).cloned().map(Notice::Note);
        dropped_in.into_iter().chain(warnings).chain(self.loading.iter().cloned()).collect()
    }
}

/// A wrapper around another one, if there is another one.
struct NestedWrapper<'a> {
    inner: Option<&'a dyn LinearWrapper>,
    outer: &'a dyn LinearWrapper,
}

impl LinearWrapper for NestedWrapper<'_> {
    fn linear(&self, site: &LinearSite, linear: Box<dyn Linear>) -> Box<dyn Linear> {
        let linear = match self.inner {
            Some(inner) => inner.linear(site, linear),
            None => linear,
        };
        self.outer.linear(site, linear)
    }

    fn experts(&self, site: &LinearSite, experts: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear> {
        let experts = match self.inner {
            Some(inner) => inner.experts(site, experts),
            None => experts,
        };
        self.outer.experts(site, experts)
    }

    fn table(&self, site: &LinearSite, table: Box<dyn Table>) -> Box<dyn Table> {
        let table = match self.inner {
            Some(inner) => inner.table(site, table),
            None => table,
        };
        self.outer.table(site, table)
    }
}

impl fmt::Debug for ResolvedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.file_name(), self.spec.id())
    }
}
