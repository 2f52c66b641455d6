//! [`Assembler`]: takes tensors by role, checks their shapes, and reports every fault instead of stopping at the first.
//!
//! `claims` has which role takes which tensor, `dims` the shapes, `place` what the factory of one component sees,
//! `ends` embedding and head, and `nextn` the head for further tokens.

pub(crate) mod claims;
pub(crate) mod dims;
pub(crate) mod ends;
mod nextn;
pub(crate) mod place;

use crate::fault::AssemblyFaults;
use crate::options::{AssembleOptions, Purpose};
use crate::source::WeightSource;
use claims::ClaimTable;
use dims::{fits, of, written};
use menagerie_entries::nearest;
use menagerie_model::components::RopeDeclarations;
use menagerie_model::{
    Backend, DenseExperts, DenseLinear, ExpertLinear, Linear, LinearSite, LinearWrapper, ModelError, Param,
    SiteForm, SlotDeclarations, StateDeclarations, Weight,
};
use menagerie_registry::{BuildResult, ReportedFault, TensorPart};
use menagerie_spec::ModelConfig;
use menagerie_spec::config::BiasRule;
use menagerie_spec::kind::Dim;
use std::collections::HashMap;
use std::ops::Range;

/// A place in the model that needs a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorSite<'a> {
    /// Its role.
    pub(crate) role: &'a str,
    /// The block, or `None` for the whole model.
    pub(crate) layer: Option<usize>,
}

/// A role whose tensor is missing in the file.
struct MissingTensor {
    name: String,
    layer: Option<usize>,
}

/// The state of an assembly. Its methods return [`ReportedFault`] after reporting a fault.
pub(crate) struct Assembler<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) source: &'a dyn WeightSource,
    pub(crate) options: &'a AssembleOptions<'a>,
    pub(crate) faults: AssemblyFaults,
    pub(crate) claims: ClaimTable,
    pub(crate) states: StateDeclarations,
    pub(crate) slots: SlotDeclarations,
    /// The number of slots that were declared before each layer.
    pub(crate) slots_before: Vec<usize>,
    pub(crate) ropes: RopeDeclarations,
    /// The token embedding, once it has been loaded.
    pub(crate) token_table: Option<Param>,
    /// The matrix of the head, once it has been loaded.
    pub(crate) output_table: Option<Param>,
    /// The wrapper of linears, if one is active.
    pub(crate) wrapper: Option<&'a dyn LinearWrapper>,
    missing: Vec<MissingTensor>,
    /// The row scales of matrices that were loaded without them, by role and layer.
    row_factors: HashMap<(String, Option<usize>), Vec<f32>>,
}

impl<'a> Assembler<'a> {
    pub(crate) fn new(
        config: &'a ModelConfig,
        source: &'a dyn WeightSource,
        options: &'a AssembleOptions<'a>,
    ) -> Self {
        Self {
            config,
            source,
            options,
            faults: AssemblyFaults::new(source.file(), &config.architecture),
            claims: ClaimTable::new(source.entries().len()),
            states: StateDeclarations::default(),
            slots: options.slots.clone().unwrap_or_default(),
            slots_before: Vec::new(),
            ropes: RopeDeclarations::default(),
            token_table: None,
            output_table: None,
            wrapper: options.wrapper,
            missing: Vec::new(),
            row_factors: HashMap::new(),
        }
    }

    /// D: width of the residual stream.
    pub(crate) fn width(&self) -> usize {
        self.config.embedding_length
    }

    /// The backend of the model.
    pub(crate) fn backend(&self) -> &'a dyn Backend {
        &*self.options.compute.backend
    }

    /// Reports a fault of a layer or of the whole model.
    pub(crate) fn fault(&mut self, layer: Option<usize>, text: &str) -> ReportedFault {
        self.faults.push(layer, text);
        ReportedFault::stored()
    }

    /// Whether the file has a role's tensor.
    pub(crate) fn has(&self, site: TensorSite, part: TensorPart) -> bool {
        self.source.find(site.role, site.layer, part).is_some()
    }

    /// Dimensions of a role's tensor, fastest first, without claiming it.
    pub(crate) fn dims(&self, site: TensorSite) -> Option<&'a [u64]> {
        let index = self.source.find(site.role, site.layer, TensorPart::Main)?;
        Some(&self.source.entries().get(index)?.dims)
    }

    /// The tensor of a site as a weight, claimed and of the right shape.
    pub(crate) fn take(
        &mut self,
        site: TensorSite,
        part: TensorPart,
        expected: &[Dim],
    ) -> BuildResult<Weight> {
        if part == TensorPart::Main {
            self.row_factors.remove(&(site.role.to_owned(), site.layer));
        }
        let index = self.checked(site, part, expected)?;
        let weight = self.source.weight_on(index, self.backend());
        self.loaded(site, index, weight)
    }

    /// The matrix of a linear. Its row scales may be kept separate, to be applied to the products.
    pub(crate) fn take_linear(&mut self, site: TensorSite, expected: &[Dim]) -> BuildResult<Weight> {
        // Another source may have had row scales for the same place.
        self.row_factors.remove(&(site.role.to_owned(), site.layer));
        let index = self.checked(site, TensorPart::Main, expected)?;
        let Some(scaled) = self.source.scaled_rows(index, self.backend()) else {
            let weight = self.source.weight_on(index, self.backend());
            return self.loaded(site, index, weight);
        };
        let (weight, row_factors) = self.loaded(site, index, scaled)?;
        self.row_factors.insert((site.role.to_owned(), site.layer), row_factors);
        Ok(weight)
    }

    /// The weight of an entry, or a fault.
    fn loaded<T>(&mut self, site: TensorSite, index: usize, weight: Result<T, ModelError>) -> BuildResult<T> {
        weight.map_err(|error| {
            let name = self.source.entries().get(index).map_or("", |entry| entry.name.as_str());
            self.fault(site.layer, &format!("tensor \"{name}\": {error}"))
        })
    }

    /// The index of the entry of a site, claimed and of the right shape.
    fn checked(&mut self, site: TensorSite, part: TensorPart, expected: &[Dim]) -> BuildResult<usize> {
        let Some(index) = self.source.find(site.role, site.layer, part) else {
            let name = self.source.name_of(site.role, site.layer, part);
            self.missing.push(MissingTensor { name, layer: site.layer });
            return Err(ReportedFault::stored());
        };
        let Some(entry) = self.source.entries().get(index) else {
            let text = format!(
                "role `{}`: the source has no tensor {index}; this is a defect, please report it",
                site.role
            );
            return Err(self.fault(site.layer, &text));
        };
        if let Err(double) = self.claims.claim(self.source, index, (site.role, site.layer, part)) {
            let text = format!(
                "tensor \"{}\": claimed by two roles, {} and {}; let one of them name another tensor in the spec",
                entry.name, double.first, double.second
            );
            return Err(self.fault(site.layer, &text));
        }
        if !fits(expected, &entry.dims) {
            let text =
                format!("tensor \"{}\": expected {}, found {:?}", entry.name, written(expected), entry.dims);
            return Err(self.fault(site.layer, &text));
        }
        Ok(index)
    }

    /// A weight as a parameter of the backend.
    pub(crate) fn param(&mut self, layer: Option<usize>, weight: &Weight) -> BuildResult<Param> {
        let param = self.backend().matrix(weight, self.options.compute.arithmetic);
        self.ok(layer, param)
    }

    /// Values as a vector of the backend.
    pub(crate) fn vector(&mut self, site: TensorSite, values: Vec<f32>) -> BuildResult<Param> {
        let name = self.source.name_of(site.role, site.layer, TensorPart::Main);
        let vector = self.backend().vector(&name, values);
        self.ok(site.layer, vector)
    }

    /// The values of a tensor that is not multiplied as a matrix, as f32 in the order of the file.
    pub(crate) fn values(
        &mut self,
        site: TensorSite,
        part: TensorPart,
        expected: &[Dim],
    ) -> BuildResult<Vec<f32>> {
        let weight = self.take(site, part, expected)?;
        let values = self.backend().values(&weight);
        self.ok(site.layer, values)
    }

    /// A bias, if its rule and the file have one.
    pub(crate) fn bias(
        &mut self,
        site: TensorSite,
        rule: BiasRule,
        expected: &[Dim],
    ) -> BuildResult<Option<Vec<f32>>> {
        match rule {
            BiasRule::None => Ok(None),
            BiasRule::IfPresent if !self.has(site, TensorPart::Bias) => Ok(None),
            BiasRule::IfPresent | BiasRule::Required => {
                self.values(site, TensorPart::Bias, expected).map(Some)
            }
        }
    }

    /// The scales of a site's products, one for each of `count` matrices, if the file has that many.
    fn scales(&mut self, site: TensorSite, count: usize) -> BuildResult<Option<Vec<f32>>> {
        if self.scale_count(site) != Some(count as u64) {
            return Ok(None);
        }
        self.values(site, TensorPart::Scale, &[of("scales", count)]).map(Some)
    }

    /// The number of scales of a site's products.
    fn scale_count(&self, site: TensorSite) -> Option<u64> {
        let index = self.source.find(site.role, site.layer, TensorPart::Scale)?;
        Some(self.source.entries().get(index)?.dims.iter().product())
    }

    /// A linear with the scales of its products: one number, or one for each row of the stored weight.
    fn scaled(
        &mut self,
        linear: DenseLinear,
        place: &LinearSite,
        site: TensorSite,
    ) -> BuildResult<DenseLinear> {
        let factors = self.row_factors.get(&(site.role.to_owned(), site.layer));
        let factors = factors.map(|all| all.get(place.rows.clone()).unwrap_or_default().to_vec());
        let scales = self.row_scales(place, site)?;
        let own = match (factors, scales) {
            (None, None) => return Ok(linear),
            (Some(own), None) | (None, Some(own)) => own,
            (Some(own), Some(more)) => own.iter().zip(more).map(|(one, other)| one * other).collect(),
        };
        match own.first() {
            Some(first) if own.iter().all(|value| value == first) => Ok(linear.with_scale(*first)),
            _ => {
                let scales = self.vector(site, own)?;
                let scaled = linear.with_row_scales(scales);
                self.ok(site.layer, scaled)
            }
        }
    }

    /// The scales of the products of a linear, one for each row, if the file has some.
    fn row_scales(&mut self, place: &LinearSite, site: TensorSite) -> BuildResult<Option<Vec<f32>>> {
        // The embedding's scale applies to its look-ups; as a head, it has the scale of the head.
        let site = if site.role == "token_embd" { TensorSite { role: "output", layer: None } } else { site };
        if let Some(scale) = self.scales(site, 1)? {
            return Ok(scale.first().map(|scale| vec![*scale; place.rows.len()]));
        }
        let rows = self.dims(site).and_then(|dims| dims.get(1)).copied();
        let Some(rows) = rows.filter(|rows| self.scale_count(site) == Some(*rows)) else {
            return Ok(None);
        };
        if place.form != SiteForm::Stored {
            let text = format!(
                "{}: its rows have scales, but this component computes with another form of the weight; use a file of \
                 another type",
                site.role
            );
            return Err(self.fault(site.layer, &text));
        }
        let values = self.values(site, TensorPart::Scale, &[of("scales", rows as usize)])?;
        match values.get(place.rows.clone()) {
            Some(own) => Ok(Some(own.to_vec())),
            None => Err(self.fault(
                site.layer,
                &format!("{}: expected a scale for each row, found {rows} scales", site.role),
            )),
        }
    }

    /// The scale of a table, if the file has one.
    pub(crate) fn table_scale(&mut self, site: TensorSite) -> BuildResult<Option<f32>> {
        Ok(self.scales(site, 1)?.and_then(|scale| scale.first().copied()))
    }

    /// The one place that makes linears: over rows of a stored weight, with a bias, and wrapped if the options say so.
    pub(crate) fn linear(
        &mut self,
        site: TensorSite,
        rows: Range<usize>,
        weight: Param,
        bias: Option<Vec<f32>>,
    ) -> BuildResult<Box<dyn Linear>> {
        self.linear_at(linear_site(site, rows), site, weight, bias)
    }

    /// The same over a weight that was derived from the stored one, as `place` describes.
    pub(crate) fn linear_at(
        &mut self,
        place: LinearSite,
        site: TensorSite,
        weight: Param,
        bias: Option<Vec<f32>>,
    ) -> BuildResult<Box<dyn Linear>> {
        let bias = match bias {
            Some(bias) => Some(self.vector(site, bias)?),
            None => None,
        };
        let linear = self.ok(site.layer, DenseLinear::new(weight, bias))?;
        let linear: Box<dyn Linear> = Box::new(self.scaled(linear, &place, site)?);
        Ok(match self.wrapper {
            Some(wrapper) => wrapper.linear(&place, linear),
            None => linear,
        })
    }

    /// The one place that makes stacks of linears (experts).
    pub(crate) fn expert_linear(
        &mut self,
        site: TensorSite,
        rows: Range<usize>,
        weight: Param,
        bias: Option<Vec<f32>>,
    ) -> BuildResult<Box<dyn ExpertLinear>> {
        self.experts_at(linear_site(site, rows), site, weight, bias)
    }

    /// The same over a weight that was derived from the stored one, as `place` describes.
    pub(crate) fn experts_at(
        &mut self,
        place: LinearSite,
        site: TensorSite,
        weight: Param,
        bias: Option<Vec<f32>>,
    ) -> BuildResult<Box<dyn ExpertLinear>> {
        let bias = match bias {
            Some(bias) => Some(self.vector(site, bias)?),
            None => None,
        };
        let count = weight.shape().count;
        let mut experts = self.ok(site.layer, DenseExperts::new(weight, bias))?;
        if let Some(scales) = self.scales(site, count)? {
            let scaled = experts.with_scales(scales);
            experts = self.ok(site.layer, scaled)?;
        }
        let experts: Box<dyn ExpertLinear> = Box::new(experts);
        Ok(match self.wrapper {
            Some(wrapper) => wrapper.experts(&place, experts),
            None => experts,
        })
    }

    /// The value, or a fault.
    pub(crate) fn ok<T, E: std::fmt::Display>(
        &mut self,
        layer: Option<usize>,
        value: Result<T, E>,
    ) -> BuildResult<T> {
        value.map_err(|error| self.fault(layer, &error.to_string()))
    }

    /// Reports missing tensors, each with the most similar unclaimed tensor.
    pub(crate) fn report_missing(&mut self) {
        let unclaimed: Vec<(&str, Option<usize>)> = self
            .source
            .entries()
            .iter()
            .enumerate()
            .take(self.source.file_tensors())
            .filter(|(index, _)| !self.claims.is_claimed(*index))
            .map(|(_, entry)| (entry.name.as_str(), entry.layer))
            .collect();
        for missing in std::mem::take(&mut self.missing) {
            let same_place = unclaimed.iter().filter(|(_, layer)| *layer == missing.layer);
            let near = nearest(bare(&missing.name), same_place.clone().map(|(name, _)| bare(name)));
            let found = near.and_then(|near| same_place.clone().find(|(name, _)| bare(name) == near));
            let advice = match found {
                Some((found, _)) => format!("the nearest in the file is \"{found}\""),
                None => "the file is incomplete, or belongs to another architecture".to_owned(),
            };
            let text = format!("tensor \"{}\": missing; {advice}", missing.name);
            self.faults.push(missing.layer, &text);
        }
    }

    /// The reason for ignoring a tensor, if there is one.
    pub(crate) fn ignored(&self, index: usize) -> Option<String> {
        let head = |part| self.source.find("output", None, part) == Some(index);
        if self.options.purpose == Purpose::Vectors && (head(TensorPart::Main) || head(TensorPart::Bias)) {
            return Some("the head: it makes logits, not vectors".to_owned());
        }
        self.source.ignored(index, self.config.blocks())
    }

    /// Reports tensors that are neither claimed nor ignored; `in_range` selects the tensors by their layer.
    pub(crate) fn report_unclaimed(&mut self, in_range: impl Fn(Option<usize>) -> bool) {
        for (index, entry) in self.source.entries().iter().enumerate().take(self.source.file_tensors()) {
            let ignored = || self.ignored(index).is_some();
            if self.claims.is_claimed(index) || !in_range(entry.layer) || ignored() {
                continue;
            }
            let text = format!(
                "tensor \"{}\" ({} {:?}): no component of the model uses it; {}",
                entry.name,
                entry.kind,
                entry.dims,
                advice(&entry.name, self.source.ignore_table())
            );
            self.faults.push(entry.layer, &text);
        }
    }
}

/// A tensor's name without the prefix of its layer (`blk.N.`, `model.layers.N.`) and without `.weight`.
fn bare(name: &str) -> &str {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let mut at = 0;
    for part in name.split('.') {
        at += part.len() + 1;
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return name.get(at..).unwrap_or(name);
        }
    }
    name
}

/// What to do about an unclaimed tensor.
fn advice(name: &str, table: &str) -> String {
    match name.rsplit('.').next() {
        Some("bias") => {
            "the spec has `bias = \"none\"` there: use `if-present` or `required`, or ignore the tensor with a reason".into()
        }
        Some("scale" | "input_scale") => {
            "this scale matches no weight; use a file of another type".into()
        }
        _ => {
            format!(
                "name it in the spec, or list it under {table} with a reason (ignoring it silently may give wrong \
                 output)"
            )
        }
    }
}

/// A site over rows of the stored weight.
pub(crate) fn linear_site(site: TensorSite, rows: Range<usize>) -> LinearSite {
    LinearSite { role: site.role.to_owned(), layer: site.layer, rows, form: SiteForm::Stored }
}
