//! [`ResolvedFile`]: a file, the spec of its architecture, and what the spec means for the file; no tensor is touched.

use crate::error::LoadError;
use crate::keys::KeyOptions;
use crate::notice::Notice;
use menagerie_assembly::{
    AssembleOptions, Assembly, ModelFile, ModelTensors, Purpose, StagePlan, assemble, assemble_stages,
};
use menagerie_model::{
    AdapterSite, AdapterSites, Compute, ExpertLinear, FeedForwardWrapper, Linear, LinearSite, LinearWrapper,
    SlotDeclarations, StagePosition, Table,
};
use menagerie_registry::{ArchitectureEntry, Environment, GGUFArchitecture, Origin, Part, RegistryError};
use menagerie_spec::{ArchSpec, ModelConfig, Resolution, ResolveInput, SourceFormat};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A file with the spec of its architecture.
#[derive(Clone)]
pub struct ResolvedFile {
    /// The file.
    pub file: Arc<dyn ModelFile>,
    /// Its tensors, by the roles of the spec.
    pub tensors: Arc<dyn ModelTensors>,
    /// What the spec was looked up in; the model is made of its kinds.
    pub environment: Environment,
    /// Where the spec is from.
    pub origin: Origin,
    /// What the spec replaces.
    pub shadows: Option<Origin>,
    /// Notes of the environment: files that are not used, folders that cannot be read.
    pub notes: Vec<String>,
    /// The spec.
    pub spec: Arc<ArchSpec>,
    /// What it means for this file.
    pub resolution: Resolution,
    /// What loading did that must be said.
    pub loading: Vec<Notice>,
    /// Files that change what the model computes: an X-LoRA, experts and gate of a mixture, an importance matrix. LoRA adapters
    /// are not here: they come and go.
    pub beside: Vec<PathBuf>,
}

/// What was assembled of a model.
pub(crate) enum Assemblies {
    /// All in one.
    Whole(Assembly),
    /// Its stages, and perhaps the whole to compare with.
    Split {
        /// In order; none where they are in processes of their own.
        stages: Vec<Assembly>,
        /// The whole model.
        whole: Option<Assembly>,
    },
}

impl Assemblies {
    /// Whether every tensor that was taken is F32, as these tensors have it: stages in processes have other types with
    /// `--quant` than those that the whole is known by here.
    pub(crate) fn is_f32(&self, tensors: &dyn ModelTensors) -> bool {
        let others = tensors.entries().iter().filter(|tensor| tensor.kind != "F32");
        let others: HashSet<&str> = others.map(|tensor| tensor.name.as_str()).collect();
        let is_f32 = |assembly: &Assembly| {
            assembly.claims.iter().all(|claim| !others.contains(claim.tensor.name.as_str()))
        };
        match self {
            Self::Whole(assembly) => is_f32(assembly),
            Self::Split { stages, whole } => stages.iter().chain(whole).all(is_f32),
        }
    }
}

/// What is put around the parts of a model when it is assembled.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wrappers<'a> {
    /// Around every linear.
    pub(crate) linears: Option<&'a dyn LinearWrapper>,
    /// Around feed-forwards.
    pub(crate) feed_forwards: Option<&'a dyn FeedForwardWrapper>,
}

impl ResolvedFile {
    /// Looks up the architecture of `file` and resolves its spec against the file.
    ///
    /// # Errors
    /// An architecture that is not known (nearest ones named) or faulty; all faults of the file under its spec.
    pub fn new(
        file: Arc<dyn ModelFile>,
        environment: &Environment,
        said: KeyOptions,
    ) -> Result<Self, LoadError> {
        let architecture = file.architecture()?.to_owned();
        let unusable = |source| LoadError::Architecture { file: file.file(), source };
        if file.format() == SourceFormat::Gguf {
            let name = GGUFArchitecture::new(&architecture).map_err(unusable)?;
            let found = environment.resolve(&name).map_err(unusable)?;
            return Self::under(file, environment, found, said);
        }
        let found = environment.of_class(&architecture).map_err(unusable)?;
        let (mut fitting, mut fault) = (Vec::new(), None);
        for found in found {
            match Self::under(Arc::clone(&file), environment, found, said.clone()) {
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
        said: KeyOptions,
    ) -> Result<Self, LoadError> {
        let architecture = file.architecture()?;
        let notes = entry.notes().into_iter().chain(environment.notes().iter().cloned()).collect();
        let ArchitectureEntry { origin, shadows, .. } = entry.clone();
        let tensors = file.tensors(Arc::clone(&spec))?;
        let keys = file.keys(&spec)?;
        let mut input = ResolveInput::new(file.format(), file.file(), architecture, &*keys, &*tensors);
        let KeyOptions { accept_unread, set } = said;
        (input.accept_unread, input.overrides) = (accept_unread, set);
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

    /// Learned positions of the embedding, if it has them: the model takes no more tokens.
    pub fn learned_positions(&self) -> Option<usize> {
        let role = self.config().embedding.positions.as_ref()?;
        let index = self.tensors.find(role, None, Part::Main)?;
        // [D, positions], fastest first.
        let rows = self.tensors.entries().get(index)?.dims.get(1)?;
        usize::try_from(*rows).ok()
    }

    /// Path of the file, for messages.
    pub fn file_name(&self) -> String {
        self.file.file()
    }

    /// The model's name: as the file states it, else the file's.
    pub fn name(&self) -> String {
        let stem = self.file.paths().first().and_then(|path| path.file_stem());
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        self.file.name().map(str::to_owned).or(stem).unwrap_or_else(|| "the model".to_owned())
    }

    /// The whole model over the file's bytes.
    ///
    /// # Errors
    /// [`LoadError::Tensors`] with all faults at once.
    pub fn assemble(&self, compute: &Compute) -> Result<Assembly, LoadError> {
        self.assemble_for(compute, Purpose::AsWritten)
    }

    /// [`Self::assemble`] for a purpose: without the head where vectors are wanted.
    ///
    /// # Errors
    /// As [`Self::assemble`].
    pub fn assemble_for(&self, compute: &Compute, purpose: Purpose) -> Result<Assembly, LoadError> {
        self.assemble_around(compute, purpose, Wrappers::default())
    }

    /// The whole model with every linear wrapped so that adapters may act there, and its sites in the order of their
    /// numbers; `inside` is put between a linear and its adapters.
    ///
    /// # Errors
    /// As [`Self::assemble`].
    pub fn assemble_adaptable(
        &self,
        compute: &Compute,
        inside: Option<&dyn LinearWrapper>,
    ) -> Result<(Assembly, Vec<AdapterSite>), LoadError> {
        self.assemble_with_sites(compute, Wrappers { linears: inside, feed_forwards: None })
    }

    /// [`Self::assemble_adaptable`] with something around feed-forwards too.
    pub(crate) fn assemble_with_sites(
        &self,
        compute: &Compute,
        around: Wrappers,
    ) -> Result<(Assembly, Vec<AdapterSite>), LoadError> {
        let sites = AdapterSites::default();
        let both = around.linears.map(|inside| Wrapped { inside, outside: &sites });
        let wrapper: &dyn LinearWrapper = both.as_ref().map_or(&sites, |both| both);
        let around = Wrappers { linears: Some(wrapper), ..around };
        let assembly = self.assemble_around(compute, Purpose::AsWritten, around)?;
        Ok((assembly, sites.into_sites()))
    }

    /// The stages of a plan, adaptable like [`Self::assemble_with_sites`], with the sites of all of them; and the whole model
    /// beside them where it is wanted.
    pub(crate) fn assemble_split(
        &self,
        compute: &Compute,
        around: Wrappers,
        plan: &StagePlan,
        with_whole: bool,
    ) -> Result<(Assemblies, Vec<AdapterSite>), LoadError> {
        let sites = AdapterSites::default();
        let both = around.linears.map(|inside| Wrapped { inside, outside: &sites });
        let wrapper: &dyn LinearWrapper = both.as_ref().map_or(&sites, |both| both);
        let mut how = AssembleOptions::whole(compute, self.environment.components());
        (how.wrapper, how.feed_forwards) = (Some(wrapper), around.feed_forwards);
        let stages = assemble_stages(self.config(), &*self.tensors, &how, plan);
        let stages = stages.map_err(LoadError::Tensors)?;
        let whole = with_whole.then(|| self.assemble_with_sites(compute, around)).transpose()?;
        let sites = sites.into_sites();
        // Adapters name sites by number, which must be the same in both.
        let whole = whole.and_then(|(whole, same)| (same == sites).then_some(whole));
        Ok((Assemblies::Split { stages, whole }, sites))
    }

    /// One stage, adaptable, after stages that declared these slots; and its sites.
    #[cfg(unix)]
    pub(crate) fn assemble_stage(
        &self,
        compute: &Compute,
        (position, layers): (StagePosition, Range<usize>),
        slots: SlotDeclarations,
        around: Wrappers,
    ) -> Result<(Assembly, Vec<AdapterSite>), LoadError> {
        let sites = AdapterSites::default();
        let components = self.environment.components();
        let mut how = AssembleOptions::whole(compute, components).stage(position, layers).after(slots);
        let wrapper: &dyn LinearWrapper = &sites;
        (how.wrapper, how.feed_forwards) = (Some(wrapper), around.feed_forwards);
        let made = assemble(self.config(), &*self.tensors, &how).map_err(LoadError::Tensors)?;
        Ok((made, sites.into_sites()))
    }

    /// [`Self::assemble_for`] with something around linears and feed-forwards.
    pub(crate) fn assemble_around(
        &self,
        compute: &Compute,
        purpose: Purpose,
        around: Wrappers,
    ) -> Result<Assembly, LoadError> {
        let mut how = AssembleOptions::whole(compute, self.environment.components()).with_purpose(purpose);
        (how.wrapper, how.feed_forwards) = (around.linears, around.feed_forwards);
        assemble(self.config(), &*self.tensors, &how).map_err(LoadError::Tensors)
    }

    /// What must be said whenever the file is loaded.
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

/// One wrapper within another.
struct Wrapped<'a> {
    inside: &'a dyn LinearWrapper,
    outside: &'a dyn LinearWrapper,
}

impl LinearWrapper for Wrapped<'_> {
    fn linear(&self, site: &LinearSite, linear: Box<dyn Linear>) -> Box<dyn Linear> {
        self.outside.linear(site, self.inside.linear(site, linear))
    }

    fn experts(&self, site: &LinearSite, experts: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear> {
        self.outside.experts(site, self.inside.experts(site, experts))
    }

    fn table(&self, site: &LinearSite, table: Box<dyn Table>) -> Box<dyn Table> {
        self.outside.table(site, self.inside.table(site, table))
    }
}

impl fmt::Debug for ResolvedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.file_name(), self.spec.id())
    }
}
