//! [`LoadedAdapters`]: adapters of one model, loaded and unloaded while it runs.

mod roles;

pub(crate) use roles::MixtureRoles;

use crate::error::LoadError;
use crate::options::AdapterOption;
use crate::resolved::ResolvedFile;
use menagerie_adapters::{AdapterFile, FitTarget, XLora, fit, fit_stage};
use menagerie_model::{Adapter, AdapterSet, AdapterSite, Compute, NormedExecutor, ScalingLayers, XLoraModel};
use menagerie_spec::AdapterKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The adapters that were loaded for a model, by name. The model itself never changes: a generation keeps the sets it
/// began with, whatever is unloaded meanwhile.
pub struct LoadedAdapters {
    sites: Arc<[AdapterSite]>,
    /// Where none may act: parts of a mixture.
    mixture: MixtureRoles,
    loaded: RwLock<BTreeMap<String, LoadedAdapter>>,
}

/// An adapter that was loaded.
struct LoadedAdapter {
    adapter: Arc<Adapter>,
    /// Where it is from; absent for one that was made elsewhere.
    path: Option<PathBuf>,
}

impl LoadedAdapters {
    /// None, for a model with these sites; without sites it takes none.
    pub(crate) fn new(sites: Vec<AdapterSite>) -> Self {
        Self { sites: sites.into(), mixture: MixtureRoles::default(), loaded: RwLock::default() }
    }

    /// For a model whose feed-forwards are partly a mixture, on whose parts no adapter acts.
    pub(crate) fn beside(self, mixture: MixtureRoles) -> Self {
        Self { mixture, ..self }
    }

    /// Whether the model has a mixture.
    pub(crate) fn has_mixture(&self) -> bool {
        !self.mixture.is_empty()
    }

    /// An adapter of one feed-forward says nothing about the others beside it.
    fn check_mixture(&self, file: &AdapterFile, resolved: &ResolvedFile) -> Result<(), LoadError> {
        for module in &file.modules {
            if let Some(layer) = self.mixture.layer_of(file, module, &resolved.spec) {
                let reason = format!(
                    "module \"{}\" changes the feed-forward of layer {layer}, which is a mixture; make the adapter one of its \
                     experts ([[mixture.experts]] adapter = ..), or leave the layer out of the mixture",
                    module.name
                );
                return Err(LoadError::Mixture { file: file.name(), reason });
            }
        }
        Ok(())
    }

    /// The places of the model where adapters may act, in the order of their numbers.
    pub fn sites(&self) -> &Arc<[AdapterSite]> {
        &self.sites
    }

    /// Reads an adapter and fits it to the model; `name` replaces one of that name for generations begun from now on.
    ///
    /// # Errors
    /// What is wrong with the adapter, or does not fit the model.
    pub(crate) fn load(
        &self,
        name: &str,
        path: &Path,
        resolved: &ResolvedFile,
        compute: &Compute,
    ) -> Result<Arc<Adapter>, LoadError> {
        let file = AdapterFile::open(path)?;
        let adapter = Arc::new(self.fitted(name, &file, resolved, compute)?);
        self.put(Arc::clone(&adapter), Some(file.path));
        Ok(adapter)
    }

    /// Fits an adapter that was read to the model.
    ///
    /// # Errors
    /// What does not fit the model.
    pub(crate) fn fitted(
        &self,
        name: &str,
        file: &AdapterFile,
        resolved: &ResolvedFile,
        compute: &Compute,
    ) -> Result<Adapter, LoadError> {
        self.check_mixture(file, resolved)?;
        Ok(with_target(&self.sites, resolved, compute, |target| fit(file, name, target))?)
    }

    /// Adds an adapter that was made elsewhere under its name.
    pub fn insert(&self, adapter: Arc<Adapter>) {
        self.put(adapter, None);
    }

    fn put(&self, adapter: Arc<Adapter>, path: Option<PathBuf>) {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.insert(adapter.name().to_owned(), LoadedAdapter { adapter, path });
    }

    /// The file or folder that a loaded adapter is from.
    pub(crate) fn path_of(&self, adapter: &Arc<Adapter>) -> Option<PathBuf> {
        let loaded = self.read();
        let found = loaded.values().find(|one| Arc::ptr_eq(&one.adapter, adapter));
        found.and_then(|one| one.path.clone())
    }

    /// Forgets an adapter; whether there was one. Generations that use it keep it.
    pub fn unload(&self, name: &str) -> bool {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }

    /// Names of all that are loaded.
    pub fn names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// The adapter of a name.
    pub fn get(&self, name: &str) -> Option<Arc<Adapter>> {
        self.read().get(name).map(|one| Arc::clone(&one.adapter))
    }

    /// Adapters that act together, with their weights (1 = as trained).
    ///
    /// # Errors
    /// A name that is not loaded; adapters that cannot act together.
    pub fn set(&self, members: &[(&str, f32)], compute: &Compute) -> Result<Arc<AdapterSet>, LoadError> {
        let member = |(name, weight): &(&str, f32)| match self.get(name) {
            Some(adapter) => Ok((adapter, *weight)),
            None => {
                let known = self.names();
                let known = if known.is_empty() { "none is".to_owned() } else { known.join(", ") };
                Err(LoadError::Options(format!("adapter \"{name}\" is not loaded; loaded: {known}")))
            }
        };
        let members = members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let set = AdapterSet::new(members, &*compute.backend);
        set.map(Arc::new).map_err(|error| LoadError::Options(error.to_string()))
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, LoadedAdapter>> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows `use_it` the model that adapters are fitted to.
pub(crate) fn with_target<T>(
    sites: &[AdapterSite],
    resolved: &ResolvedFile,
    compute: &Compute,
    use_it: impl FnOnce(&FitTarget) -> T,
) -> T {
    use_it(&FitTarget {
        sites,
        spec: &resolved.spec,
        config: resolved.config(),
        format: resolved.file.format(),
        weights: &*resolved.tensors,
        compute,
    })
}

/// The LoRA adapters that a model is opened with, read and named, before they are fitted to it.
pub(crate) struct GivenFiles(Vec<(String, AdapterFile, f32)>);

impl GivenFiles {
    /// Reads them; each is called as its file, with a number where two have one name.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn read(given: &[AdapterOption]) -> Result<Self, LoadError> {
        let mut read: Vec<(String, AdapterFile, f32)> = Vec::new();
        for AdapterOption { path, weight, .. } in given.iter().filter(|one| one.kind == AdapterKind::Lora) {
            let stem = path
                .file_stem()
                .map_or_else(|| "adapter".to_owned(), |stem| stem.to_string_lossy().into_owned());
            let taken = |name: &str| read.iter().any(|(known, ..)| known == name);
            let mut names = (1..).map(|n| if n == 1 { stem.clone() } else { format!("{stem}-{n}") });
            let name = names.find(|name| !taken(name)).unwrap_or_else(|| stem.clone());
            read.push((name, AdapterFile::open(path)?, *weight));
        }
        Ok(Self(read))
    }

    /// Bytes of all of them in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, file, _)| file.memory_bytes()).sum()
    }

    /// Fits them to a stage of the model, whose sites these are; the whole model takes them.
    ///
    /// # Errors
    /// What does not fit.
    #[cfg(unix)]
    pub(crate) fn fit_stage(
        self,
        sites: &[AdapterSite],
        resolved: &ResolvedFile,
        compute: &Compute,
    ) -> Result<Vec<Arc<Adapter>>, LoadError> {
        let fitted = |(name, file, _): &(String, AdapterFile, f32)| {
            let fitted = with_target(sites, resolved, compute, |target| fit_stage(file, name, target))?;
            Ok(Arc::new(fitted))
        };
        self.0.iter().map(fitted).collect()
    }

    /// Fits them to the model, and gives the set of all; none where none was given.
    ///
    /// # Errors
    /// What does not fit the model, or cannot act together.
    pub(crate) fn fit(
        self,
        adapters: &LoadedAdapters,
        resolved: &ResolvedFile,
        compute: &Compute,
    ) -> Result<Option<Arc<AdapterSet>>, LoadError> {
        for (name, file, _) in &self.0 {
            let adapter = Arc::new(adapters.fitted(name, file, resolved, compute)?);
            adapters.put(adapter, Some(file.path.clone()));
        }
        if self.0.is_empty() {
            return Ok(None);
        }
        let named: Vec<(&str, f32)> =
            self.0.iter().map(|(name, _, weight)| (name.as_str(), *weight)).collect();
        adapters.set(&named, compute).map(Some)
    }
}

/// The model with the X-LoRA of a folder around it, and the bytes of the X-LoRA.
///
/// # Errors
/// What is wrong with the X-LoRA, or does not fit the model.
pub(crate) fn mixed(
    folder: &Path,
    model: Box<dyn NormedExecutor>,
    (resolved, sites): (&ResolvedFile, &[AdapterSite]),
    compute: &Compute,
) -> Result<(XLoraModel, u64), LoadError> {
    let xlora = XLora::open(folder)?;
    let model = with_target(sites, resolved, compute, |target| xlora.fit(model, target))?;
    Ok((model, xlora.memory_bytes()))
}

/// The adapters of an X-LoRA for a stage of a model, whose sites these are; and by site the layer of its weights.
///
/// # Errors
/// What is wrong with the X-LoRA, or does not fit the model.
#[cfg(unix)]
pub(crate) fn stage_of_xlora(
    folder: &Path,
    (resolved, sites): (&ResolvedFile, &[AdapterSite]),
    compute: &Compute,
) -> Result<(Vec<Arc<Adapter>>, ScalingLayers), LoadError> {
    let xlora = XLora::open(folder)?;
    Ok(with_target(sites, resolved, compute, |target| xlora.fit_stage(target))?)
}
