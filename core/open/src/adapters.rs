//! [`LoadedAdapters`]: the adapters of a model, which are loaded and unloaded while it runs.

mod roles;

pub(crate) use roles::MixtureRoles;

use crate::error::LoadError;
use crate::fingerprint;
use crate::options::AdapterOption;
use crate::resolved::ResolvedFile;
use menagerie_adapters::{AdapterFile, FitTarget, XLora, fit, fit_stage};
use menagerie_engine::{AdapterIdentifier, AdapterIdentity, IdentityError};
use menagerie_model::{Adapter, AdapterSet, AdapterSite, Compute, NormedExecutor, ScalingLayers, XLoraModel};
use menagerie_spec::AdapterKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// The loaded adapters of a model, by name. A generation keeps the sets with which it began, even if their adapters are
/// unloaded meanwhile.
pub struct LoadedAdapters {
    sites: Arc<[AdapterSite]>,
    /// Parts of a mixture: no adapter may act there.
    mixture: MixtureRoles,
    loaded: RwLock<BTreeMap<String, LoadedAdapter>>,
}

/// A loaded adapter.
struct LoadedAdapter {
    adapter: Arc<Adapter>,
    /// Its file or folder.
    path: PathBuf,
    /// The hash of its files, once it was needed.
    files: OnceLock<String>,
}

impl LoadedAdapters {
    /// No adapters yet, for a model with these sites.
    pub(crate) fn new(sites: Vec<AdapterSite>) -> Self {
        Self { sites: sites.into(), mixture: MixtureRoles::default(), loaded: RwLock::default() }
    }

    /// For a model with a mixture, on whose parts no adapter may act.
    pub(crate) fn beside(self, mixture: MixtureRoles) -> Self {
        Self { mixture, ..self }
    }

    /// Whether the model has a mixture.
    pub(crate) fn has_mixture(&self) -> bool {
        !self.mixture.is_empty()
    }

    /// Refuses an adapter of a feed-forward that is a mixture: it was trained for one feed-forward, not for the experts.
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

    /// The places of the model where adapters can act, in the order of their numbers.
    pub(crate) fn sites(&self) -> &Arc<[AdapterSite]> {
        &self.sites
    }

    /// Reads an adapter and fits it to the model. It replaces an adapter with the same name for generations that begin
    /// later.
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
        self.put(Arc::clone(&adapter), file.path);
        Ok(adapter)
    }

    /// Fits the file of an adapter to the model.
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

    fn put(&self, adapter: Arc<Adapter>, path: PathBuf) {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.insert(adapter.name().to_owned(), LoadedAdapter { adapter, path, files: OnceLock::new() });
    }

    /// The identity of a loaded adapter with a weight.
    fn identity(&self, adapter: &Arc<Adapter>, weight: f32) -> Result<AdapterIdentity, IdentityError> {
        let loaded = self.read();
        let name = adapter.name().to_owned();
        let found = loaded.values().find(|one| Arc::ptr_eq(&one.adapter, adapter));
        let found = found.ok_or_else(|| IdentityError::Unnamed(format!("adapter \"{name}\"")))?;
        let files = match found.files.get() {
            Some(files) => files.clone(),
            None => {
                let files = fingerprint::of_files([&found.path]).map_err(fingerprint::unreadable)?;
                found.files.get_or_init(|| files).clone()
            }
        };
        Ok(AdapterIdentity { name, files, weight })
    }

    /// Unloads an adapter; returns whether it was loaded. Generations that use it keep it.
    pub fn unload(&self, name: &str) -> bool {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }

    /// The names of the loaded adapters.
    pub fn names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// The adapter with a name.
    fn get(&self, name: &str) -> Option<Arc<Adapter>> {
        self.read().get(name).map(|one| Arc::clone(&one.adapter))
    }

    /// Adapters that act together, each with its weight (1 = as trained).
    ///
    /// # Errors
    /// A name that is not loaded; adapters that cannot act together.
    pub(crate) fn set(
        &self,
        members: &[(&str, f32)],
        compute: &Compute,
    ) -> Result<Arc<AdapterSet>, LoadError> {
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

impl AdapterIdentifier for LoadedAdapters {
    fn identities(&self, set: &AdapterSet) -> Result<Vec<AdapterIdentity>, IdentityError> {
        set.adapters().map(|(adapter, weight)| self.identity(adapter, weight)).collect()
    }
}

/// Calls `use_it` with the model to which adapters are fitted.
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

/// The LoRA adapters with which a model is opened, each with name and weight, before they are fitted to the model.
pub(crate) struct AdapterFiles(Vec<(String, AdapterFile, f32)>);

impl AdapterFiles {
    /// Reads the adapters. Each has the name of its file, with a number if the name is taken.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn read(options: &[AdapterOption]) -> Result<Self, LoadError> {
        let mut read: Vec<(String, AdapterFile, f32)> = Vec::new();
        for AdapterOption { path, weight, .. } in options.iter().filter(|one| one.kind == AdapterKind::Lora) {
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

    /// Bytes of all adapters in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, file, _)| file.memory_bytes()).sum()
    }

    /// Fits the adapters to a stage of the model, which has these sites.
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

    /// Fits the adapters to the model and returns the set of all; `None` if there are none.
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
            adapters.put(adapter, file.path.clone());
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

/// The adapters of an X-LoRA for a stage of a model, which has these sites; and by site the layer of its weights.
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
