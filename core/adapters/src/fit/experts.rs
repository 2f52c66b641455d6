//! Experts: a module for each, or one parameter that holds them all.

use super::Fitting;
use crate::error::AdapterError;
use crate::file::AdapterFormat;
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use crate::place::{ModulePlace, gguf_place, in_block, places};
use crate::tensor::Tensor;
use menagerie_model::{AdapterSite, LowRank, SitePart, SiteShape, WeightShape};
use std::collections::BTreeMap;
use std::ops::Range;

/// Experts of a role in a block, by number, each with its module.
type OfRole = BTreeMap<usize, (AdapterModule, LowRankPair)>;

/// Experts that are modules of their own, until all are known.
#[derive(Debug, Default)]
pub(super) struct OfExperts(BTreeMap<(String, Option<usize>), OfRole>);

/// Rows of each expert of a module that are those of a role; all of them where there is no range.
struct RoleRows {
    role: String,
    rows: Option<Range<usize>>,
    /// How rows of the module become those of the role.
    place: ModulePlace,
}

/// Which side of the experts A meets.
#[derive(Clone, Copy)]
enum Orientation {
    /// The inputs, or the outputs where it is swapped.
    Told {
        /// Whether A meets the outputs.
        swapped: bool,
    },
    /// Either fits.
    Square,
    /// Neither fits: the sizes are refused with their names later.
    Unknown,
}

impl Fitting<'_> {
    /// Notes one expert.
    pub(super) fn one_expert(
        &mut self,
        module: &AdapterModule,
        place: &ModulePlace,
    ) -> Result<(), AdapterError> {
        let ModuleChange::Linear { pair: Some(pair), magnitude: None, bias: None } = &module.change else {
            return Err(self.error(module, "only plain LoRA can change experts"));
        };
        let Some(expert) = place.expert else { return Ok(()) };
        let of_role = self.apart.0.entry((place.role.clone(), place.layer)).or_default();
        match of_role.insert(expert, (module.clone(), pair.clone())) {
            None => Ok(()),
            Some(_) => Err(self.error(module, "a second module for the same expert")),
        }
    }

    /// Puts experts that were modules of their own into stacks; ranks may differ, and experts may be missing.
    pub(super) fn experts(&mut self) -> Result<(), AdapterError> {
        for ((role, layer), experts) in std::mem::take(&mut self.apart.0) {
            let Some((_, (first, pair))) = experts.iter().next() else { continue };
            let first = first.clone();
            let (inputs, out) = (pair.a.shape.cols, pair.b.shape.rows);
            let count = self.expert_count(&first, &role, layer)?;
            let rank = experts.values().map(|(_, pair)| pair.a.shape.rows).max().unwrap_or(0);
            let (mut a, mut b) = (vec![0.0; count * rank * inputs], vec![0.0; count * out * rank]);
            for (expert, (module, pair)) in &experts {
                if *expert >= count {
                    return Err(self.error(module, format!("the model has {count} experts")));
                }
                let own = pair.a.shape.rows;
                if pair.a.shape.cols != inputs || pair.b.shape.rows != out {
                    return Err(
                        self.error(module, "its matrices are not of the size of those of the other experts")
                    );
                }
                let (own_a, own_b) = (self.values(module, &pair.a)?, self.values(module, &pair.b)?);
                a[expert * rank * inputs..][..own * inputs].copy_from_slice(&own_a);
                // The factor goes into B: experts may differ in it.
                for (to, from) in
                    b[expert * out * rank..][..out * rank].chunks_exact_mut(rank).zip(own_b.chunks_exact(own))
                {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = from * pair.scaling);
                }
            }
            let name = format!("{}.lora", first.name);
            let pair = LowRankPair {
                a: Tensor::from_f32(&name, &a, WeightShape { count, rows: rank, cols: inputs }),
                b: Tensor::from_f32(&name, &b, WeightShape { count, rows: out, cols: rank }),
                scaling: 1.0,
            };
            let place = ModulePlace { role: role.clone(), layer, expert: None, layout: Vec::new() };
            self.stack(&first, &RoleRows { role, rows: None, place }, &pair)?;
        }
        Ok(())
    }

    /// A parameter that holds all experts.
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

    /// A pair of which A meets the inputs of the experts. PEFT reads `[E, out, in]` where a class does not say that it
    /// stores `[E, in, out]`, and before 0.18 the other way about: of classes stored turned, and of old files, A may meet
    /// the outputs. What is added to the parameter is the same.
    fn oriented(
        &self,
        module: &AdapterModule,
        parameter: &str,
        pair: &LowRankPair,
    ) -> Result<LowRankPair, AdapterError> {
        let as_it_is = || Ok(pair.clone());
        let swapped = match self.orientation(module, parameter, pair)? {
            Orientation::Told { swapped } => swapped,
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
                    Orientation::Told { swapped } => Some(swapped),
                    Orientation::Unknown | Orientation::Square => None,
                });
                told.ok_or_else(|| {
                    let reason = format!(
                        "its experts have as many inputs as outputs, and versions of PEFT differ in which of them A meets: \
                         nothing here says it; train a second parameter beside \"{parameter}\", or merge the adapter with PEFT"
                    );
                    self.error(module, reason)
                })?
            }
        };
        if !swapped {
            return as_it_is();
        }
        Ok(LowRankPair { a: pair.b.turned(), b: pair.a.turned(), scaling: pair.scaling })
    }

    /// Which side of the experts a pair's A meets, by its sizes.
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
            // llama.cpp's files have the order of the model's.
            _ if self.file.format == AdapterFormat::Gguf => Orientation::Told { swapped: false },
            Some(cols) if cols == inputs && cols == outputs => Orientation::Square,
            Some(cols) if cols == inputs => Orientation::Told { swapped: false },
            Some(cols) if cols == outputs => Orientation::Told { swapped: true },
            _ => Orientation::Unknown,
        })
    }

    /// The roles of a parameter: as the spec names it, else the usual ones of a module of experts (gate, then up).
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
                    "what its parameter \"{parameter}\" is in {} models is not known",
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

    /// Puts a stack to the sites of a role.
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
                "its experts have {} outputs for {}, and those of the model {expected}: was the adapter trained on another model?",
                rows.len(),
                part.role
            );
            return Err(self.error(module, reason));
        }
        for (site, range) in sites {
            let shape = self.target.sites[site].shape.sizes();
            if pair.a.shape.count != shape.count || pair.a.shape.cols != shape.cols {
                let reason = format!(
                    "{} experts of {} inputs, and the model has {} of {}: was the adapter trained on another model?",
                    pair.a.shape.count, pair.a.shape.cols, shape.count, shape.cols
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

    /// Sites of a stack, each with its rows of every expert; a model may hold gate and up as one.
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
            self.error(module, "the model has no experts there: was the adapter trained on another model?")
        })
    }
}
