//! [`fit`]: from an adapter file to the adapter of one model.

mod experts;
mod linear;
mod magnitude;
mod row_order;
mod site_rows;
mod sites;

use crate::adapter_tensor::AdapterTensor;
use crate::error::{AdapterError, about, of_module};
use crate::file::{AdapterFile, AdapterFormat};
use crate::module::{AdapterModule, ModuleChange};
use crate::module_place::{ModulePlace, gguf_place, in_block, places};
use experts::ExpertModules;
use menagerie_assembly::WeightSource;
use menagerie_entries::{nearest, nearest_clause};
use menagerie_model::{
    Adapter, AdapterSite, Arithmetic, Compute, ModelError, Param, SitePart, SiteShape, Weight,
};
use menagerie_spec::{ArchSpec, ModelConfig, SourceFormat};
use row_order::RowOrder;
pub(crate) use sites::{module_sites, stage_sites};

/// The model that an adapter is applied to.
#[derive(Clone, Copy)]
pub struct FitTarget<'a> {
    /// Its sites, in the order of their numbers.
    pub sites: &'a [AdapterSite],
    /// Its spec.
    pub spec: &'a ArchSpec,
    /// Its resolved config.
    pub config: &'a ModelConfig,
    /// Its format.
    pub format: SourceFormat,
    /// Its weights, which DoRA and trained biases are compared with.
    pub weights: &'a dyn WeightSource,
    /// Where it computes.
    pub compute: &'a Compute,
}

/// The adapter of a model from a file; `name` is its name in messages.
///
/// # Errors
/// A module that the model lacks (the most similar name is given), shapes that do not fit, an error of the backend.
pub fn fit(file: &AdapterFile, name: &str, target: &FitTarget) -> Result<Adapter, AdapterError> {
    let mut fitted = AdapterFit::new(file, target)?;
    for module in &file.modules {
        fitted.module(module)?;
    }
    fitted.stack_experts()?;
    if fitted.parts.iter().all(Option::is_none) {
        return Err(about(
            &file.name(),
            "it changes nothing in this model; was it trained on another model?",
        ));
    }
    Ok(Adapter::new(name, fitted.parts))
}

/// As [`fit`], for a stage of a model: only the modules in the stage are used, which may be none.
///
/// # Errors
/// As [`fit`].
pub fn fit_stage(file: &AdapterFile, name: &str, target: &FitTarget) -> Result<Adapter, AdapterError> {
    let mut fitted = AdapterFit::new(file, target)?;
    for module in &file.modules {
        if fitted.is_of_stage(module) {
            fitted.module(module)?;
        }
    }
    fitted.stack_experts()?;
    Ok(Adapter::new(name, fitted.parts))
}

/// An adapter while it is applied to a model.
struct AdapterFit<'a> {
    file: &'a AdapterFile,
    target: &'a FitTarget<'a>,
    order: RowOrder<'a>,
    parts: Vec<Option<SitePart>>,
    /// Experts that are separate modules, until all are known.
    experts: ExpertModules,
}

impl<'a> AdapterFit<'a> {
    fn new(file: &'a AdapterFile, target: &'a FitTarget<'a>) -> Result<Self, AdapterError> {
        let FitTarget { spec, .. } = *target;
        if let Some(architecture) = &file.architecture
            && !spec.gguf_names.contains(architecture)
        {
            return Err(about(
                &file.name(),
                format!(
                    "the adapter is for architecture \"{architecture}\", but the model is \"{}\"; use an adapter of this \
                     model",
                    spec.id()
                ),
            ));
        }
        if file.format == AdapterFormat::Peft && spec.hf.tensors.is_empty() {
            let reason = format!(
                "the spec of {} has no [hf.tensors], so the names of its modules are unknown; convert the adapter with \
                 llama.cpp's convert_lora_to_gguf.py and use the GGUF adapter",
                spec.id()
            );
            return Err(about(&file.name(), reason));
        }
        let parts = target.sites.iter().map(|_| None).collect();
        let order = RowOrder::new(file.format, target);
        Ok(Self { file, target, order, parts, experts: ExpertModules::default() })
    }

    /// Adds the parts of a module at each of its sites.
    fn module(&mut self, module: &AdapterModule) -> Result<(), AdapterError> {
        if let ModuleChange::Parameter { parameter, pair } = &module.change {
            return self.parameter(module, parameter, pair);
        }
        let places = self.places_of(module)?;
        for place in &places {
            match &module.change {
                ModuleChange::Linear { .. } if place.expert.is_some() => self.one_expert(module, place)?,
                ModuleChange::Linear { .. } | ModuleChange::Whole { .. } => self.linear(module, place)?,
                ModuleChange::Table(pair) => self.table(module, place, pair)?,
                // Handled above.
                ModuleChange::Parameter { .. } => {}
            }
        }
        Ok(())
    }

    /// Whether a module belongs to the stage: to one of its layers, or to its embedding or head.
    fn is_of_stage(&self, module: &AdapterModule) -> bool {
        let FitTarget { spec, sites, .. } = *self.target;
        if let Some((layer, _)) = in_block(spec, &module.name) {
            return sites.iter().any(|site| site.place.layer == Some(layer));
        }
        let places = match self.file.format {
            AdapterFormat::Peft => places(spec, &module.name),
            AdapterFormat::Gguf => {
                let of_layer = |site: &AdapterSite| {
                    spec.role_to_gguf_name(&site.place.role, site.place.layer) == module.name
                };
                let ends = ["token_embd", "output"].into_iter();
                let end = ends.filter(|role| spec.role_to_gguf_name(role, None) == module.name);
                let end = end.map(|role| ModulePlace {
                    role: role.to_owned(),
                    layer: None,
                    expert: None,
                    layout: Vec::new(),
                });
                match sites.iter().any(of_layer) {
                    true => return true,
                    false => end.collect(),
                }
            }
        };
        let is_table = |site: &AdapterSite| matches!(site.shape, SiteShape::Table(_));
        let whole = |site: &&AdapterSite| site.place.layer.is_none();
        let at_end = |place: &ModulePlace| {
            let mut ends = sites.iter().filter(whole);
            match place.role.as_str() {
                "token_embd" => ends.any(is_table),
                // A tied head has the role of the embedding.
                "output" => {
                    ends.any(|site| !is_table(site) && ["output", "token_embd"].contains(&&*site.place.role))
                }
                role => ends.any(|site| site.place.role == role),
            }
        };
        places.iter().any(|place| match place.layer {
            Some(_) => sites.iter().any(|site| site.place.layer == place.layer),
            None => at_end(place),
        })
    }

    /// The places of a module. An unknown module is an error with the most similar name.
    fn places_of(&self, module: &AdapterModule) -> Result<Vec<ModulePlace>, AdapterError> {
        let FitTarget { spec, sites, .. } = *self.target;
        let found = match self.file.format {
            AdapterFormat::Peft => places(spec, &module.name),
            AdapterFormat::Gguf => gguf_place(spec, sites, &module.name).into_iter().collect(),
        };
        // A role of the same name in another kind of layer does not count.
        let here = |place: &ModulePlace| {
            let mut places = sites.iter().map(|site| &site.place);
            places.any(|site| site.role == place.role && site.layer == place.layer)
        };
        // PEFT scales the part of an adapter too, which is not implemented here.
        let times = |place: &&ModulePlace| spec.hf.times.iter().any(|(role, _)| *role == place.role);
        if self.file.format == AdapterFormat::Peft
            && let Some(place) = found.iter().find(times)
        {
            return Err(self.error(
                module,
                format!(
                    "models of {} scale the output of {} with numbers in their config, including the part of an adapter, \
                     which is not supported; merge the adapter with PEFT",
                    spec.id(),
                    place.role
                ),
            ));
        }
        let (own, others): (Vec<_>, Vec<_>) = found.into_iter().partition(here);
        let found = if own.is_empty() { others } else { own };
        if !found.is_empty() {
            return Ok(found);
        }
        let known: Vec<String> = match self.file.format {
            AdapterFormat::Peft => self.hf_names(),
            AdapterFormat::Gguf => {
                sites.iter().map(|site| spec.role_to_gguf_name(&site.place.role, site.place.layer)).collect()
            }
        };
        let near = nearest_clause(nearest(&module.name, known.iter().map(String::as_str)));
        Err(self.error(
            module,
            format!(
                "models of {} have no such module{near}; was the adapter trained on another model?",
                spec.id()
            ),
        ))
    }

    /// The names of modules in Hugging Face classes, to find the most similar one.
    fn hf_names(&self) -> Vec<String> {
        let map = &self.target.spec.hf;
        let layers = self.target.config.layers.len();
        let names = map.tensors.iter().flat_map(|(_, tensors)| tensors).filter_map(|tensor| match tensor {
            menagerie_spec::HfTensor::Tensor { from, .. } => Some(from.as_str()),
            menagerie_spec::HfTensor::Config(_) => None,
        });
        let spelled = |name: &str| -> Vec<String> {
            match name.strip_prefix('.') {
                None => vec![name.to_owned()],
                Some(rest) => {
                    let prefix = |layer: usize| map.layer.replace("{layer}", &layer.to_string());
                    (0..layers).map(|layer| format!("{}.{rest}", prefix(layer))).collect()
                }
            }
        };
        names.flat_map(spelled).collect()
    }

    /// Adds a part at a site that has none yet.
    fn put(&mut self, module: &AdapterModule, site: usize, part: SitePart) -> Result<(), AdapterError> {
        let at = self.parts.get_mut(site);
        match at {
            Some(slot @ None) => {
                *slot = Some(part);
                Ok(())
            }
            _ => {
                Err(self.error(module, "another module of the adapter changes the same weight of the model"))
            }
        }
    }

    fn error(&self, module: &AdapterModule, reason: impl Into<String>) -> AdapterError {
        of_module(&self.file.name(), &module.name, reason)
    }

    fn failed(&self, module: &AdapterModule) -> impl Fn(ModelError) -> AdapterError {
        let (file, module) = (self.file.name(), module.name.clone());
        move |error| of_module(&file, &module, error.to_string())
    }

    /// A tensor as a parameter of the backend, as stored.
    fn param(&self, module: &AdapterModule, tensor: &AdapterTensor) -> Result<Param, AdapterError> {
        let compute = self.target.compute;
        let made = tensor.weight().and_then(|weight| compute.backend.matrix(&weight, compute.arithmetic));
        made.map_err(self.failed(module))
    }

    /// A low-rank factor as a parameter of the backend. It is multiplied in f32, whatever the arithmetic of the model.
    fn factor(&self, module: &AdapterModule, tensor: &AdapterTensor) -> Result<Param, AdapterError> {
        let backend = &*self.target.compute.backend;
        let made = tensor.factor(backend).and_then(|weight| backend.matrix(&weight, Arithmetic::Exact));
        made.map_err(self.failed(module))
    }

    /// The values of a tensor.
    fn values(&self, module: &AdapterModule, tensor: &AdapterTensor) -> Result<Vec<f32>, AdapterError> {
        tensor
            .weight()
            .and_then(|weight| self.target.compute.backend.values(&weight))
            .map_err(self.failed(module))
    }

    /// The values of a weight of the model.
    fn weight_values(&self, module: &AdapterModule, weight: &Weight) -> Result<Vec<f32>, AdapterError> {
        self.target.compute.backend.values(weight).map_err(self.failed(module))
    }
}
