//! [`ComponentPlace`]: the source of the parts of one component.

use super::dims::{of, solve};
use super::{Assembler, TensorSite};
use crate::array::array_of;
use menagerie_model::components::{RopeDeclarations, RopeFrequencies};
use menagerie_model::{
    Backend, ElementWise, ExpertLinear, Linear, LinearSite, Norm, Param, SequenceMixer, SiteForm,
    SlotDeclarations, StateDeclarations, Weight,
};
use menagerie_registry::{
    BuildResult, ComponentFactory, ComponentParts, NormTarget, ReportedFault, TensorPart,
};
use menagerie_spec::kind::{Component as Config, Dim, Scope, Sizes, TensorKind, WantedRole};
use std::ops::Range;
use std::sync::Arc;

/// One component at one place of the model: its roles, and the sizes that its tensors have bound so far.
pub(crate) struct ComponentPlace<'p, 'a> {
    assembler: &'p mut Assembler<'a>,
    layer: Option<usize>,
    kind: &'static str,
    wanted: Vec<WantedRole>,
    sizes: Sizes,
}

impl<'p, 'a> ComponentPlace<'p, 'a> {
    /// The place of a mixer or feed-forward.
    pub(crate) fn of_block(assembler: &'p mut Assembler<'a>, layer: usize, config: &Config) -> Self {
        let width = assembler.width();
        let mut sizes = config.sizes();
        sizes.set("D", width);
        let wanted = config.wanted(width);
        Self { assembler, layer: Some(layer), kind: config.kind().name, wanted, sizes }
    }

    fn of_norm(
        assembler: &'p mut Assembler<'a>,
        layer: Option<usize>,
        config: &Config,
        place: &NormTarget,
    ) -> Self {
        let mut sizes = config.sizes();
        sizes.set("width", place.width);
        let wanted = config.wanted_norm(place.role, place.width);
        Self { assembler, layer, kind: config.kind().name, wanted, sizes }
    }

    /// The row of the kind's table for a role; of several forms, the fused one if `fused`.
    fn row(&mut self, role: &str, part: TensorPart, fused: bool) -> BuildResult<WantedRole> {
        let is_bias = |wanted: &WantedRole| wanted.def.tensor == TensorKind::Bias;
        let form = |wanted: &&WantedRole| wanted.def.form.is_some_and(|(_, form)| form == "fused") == fused;
        let mut rows: Vec<&WantedRole> = self.wanted.iter().filter(|wanted| wanted.role == role).collect();
        // A norm's weight and bias are two rows of one role.
        if rows.iter().any(|row| is_bias(row)) && rows.iter().any(|row| !is_bias(row)) {
            rows.retain(|row| is_bias(row) == (part == TensorPart::Bias));
        }
        let found = rows.iter().copied().find(form).or(rows.first().copied()).cloned();
        found.ok_or_else(|| {
            self.fault(&format!(
                "kind `{}` uses role `{role}`, which its table lacks; this is a defect of the kind, please report it",
                self.kind
            ))
        })
    }

    /// The block, for parts that only blocks have.
    fn block(&mut self) -> BuildResult<usize> {
        self.layer.ok_or_else(|| self.fault(&format!("kind `{}` can only be used in a block", self.kind)))
    }

    fn layer_of(&self, row: &WantedRole) -> Option<usize> {
        match row.def.scope {
            Scope::Block => self.layer,
            Scope::Model => None,
        }
    }

    /// Dimensions with every size that is known so far.
    fn known(&self, dims: &[Dim]) -> Vec<Dim> {
        dims.iter().map(|dim| if dim.size.is_some() { *dim } else { self.sizes.dim(dim.text) }).collect()
    }

    /// Binds sizes that the config leaves open to those of the first tensor that has them.
    fn bind(&mut self, expected: &[Dim], found: &[u64]) {
        for (dim, size) in expected.iter().zip(found.iter().chain(std::iter::repeat(&1))) {
            if dim.size.is_some() {
                continue;
            }
            if let Some((symbol, size)) = solve(dim.text, *size)
                && let Ok(size) = usize::try_from(size)
            {
                self.sizes.set(symbol, size);
            }
        }
    }

    /// The weight of a row of the table.
    fn weight_of(&mut self, row: &WantedRole) -> BuildResult<Weight> {
        let expected = self.bound(row);
        let site = TensorSite { role: &row.role, layer: self.layer_of(row) };
        self.assembler.take(site, TensorPart::Main, &expected)
    }

    /// The weight of a row of the table that is a linear, or several fused linears.
    fn linear_weight(&mut self, row: &WantedRole) -> BuildResult<Weight> {
        let expected = self.bound(row);
        let site = TensorSite { role: &row.role, layer: self.layer_of(row) };
        self.assembler.take_linear(site, &expected)
    }

    /// The dimensions of a row of the table, after binding those of its tensor.
    fn bound(&mut self, row: &WantedRole) -> Vec<Dim> {
        let layer = self.layer_of(row);
        let site = TensorSite { role: &row.role, layer };
        let expected = self.known(&row.dims);
        if let Some(found) = self.assembler.dims(site) {
            self.bind(&expected, found);
        }
        self.known(&row.dims)
    }

    /// The bias of a row of the table, if its rule says that it has one.
    fn bias(&mut self, row: &WantedRole) -> BuildResult<Option<Vec<f32>>> {
        let dims = self.known(row.dims.get(1..).unwrap_or(&[]));
        let layer = self.layer_of(row);
        self.assembler.bias(TensorSite { role: &row.role, layer }, row.bias, &dims)
    }

    /// The biases of the parts of a fused role, if the file stores them separately.
    fn separate_biases(&mut self, roles: &[&str]) -> BuildResult<Vec<Option<Vec<f32>>>> {
        let biases: Vec<_> = roles
            .iter()
            .map(|role| {
                let row = self.row(role, TensorPart::Main, false)?;
                self.bias(&row)
            })
            .collect();
        biases.into_iter().collect()
    }

    /// Row ranges of a fused weight, each a parameter of the backend.
    fn ranges(&mut self, weight: &Weight, rows: &[usize]) -> BuildResult<Vec<(Range<usize>, Param)>> {
        let mut start = 0;
        let mut parts = Vec::with_capacity(rows.len());
        for &count in rows {
            let range = start..start + count;
            start = range.end;
            let part = self.assembler.ok(self.layer, weight.row_range(range.clone()))?;
            parts.push((range, self.assembler.param(self.layer, &part)?));
        }
        Ok(parts)
    }
}

impl ComponentParts for ComponentPlace<'_, '_> {
    fn layer(&self) -> Option<usize> {
        self.layer
    }

    fn layers(&self) -> usize {
        self.assembler.config.blocks()
    }

    fn width(&self) -> usize {
        self.assembler.width()
    }

    fn backend(&self) -> &dyn Backend {
        self.assembler.backend()
    }

    fn has(&self, role: &str, part: TensorPart) -> bool {
        self.assembler.has(TensorSite { role, layer: self.layer }, part)
    }

    fn dims(&self, role: &str) -> Option<&[u64]> {
        self.assembler.dims(TensorSite { role, layer: self.layer })
    }

    fn size(&self, symbol: &str) -> Option<usize> {
        let known = self.wanted.iter().flat_map(|wanted| wanted.def.dims).find(|text| **text == symbol)?;
        self.sizes.dim(known).size.and_then(|size| usize::try_from(size).ok())
    }

    fn linear(&mut self, role: &str) -> BuildResult<Box<dyn Linear>> {
        let row = self.row(role, TensorPart::Main, false)?;
        let weight = self.linear_weight(&row);
        let bias = self.bias(&row);
        let (weight, bias) = (weight?, bias?);
        let layer = self.layer_of(&row);
        let param = self.assembler.param(layer, &weight)?;
        let rows = 0..param.shape().rows;
        self.assembler.linear(TensorSite { role: &row.role, layer }, rows, param, bias)
    }

    fn split_linear(
        &mut self,
        role: &str,
        rows: &[usize],
        bias_roles: &[&str],
    ) -> BuildResult<Vec<Box<dyn Linear>>> {
        let row = self.row(role, TensorPart::Main, true)?;
        let weight = self.linear_weight(&row);
        let fused = self.has(role, TensorPart::Bias);
        let separate = bias_roles.iter().any(|role| self.has(role, TensorPart::Bias));
        let biases = if separate && !fused {
            self.separate_biases(bias_roles)?
        } else {
            let mut whole = self.bias(&row)?.map(Vec::into_iter);
            rows.iter().map(|rows| whole.as_mut().map(|rest| rest.take(*rows).collect())).collect()
        };
        let site = TensorSite { role: &row.role, layer: self.layer };
        let parts = self.ranges(&weight?, rows)?;
        let linears = parts.into_iter().zip(biases);
        linears.map(|((range, param), bias)| self.assembler.linear(site, range, param, bias)).collect()
    }

    fn experts(&mut self, role: &str) -> BuildResult<Box<dyn ExpertLinear>> {
        let row = self.row(role, TensorPart::Main, false)?;
        let weight = self.weight_of(&row);
        let bias = self.bias(&row);
        let param = self.assembler.param(self.layer, &weight?)?;
        let rows = 0..param.shape().rows;
        self.assembler.expert_linear(TensorSite { role: &row.role, layer: self.layer }, rows, param, bias?)
    }

    fn split_experts(&mut self, role: &str) -> BuildResult<[Box<dyn ExpertLinear>; 2]> {
        let row = self.row(role, TensorPart::Main, true)?;
        let weight = self.weight_of(&row);
        let bias = self.bias(&row);
        let (weight, bias) = (weight?, bias?);
        let rows = weight.shape().rows;
        if !rows.is_multiple_of(2) {
            let text = format!(
                "tensor \"{}\": expected an even number of rows (two fused parts), found {rows}",
                weight.name()
            );
            return Err(self.fault(&text));
        }
        let site = TensorSite { role: &row.role, layer: self.layer };
        let halves = self.ranges(&weight, &[rows / 2, rows / 2])?.into_iter().map(|(range, param)| {
            let own = bias.as_ref().map(|bias| {
                bias.chunks_exact(rows).flat_map(|expert| expert[range.clone()].iter().copied()).collect()
            });
            self.assembler.expert_linear(site, range, param, own)
        });
        let halves: Vec<_> = halves.collect();
        let halves = halves.into_iter().collect::<BuildResult<Vec<_>>>()?;
        array_of(self, halves)
    }

    fn weight(&mut self, role: &str) -> BuildResult<Weight> {
        let row = self.row(role, TensorPart::Main, false)?;
        self.weight_of(&row)
    }

    fn experts_of(
        &mut self,
        role: &str,
        weight: &Weight,
        form: SiteForm,
    ) -> BuildResult<Box<dyn ExpertLinear>> {
        let param = self.assembler.param(self.layer, weight)?;
        let rows = 0..param.shape().rows;
        let place = LinearSite { role: role.to_owned(), layer: self.layer, rows, form };
        self.assembler.experts_at(place, TensorSite { role, layer: self.layer }, param, None)
    }

    fn values(&mut self, role: &str, part: TensorPart) -> BuildResult<Vec<f32>> {
        let row = self.row(role, part, false)?;
        let dims = self.known(&row.dims);
        let layer = self.layer_of(&row);
        self.assembler.values(TensorSite { role: &row.role, layer }, part, &dims)
    }

    fn row_values(
        &mut self,
        role: &str,
        part: TensorPart,
        [dim, heads]: [usize; 2],
    ) -> BuildResult<Vec<f32>> {
        let site = TensorSite { role, layer: self.layer };
        let index = self.assembler.source.find(role, self.layer, part);
        let found = index.and_then(|index| self.assembler.source.entries().get(index));
        let as_matrix = found.is_some_and(|entry| entry.dims.get(1).is_some_and(|rows| *rows > 1));
        let expected: &[Dim] = if as_matrix {
            &[of("head_dim", dim), of("heads", heads)]
        } else {
            &[of("heads*head_dim", dim * heads)]
        };
        self.assembler.values(site, part, expected)
    }

    fn matrix(&mut self, role: &str) -> BuildResult<Param> {
        let row = self.row(role, TensorPart::Main, false)?;
        let weight = self.weight_of(&row)?;
        let layer = self.layer_of(&row);
        self.assembler.param(layer, &weight)
    }

    fn vector(&mut self, role: &str, values: Vec<f32>) -> BuildResult<Param> {
        self.assembler.vector(TensorSite { role, layer: self.layer }, values)
    }

    fn norm(&mut self, role: &str, config: &Config, width: usize) -> BuildResult<Box<dyn Norm>> {
        self.assembler.norm(config, self.layer, &NormTarget { role, width })
    }

    fn mixer(&mut self, config: &Config) -> BuildResult<Box<dyn SequenceMixer>> {
        let layer = self.block()?;
        self.assembler.mixer(config, layer)
    }

    fn activation(&mut self, config: &Config) -> BuildResult<Arc<dyn ElementWise>> {
        let layer = self.block()?;
        match self.assembler.factory(config) {
            Some(ComponentFactory::Activation(build)) => {
                build(config, &mut ComponentPlace::of_block(self.assembler, layer, config))
            }
            _ => self.assembler.no_factory(config, self.layer),
        }
    }

    fn rope_frequencies(&mut self, config: &Config) -> BuildResult<Box<dyn RopeFrequencies>> {
        let layer = self.block()?;
        match self.assembler.factory(config) {
            Some(ComponentFactory::Rope(build)) => {
                build(config, &mut ComponentPlace::of_block(self.assembler, layer, config))
            }
            _ => self.assembler.no_factory(config, self.layer),
        }
    }

    fn states(&mut self) -> &mut StateDeclarations {
        &mut self.assembler.states
    }

    fn slots(&mut self) -> &mut SlotDeclarations {
        &mut self.assembler.slots
    }

    fn name(&self, suffix: &str) -> String {
        match self.layer {
            Some(layer) => format!("blk.{layer}.{suffix}"),
            None => suffix.to_owned(),
        }
    }

    fn ropes(&mut self) -> &mut RopeDeclarations {
        &mut self.assembler.ropes
    }

    fn fault(&mut self, text: &str) -> ReportedFault {
        self.assembler.fault(self.layer, text)
    }
}

impl Assembler<'_> {
    /// A norm at a place, by the factory of its kind.
    pub(crate) fn norm(
        &mut self,
        config: &Config,
        layer: Option<usize>,
        place: &NormTarget,
    ) -> BuildResult<Box<dyn Norm>> {
        match self.options.components.get(config.kind()).map(|component| component.factory) {
            Some(ComponentFactory::Norm(build)) => {
                build(config, &mut ComponentPlace::of_norm(self, layer, config, place), place)
            }
            _ => self.no_factory(config, layer),
        }
    }

    /// Notes that no linked crate makes a kind.
    pub(crate) fn no_factory<T>(&mut self, config: &Config, layer: Option<usize>) -> BuildResult<T> {
        let kind = config.kind();
        let known: Vec<&str> = self
            .options
            .components
            .iter()
            .filter(|component| component.kind.family == kind.family)
            .map(|component| component.kind.name)
            .collect();
        let text = format!(
            "{} kind `{}`: no linked crate makes it; the linked crates make {}",
            kind.family.name(),
            kind.name,
            known.join(", ")
        );
        Err(self.fault(layer, &text))
    }
}
