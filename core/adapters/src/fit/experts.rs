//! Experts: separate modules, or one parameter with all of them.

use super::AdapterFit;
use crate::adapter_tensor::AdapterTensor;
use crate::error::AdapterError;
use crate::file::AdapterFormat;
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use crate::module_place::{ModulePlace, gguf_place, in_block, places};
use menagerie_model::{AdapterSite, LowRank, SitePart, SiteShape, WeightShape};
use std::collections::BTreeMap;
use std::ops::Range;

/// The experts of a role in a block by number, each with its module.
type RoleExperts = BTreeMap<usize, (AdapterModule, LowRankPair)>;

/// Experts that are separate modules, until all are known.
#[derive(Debug, Default)]
pub(super) struct ExpertModules(BTreeMap<(String, Option<usize>), RoleExperts>);

/// The rows of each expert of a module that belong to a role; all rows if there is no range.
struct RoleRows {
    role: String,
    rows: Option<Range<usize>>,
    /// The layouts between the rows of the module and those of the role.
    place: ModulePlace,
}

/// The side of the experts that A belongs to.
#[derive(Clone, Copy)]
enum Orientation {
    /// The inputs, or the outputs if it is swapped.
    Known {
        /// Whether A belongs to the outputs.
        swapped: bool,
    },
    /// Both sides have the same size.
    Square,
    /// Neither side fits; the sizes are reported later.
    Unknown,
}

impl AdapterFit<'_> {
    /// Adds an expert that is a separate module.
    pub(super) fn one_expert(
        &mut self,
        module: &AdapterModule,
        place: &ModulePlace,
    ) -> Result<(), AdapterError> {
        let ModuleChange::Linear { pair: Some(pair), magnitude: None, bias: None } = &module.change else {
            return Err(self.error(
                module,
                "experts support only plain LoRA, without DoRA and biases; merge the adapter with PEFT",
            ));
        };
        let Some(expert) = place.expert else { return Ok(()) };
        let of_role = self.experts.0.entry((place.role.clone(), place.layer)).or_default();
        match of_role.insert(expert, (module.clone(), pair.clone())) {
            None => Ok(()),
            Some(_) => Err(self.error(module, "another module of the adapter is for the same expert")),
        }
    }

    /// Stacks experts that are separate modules. Ranks may differ, and experts may be missing.
    pub(super) fn stack_experts(&mut self) -> Result<(), AdapterError> {
        for ((role, layer), experts) in std::mem::take(&mut self.experts.0) {
            let Some((_, (first, pair))) = experts.iter().next() else { continue };
            let first = first.clone();
            let (inputs, out) = (pair.a.shape.cols, pair.b.shape.rows);
            let count = self.expert_count(&first, &role, layer)?;
            let rank = experts.values().map(|(_, pair)| pair.a.shape.rows).max().unwrap_or(0);
            let (mut a, mut b) = (vec![0.0; count * rank * inputs], vec![0.0; count * out * rank]);
            for (expert, (module, pair)) in &experts {
                if *expert >= count {
                    return Err(self.error(
                        module,
                        format!(
                            "the model has only {count} experts; was the adapter trained on another model?"
                        ),
                    ));
                }
                let own = pair.a.shape.rows;
                if pair.a.shape.cols != inputs || pair.b.shape.rows != out {
                    return Err(self.error(
                        module,
                        "its matrices differ in size from those of the other experts; the file is damaged",
                    ));
                }
                let (own_a, own_b) = (self.values(module, &pair.a)?, self.values(module, &pair.b)?);
                a[expert * rank * inputs..][..own * inputs].copy_from_slice(&own_a);
                // The factor is multiplied into B, since experts may have different factors.
                for (to, from) in
                    b[expert * out * rank..][..out * rank].chunks_exact_mut(rank).zip(own_b.chunks_exact(own))
                {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = from * pair.scaling);
                }
            }
            let name = format!("{}.lora", first.name);
            let pair = LowRankPair {
                a: AdapterTensor::from_f32(&name, &a, WeightShape { count, rows: rank, cols: inputs }),
                b: AdapterTensor::from_f32(&name, &b, WeightShape { count, rows: out, cols: rank }),
                scaling: 1.0,
            };
            let place = ModulePlace { role: role.clone(), layer, expert: None, layout: Vec::new() };
            self.stack(&first, &RoleRows { role, rows: None, place }, &pair)?;
        }
        Ok(())
    }

    /// A parameter with all experts.
    pub(super) fn parameter(
        &mut self,
        module: &AdapterModule,
        parameter: &str,
        pair: &LowRankPair,
    ) -> Result<(), AdapterError> {
        let pair = &self.oriented(module, parameter, pair)?;
        for part in self.parameter_roles(module, parameter, pair.b.shape.rows)? {
            self.stack(module, &part, pair)?;
        }
        Ok(())
    }

    /// A pair whose A belongs to the inputs of the experts. PEFT assumes `[E, out, in]` unless a class states that it stores
    /// `[E, in, out]`, and assumed the opposite before 0.18. So for transposed classes and old files, A may belong to the
    /// outputs. The product that is added to the parameter is the same.
    fn oriented(
        &self,
        module: &AdapterModule,
        parameter: &str,
        pair: &LowRankPair,
    ) -> Result<LowRankPair, AdapterError> {
        let as_it_is = || Ok(pair.clone());
        let swapped = match self.orientation(module, parameter, pair)? {
            Orientation::Known { swapped } => swapped,
            Orientation::Unknown => return as_it_is(),
            Orientation::Square => {
                let siblings = self.file.modules.iter().filter(|other| other.name == module.name);
                let mut told = siblings.filter_map(|other| match &other.change {
                    ModuleChange::Parameter { parameter, pair } => {
                        self.orientation(other, parameter, pair).ok()
                    }
                    _ => None,
                });
                let told = told.find_map(|found| match found {
                    Orientation::Known { swapped } => Some(swapped),
                    Orientation::Unknown | Orientation::Square => None,
                });
                told.ok_or_else(|| {
                    let reason = format!(
                        "its experts have as many inputs as outputs, so it is unknown which side A belongs to (versions \
                         of PEFT differ); train another parameter besides \"{parameter}\", or merge the adapter with \
                         PEFT"
                    );
                    self.error(module, reason)
                })?
            }
        };
        if !swapped {
            return as_it_is();
        }
        Ok(LowRankPair { a: pair.b.transposed(), b: pair.a.transposed(), scaling: pair.scaling })
    }

    /// The side of the experts that A belongs to, by its sizes.
    fn orientation(
        &self,
        module: &AdapterModule,
        parameter: &str,
        pair: &LowRankPair,
    ) -> Result<Orientation, AdapterError> {
        let (inputs, outputs) = (pair.a.shape.cols, pair.b.shape.rows);
        let roles = self.parameter_roles(module, parameter, outputs)?;
        let sites = roles.iter().flat_map(|part| self.expert_sites(&part.role, part.place.layer));
        let expected = sites.map(|(site, _)| self.target.sites[site].shape.sizes().cols).next();
        Ok(match expected {
            // Files of llama.cpp have the same order as the model.
            _ if self.file.format == AdapterFormat::Gguf => Orientation::Known { swapped: false },
            Some(cols) if cols == inputs && cols == outputs => Orientation::Square,
            Some(cols) if cols == inputs => Orientation::Known { swapped: false },
            Some(cols) if cols == outputs => Orientation::Known { swapped: true },
            _ => Orientation::Unknown,
        })
    }

    /// The roles of a parameter: by the names in the spec, else the usual ones of a module of experts (gate, then up).
    fn parameter_roles(
        &self,
        module: &AdapterModule,
        parameter: &str,
        out: usize,
    ) -> Result<Vec<RoleRows>, AdapterError> {
        let target = self.target;
        let named = match self.file.format {
            AdapterFormat::Gguf => gguf_place(target.spec, target.sites, &module.name).into_iter().collect(),
            AdapterFormat::Peft => places(target.spec, &format!("{}.{parameter}", module.name)),
        };
        if !named.is_empty() {
            let whole = |place: ModulePlace| RoleRows { role: place.role.clone(), rows: None, place };
            return Ok(named.into_iter().map(whole).collect());
        }
        let layer = in_block(target.spec, &module.name).filter(|(_, name)| name.ends_with("experts"));
        let usual: &[(&str, Option<Range<usize>>)] = match (parameter, layer.is_some()) {
            ("gate_up_proj", true) => &[("ffn_gate_exps", Some(0..1)), ("ffn_up_exps", Some(1..2))],
            ("down_proj", true) => &[("ffn_down_exps", None)],
            _ => {
                let reason = format!(
                    "the role of its parameter \"{parameter}\" in models of {} is unknown; name it in [hf.tensors] of the \
                     spec",
                    target.spec.id()
                );
                return Err(self.error(module, reason));
            }
        };
        let half = out / 2;
        let layer = layer.map(|(layer, _)| layer);
        let part = |(role, halves): &(&str, Option<Range<usize>>)| RoleRows {
            role: (*role).to_owned(),
            rows: halves.as_ref().map(|of| of.start * half..of.end * half),
            place: ModulePlace { role: (*role).to_owned(), layer, expert: None, layout: Vec::new() },
        };
        Ok(usual.iter().map(part).collect())
    }

    /// Adds a stack at the sites of a role.
    fn stack(
        &mut self,
        module: &AdapterModule,
        part: &RoleRows,
        pair: &LowRankPair,
    ) -> Result<(), AdapterError> {
        let out = pair.b.shape.rows;
        let order = self.rows_of_layout(module, &part.place, out)?;
        let rows: Vec<usize> = order.unwrap_or_else(|| (0..out).collect());
        let rows = match &part.rows {
            None => rows,
            Some(range) => rows.get(range.clone()).unwrap_or_default().to_vec(),
        };
        let sites = self.expert_sites(&part.role, part.place.layer);
        let expected = sites.iter().map(|(_, range)| range.end).max().unwrap_or(0);
        if expected != rows.len() {
            let reason = format!(
                "expected {expected} outputs of each expert for {}, found {}; was the adapter trained on another model?",
                part.role,
                rows.len()
            );
            return Err(self.error(module, reason));
        }
        for (site, range) in sites {
            let shape = self.target.sites[site].shape.sizes();
            if pair.a.shape.count != shape.count || pair.a.shape.cols != shape.cols {
                let reason = format!(
                    "expected {} experts of {} inputs, found {} of {}; was the adapter trained on another model?",
                    shape.count, shape.cols, pair.a.shape.count, pair.a.shape.cols
                );
                return Err(self.error(module, reason));
            }
            let b = pair.b.rows(&rows[range]);
            let (a, b) = (self.factor(module, &pair.a)?, self.factor(module, &b)?);
            let made = LowRank::new(a, b, pair.scaling, shape).map_err(self.failed(module))?;
            self.put(module, site, SitePart::Experts(made))?;
        }
        Ok(())
    }

    /// The sites of a stack, each with its rows of every expert. A model may have gate and up fused.
    fn expert_sites(&self, role: &str, layer: Option<usize>) -> Vec<(usize, Range<usize>)> {
        let of = |role: &str| -> Vec<(usize, &AdapterSite)> {
            let sites = self.target.sites.iter().enumerate();
            let here = |site: &AdapterSite| {
                site.place.role == role
                    && site.place.layer == layer
                    && matches!(site.shape, SiteShape::Experts(_))
            };
            sites.filter(|(_, site)| here(site)).collect()
        };
        let own = of(role);
        if !own.is_empty() {
            return own.into_iter().map(|(site, at)| (site, at.place.rows.clone())).collect();
        }
        let fused = of("ffn_gate_up_exps");
        let whole = |at: &(usize, &AdapterSite)| (at.0, 0..at.1.place.rows.len());
        match (role, fused.as_slice()) {
            ("ffn_gate_exps", [gate, _]) => vec![whole(gate)],
            ("ffn_up_exps", [_, up]) => vec![whole(up)],
            ("ffn_gate_up_exps", []) => {
                let mut start = 0;
                let parts = ["ffn_gate_exps", "ffn_up_exps"].map(of).concat();
                let next = |(site, at): (usize, &AdapterSite)| {
                    let range = start..start + at.place.rows.len();
                    start = range.end;
                    (site, range)
                };
                parts.into_iter().map(next).collect()
            }
            _ => Vec::new(),
        }
    }

    fn expert_count(
        &self,
        module: &AdapterModule,
        role: &str,
        layer: Option<usize>,
    ) -> Result<usize, AdapterError> {
        let sites = self.expert_sites(role, layer);
        let count = sites.first().map(|(site, _)| self.target.sites[*site].shape.sizes().count);
        count.ok_or_else(|| {
            self.error(module, "the model has no experts there; was the adapter trained on another model?")
        })
    }
}
