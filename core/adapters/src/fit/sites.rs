//! [`module_sites`] and [`stage_sites`]: which sites the modules of a file change.

use super::{FitTarget, Fitting};
use crate::error::AdapterError;
use crate::file::AdapterFile;
use crate::module::{AdapterModule, ModuleChange};

/// By module of a file the sites it changes; modules that cannot be weighted row by row are refused.
pub(crate) fn module_sites(
    file: &AdapterFile,
    target: &FitTarget,
) -> Result<Vec<(String, Vec<usize>)>, AdapterError> {
    let fitting = Fitting::new(file, target)?;
    let of = |module: &AdapterModule| Ok((module.name.clone(), fitting.sites_changed(module)?));
    file.modules.iter().map(of).collect()
}

/// The same for a stage of a model that takes the whole file: modules elsewhere have no sites.
pub(crate) fn stage_sites(
    file: &AdapterFile,
    target: &FitTarget,
) -> Result<Vec<(String, Vec<usize>)>, AdapterError> {
    let fitting = Fitting::new(file, target)?;
    let of = |module: &AdapterModule| {
        let sites = if fitting.is_of_stage(module) { fitting.sites_changed(module)? } else { Vec::new() };
        Ok((module.name.clone(), sites))
    };
    file.modules.iter().map(of).collect()
}

impl Fitting<'_> {
    fn sites_changed(&self, module: &AdapterModule) -> Result<Vec<usize>, AdapterError> {
        let refused = |what: &str| Err(self.error(module, format!("X-LoRA cannot mix {what}")));
        let pair = match &module.change {
            ModuleChange::Linear { pair: Some(pair), magnitude: None, bias: None } => pair,
            ModuleChange::Linear { .. } => return refused("adapters with DoRA magnitudes or biases"),
            ModuleChange::Table(_) => {
                let places = self.places_of(module)?;
                return places.iter().map(|place| self.table_site(module, place)).collect();
            }
            ModuleChange::Parameter { .. } => return refused("adapters on experts"),
            ModuleChange::Whole { .. } => return refused("whole weights (modules_to_save)"),
        };
        let mut sites = Vec::new();
        for place in self.places_of(module)? {
            if place.expert.is_some() {
                return refused("adapters on experts");
            }
            if place.layer.is_none() {
                return refused("adapters outside the blocks (lm_head): PEFT cannot load them either");
            }
            let out = pair.b.shape.rows;
            let order = self.rows_of_layout(module, &place, out)?;
            let slots = self.slots(module, &place, order.as_ref().map_or(out, Vec::len))?;
            sites.extend(slots.iter().map(|slot| slot.site));
        }
        Ok(sites)
    }
}
