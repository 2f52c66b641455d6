//! [`Layers`]: the numbers that modules with adapters have for a classifier.

use super::XLora;
use crate::error::{AdapterError, about, of_module};
use crate::file::AdapterFormat;
use crate::fit::{FitTarget, module_sites, stage_sites};
use crate::place::places;
use std::collections::BTreeMap;

/// Numbers of layers by site.
pub(super) struct Layers {
    /// Layers of the classifier.
    pub(super) count: usize,
    /// By number of the site.
    pub(super) by_site: Vec<Option<usize>>,
}

/// Which modules a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modules {
    /// All that are changed.
    OfAll,
    /// Those of a stage; the others have numbers and no sites.
    OfStage,
}

/// Where a module comes in the order in which HF registers modules: 0 is the embedding, `n + 1` block `n`; then the place within it.
type Rank = (usize, usize);

/// The table of tokens, which every class registers before its blocks.
const EMBEDDING: &str = "token_embd";

impl Layers {
    /// The modules that any adapter changes, numbered in the order of HF's modules, or as a file says.
    pub(super) fn of(xlora: &XLora, target: &FitTarget, which: Modules) -> Result<Self, AdapterError> {
        let mut modules: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for file in &xlora.adapters {
            if file.format != AdapterFormat::Peft {
                return Err(about(
                    &file.name(),
                    "an X-LoRA mixes PEFT adapters: its layers are modules of HF",
                ));
            }
            let found = match which {
                Modules::OfAll => module_sites(file, target)?,
                Modules::OfStage => stage_sites(file, target)?,
            };
            for (module, sites) in found {
                modules.entry(module).or_default().extend(sites);
            }
        }
        let numbers = match &xlora.ordering {
            Some(ordering) => {
                if let Some(module) = modules.keys().find(|module| !ordering.layers.contains_key(*module)) {
                    let reason = "an adapter changes it, and the ordering has no number for it";
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
            "in which order {} models register {} is not known: its spec says nothing of it under [adapter] order; put an \
             ordering.json beside {}, or the role into the spec",
            target.spec.id(),
            roles.join(", "),
            xlora.name()
        ))
    })
}
