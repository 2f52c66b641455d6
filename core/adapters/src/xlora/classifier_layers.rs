//! [`ClassifierLayers`]: the numbers of modules with adapters, in the outputs of a classifier.

use super::XLora;
use crate::error::{AdapterError, about, of_module};
use crate::file::AdapterFormat;
use crate::fit::{FitTarget, module_sites, stage_sites};
use crate::module_place::places;
use std::collections::BTreeMap;

/// The number of the layer for each site.
pub(super) struct ClassifierLayers {
    /// The number of layers of the classifier.
    pub(super) count: usize,
    /// The layer of each site.
    pub(super) by_site: Vec<Option<usize>>,
}

/// The modules that a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModuleScope {
    /// All modules.
    All,
    /// Those of a stage; the others have numbers but no sites.
    Stage,
}

/// The rank of a module in the order in which Hugging Face classes register modules: 0 is the embedding, `n + 1` is block
/// `n`; then the position within the block.
type Rank = (usize, usize);

/// The token embedding, which every class registers before its blocks.
const EMBEDDING: &str = "token_embd";

impl ClassifierLayers {
    /// The modules that any adapter changes, numbered in the order of registration, or as in an ordering file.
    pub(super) fn of(xlora: &XLora, target: &FitTarget, which: ModuleScope) -> Result<Self, AdapterError> {
        let mut modules: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for file in &xlora.adapters {
            if file.format != AdapterFormat::Peft {
                return Err(about(
                    &file.name(),
                    "expected a PEFT adapter, since the layers of an X-LoRA are modules of a Hugging Face class",
                ));
            }
            let found = match which {
                ModuleScope::All => module_sites(file, target)?,
                ModuleScope::Stage => stage_sites(file, target)?,
            };
            for (module, sites) in found {
                modules.entry(module).or_default().extend(sites);
            }
        }
        let numbers = match &xlora.ordering {
            Some(ordering) => {
                if let Some(module) = modules.keys().find(|module| !ordering.layers.contains_key(*module)) {
                    let reason = "an adapter changes it, but the ordering has no number for it";
                    return Err(of_module(&ordering.file.display().to_string(), module, reason));
                }
                ordering.layers.clone()
            }
            None => numbered(xlora, modules.keys(), target)?,
        };
        let mut by_site = vec![None; target.sites.len()];
        for (module, sites) in &modules {
            for site in sites {
                by_site[*site] = numbers.get(module).copied();
            }
        }
        Ok(Self { count: numbers.len(), by_site })
    }
}

fn numbered<'m>(
    xlora: &XLora,
    modules: impl Iterator<Item = &'m String>,
    target: &FitTarget,
) -> Result<BTreeMap<String, usize>, AdapterError> {
    let mut ranked: Vec<(Rank, &String)> = Vec::new();
    for module in modules {
        ranked.push((rank(xlora, module, target)?, module));
    }
    ranked.sort();
    Ok(ranked.into_iter().enumerate().map(|(number, (_, module))| (module.clone(), number)).collect())
}

fn rank(xlora: &XLora, module: &str, target: &FitTarget) -> Result<Rank, AdapterError> {
    let order = &target.config.adapter_order;
    let error = |reason: String| of_module(&xlora.name(), module, reason);
    let places = places(target.spec, module);
    let ranks = places.iter().filter_map(|place| match place.layer {
        None => (place.role == EMBEDDING).then_some((0, 0)),
        Some(layer) => Some((layer + 1, order.iter().position(|role| *role == place.role)?)),
    });
    ranks.min().ok_or_else(|| {
        let roles: Vec<&str> = places.iter().map(|place| place.role.as_str()).collect();
        error(format!(
            "the order in which models of {} register {} is unknown, since [adapter] order of the spec does not list it; \
             put an ordering.json beside {}, or add the role to the spec",
            target.spec.id(),
            roles.join(", "),
            xlora.name()
        ))
    })
}
