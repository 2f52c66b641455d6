//! [`LoadedAdapters`]: adapters of one model, loaded and unloaded while it runs.

use crate::load_error::LoadError;
use crate::resolve::ResolvedFile;
use menagerie_adapters::{AdapterFile, FitTarget, XLora, fit};
use menagerie_model::{Adapter, AdapterSet, AdapterSite, Compute, WholeModel, XLoraModel};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Which adapters act on a generation.
#[derive(Clone, Debug, Default)]
pub enum Adapted {
    /// Those of the engine: the ones the model was opened with, if any.
    #[default]
    AsOpened,
    /// None.
    Bare,
    /// These.
    Set(Arc<AdapterSet>),
}

/// The adapters that were loaded for a model, by name. The model itself never changes: a generation keeps the sets it
/// began with, whatever is unloaded meanwhile.
pub struct LoadedAdapters {
    sites: Arc<[AdapterSite]>,
    loaded: RwLock<BTreeMap<String, Arc<Adapter>>>,
}

impl LoadedAdapters {
    /// None, for a model with these sites; without sites it takes none.
    pub(crate) fn new(sites: Vec<AdapterSite>) -> Self {
        Self { sites: sites.into(), loaded: RwLock::default() }
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
        self.insert(Arc::clone(&adapter));
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
        Ok(with_target(&self.sites, resolved, compute, |target| fit(file, name, target))?)
    }

    /// Adds an adapter that was made elsewhere under its name.
    pub fn insert(&self, adapter: Arc<Adapter>) {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.insert(adapter.name().to_owned(), adapter);
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
        self.read().get(name).cloned()
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

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Adapter>>> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows `use_it` the model that adapters are fitted to.
fn with_target<T>(
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

/// The model with the X-LoRA of a folder around it.
///
/// # Errors
/// What is wrong with the X-LoRA, or does not fit the model.
pub(crate) fn mixed(
    folder: &Path,
    model: WholeModel,
    (resolved, sites): (&ResolvedFile, &[AdapterSite]),
    compute: &Compute,
) -> Result<XLoraModel, LoadError> {
    let xlora = XLora::open(folder)?;
    Ok(with_target(sites, resolved, compute, |target| xlora.fit(model, target))?)
}
