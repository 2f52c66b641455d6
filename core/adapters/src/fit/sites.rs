//! [`module_sites`] and [`stage_sites`]: the sites that the modules of a file change.

use super::{AdapterFit, FitTarget};
use crate::error::AdapterError;
use crate::file::AdapterFile;
use crate::module::{AdapterModule, ModuleChange};

/// The sites that each module of a file changes. Modules that X-LoRA cannot scale row by row are refused.
pub(crate) fn module_sites(
    file: &AdapterFile,
    target: &FitTarget,
) -> Result<Vec<(String, Vec<usize>)>, AdapterError> {
    let fit = AdapterFit::new(file, target)?;
    let of = |module: &AdapterModule| Ok((module.name.clone(), fit.sites_changed(module)?));
    file.modules.iter().map(of).collect()
}

/// As [`module_sites`], for a stage: modules outside of it have no sites.
pub(crate) fn stage_sites(
    file: &AdapterFile,
    target: &FitTarget,
) -> Result<Vec<(String, Vec<usize>)>, AdapterError> {
    let fit = AdapterFit::new(file, target)?;
    let of = |module: &AdapterModule| {
        let sites = if fit.is_of_stage(module) { fit.sites_changed(module)? } else { Vec::new() };
        Ok((module.name.clone(), sites))
    };
    file.modules.iter().map(of).collect()
}

impl AdapterFit<'_> {
    fn sites_changed(&self, module: &AdapterModule) -> Result<Vec<usize>, AdapterError> {
        let refused = |what: &str| {
            Err(self.error(module, format!("X-LoRA cannot mix {what}; use plain LoRA adapters")))
        };
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
                return refused("adapters outside of the blocks (lm_head), which PEFT cannot load either");
            }
            let out = pair.b.shape.rows;
            let order = self.rows_of_layout(module, &place, out)?;
            let site_rows = self.site_rows(module, &place, order.as_ref().map_or(out, Vec::len))?;
            sites.extend(site_rows.iter().map(|site| site.site));
        }
        Ok(sites)
    }
}
