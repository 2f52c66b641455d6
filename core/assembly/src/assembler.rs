//! [`Assembler`]: takes tensors by role, checks their shapes, and notes every fault instead of stopping at the first.

use crate::claims::Claims;
use crate::dims::{Dim, fits, written};
use crate::fault::AssemblyFaults;
use crate::source::{Part, WeightSource};
use menagerie_model::components::RopeDeclarations;
use menagerie_model::{DenseLinear, Linear, StateDeclarations, Weight};
use menagerie_spec::ModelConfig;
use menagerie_spec::config::BiasRule;
use menagerie_spec::nearest::nearest;

/// A place in the model that wants a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    /// Its role.
    pub(crate) role: &'a str,
    /// The block, or `None` for the whole model.
    pub(crate) layer: Option<usize>,
}

/// A role whose tensor is not in the file.
struct Missing {
    name: String,
    layer: Option<usize>,
}

/// State of an assembly. Its methods give `None` where a fault was noted.
pub(crate) struct Assembler<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) source: &'a dyn WeightSource,
    pub(crate) faults: AssemblyFaults,
    pub(crate) claims: Claims,
    pub(crate) states: StateDeclarations,
    pub(crate) ropes: RopeDeclarations,
    missing: Vec<Missing>,
}

impl<'a> Assembler<'a> {
    pub(crate) fn new(config: &'a ModelConfig, source: &'a dyn WeightSource) -> Self {
        Self {
            config,
            source,
            faults: AssemblyFaults::new(source.file(), &config.architecture),
            claims: Claims::new(source.entries().len()),
            states: StateDeclarations::default(),
            ropes: RopeDeclarations::default(),
            missing: Vec::new(),
        }
    }

    /// D: width of the residual stream.
    pub(crate) fn width(&self) -> usize {
        self.config.embedding_length
    }

    /// Notes a fault of a layer or of the whole model.
    pub(crate) fn fault(&mut self, layer: Option<usize>, text: &str) {
        self.faults.push(layer, text);
    }

    /// Whether the file has a role's tensor.
    pub(crate) fn has(&self, role: &str, layer: Option<usize>) -> bool {
        self.source.find(role, layer, Part::Main).is_some()
    }

    /// Dimensions of a role's tensor, fastest first, without claiming it.
    pub(crate) fn dims(&self, role: &str, layer: Option<usize>) -> Option<&'a [u64]> {
        let index = self.source.find(role, layer, Part::Main)?;
        Some(&self.source.entries().get(index)?.dims)
    }

    /// The tensor of a site, claimed and of the right shape, as weight.
    fn take(&mut self, site: Site, part: Part, expected: &[Dim]) -> Option<Weight> {
        let Some(index) = self.source.find(site.role, site.layer, part) else {
            let name = self.source.name_of(site.role, site.layer, part);
            self.missing.push(Missing { name, layer: site.layer });
            return None;
        };
        let entry = self.source.entries().get(index)?;
        if let Err(twice) = self.claims.claim(index, site.role, site.layer, part) {
            let text = format!(
                "tensor \"{}\": wanted by two roles, {} and {}; one of them must name another tensor in the spec",
                entry.name, twice.first, twice.second
            );
            self.fault(site.layer, &text);
            return None;
        }
        if !fits(expected, &entry.dims) {
            let text =
                format!("tensor \"{}\": expected {}, found {:?}", entry.name, written(expected), entry.dims);
            self.fault(site.layer, &text);
            return None;
        }
        match self.source.weight(index) {
            Ok(weight) => Some(weight),
            Err(error) => {
                self.fault(site.layer, &format!("tensor \"{}\": {error}", entry.name));
                None
            }
        }
    }

    /// A matrix or a stack of matrices.
    pub(crate) fn weight(&mut self, site: Site, expected: &[Dim]) -> Option<Weight> {
        self.take(site, Part::Main, expected)
    }

    /// A tensor of numbers that are not multiplied as a matrix, as f32 in the order of the file.
    pub(crate) fn values(&mut self, site: Site, part: Part, expected: &[Dim]) -> Option<Vec<f32>> {
        let weight = self.take(site, part, expected)?;
        match weight.to_f32() {
            Ok(values) => Some(values),
            Err(error) => {
                self.fault(site.layer, &format!("tensor \"{}\": {error}", weight.name()));
                None
            }
        }
    }

    /// A bias as the rule says; the outer `None` is a fault.
    #[allow(clippy::option_option)]
    pub(crate) fn bias(&mut self, site: Site, rule: BiasRule, expected: &[Dim]) -> Option<Option<Vec<f32>>> {
        let present = self.source.find(site.role, site.layer, Part::Bias).is_some();
        match rule {
            BiasRule::None => Some(None),
            BiasRule::IfPresent if !present => Some(None),
            BiasRule::IfPresent | BiasRule::Required => self.values(site, Part::Bias, expected).map(Some),
        }
    }

    /// A linear of its own tensors.
    pub(crate) fn linear(&mut self, site: Site, dims: [Dim; 2], rule: BiasRule) -> Option<DenseLinear> {
        let weight = self.weight(site, &dims);
        let bias = self.bias(site, rule, &dims[1..]);
        self.dense(site.layer, weight?, bias?)
    }

    /// A linear of a weight and a bias that were taken.
    pub(crate) fn dense(
        &mut self,
        layer: Option<usize>,
        weight: Weight,
        bias: Option<Vec<f32>>,
    ) -> Option<DenseLinear> {
        let linear = DenseLinear::new(weight, bias);
        self.ok(layer, linear)
    }

    /// The value, or a fault.
    pub(crate) fn ok<T, E: std::fmt::Display>(
        &mut self,
        layer: Option<usize>,
        value: Result<T, E>,
    ) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(layer, &error.to_string());
                None
            }
        }
    }

    /// Reports missing tensors, each with the nearest tensor nobody wants.
    pub(crate) fn report_missing(&mut self) {
        let unclaimed: Vec<(&str, Option<usize>)> = self
            .source
            .entries()
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.claims.is_claimed(*index))
            .map(|(_, entry)| (entry.name.as_str(), entry.layer))
            .collect();
        for missing in std::mem::take(&mut self.missing) {
            let same_place = unclaimed.iter().filter(|(_, layer)| *layer == missing.layer);
            let near = nearest(bare(&missing.name), same_place.clone().map(|(name, _)| bare(name)));
            let found = near.and_then(|near| same_place.clone().find(|(name, _)| bare(name) == near));
            let advice = match found {
                Some((found, _)) => format!("the nearest in the file is \"{found}\""),
                None => "the file is incomplete, or was made for another architecture".to_owned(),
            };
            let text = format!("tensor \"{}\": missing; {advice}", missing.name);
            self.faults.push(missing.layer, &text);
        }
    }

    /// Reports tensors that no role wanted and nobody ignores; `in_range` says which tensors are looked at.
    pub(crate) fn report_unclaimed(&mut self, in_range: impl Fn(Option<usize>) -> bool) {
        let layers = self.config.layers.len();
        for (index, entry) in self.source.entries().iter().enumerate() {
            let ignored = || self.source.ignored(index, layers).is_some();
            if self.claims.is_claimed(index) || !in_range(entry.layer) || ignored() {
                continue;
            }
            let text = format!(
                "tensor \"{}\" ({} {:?}): no part of the model wants it; {}",
                entry.name,
                entry.kind,
                entry.dims,
                advice(&entry.name)
            );
            self.faults.push(entry.layer, &text);
        }
    }
}

/// A tensor's name without what all names of its kind share: `blk.N.` and `.weight`.
fn bare(name: &str) -> &str {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((_, bare)) => bare,
        None => name,
    }
}

/// What to do about a tensor that nobody wants.
fn advice(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("bias") => {
            "the spec says `bias = \"none\"` there: say `if-present` or `required`, or ignore it with a reason"
        }
        Some("scale" | "input_scale") => {
            "scales beside a tensor are not supported yet; use a file of another type"
        }
        _ => {
            "wrong output would be silent, so name it in the spec or list it under [gguf.ignore_tensors] with a reason"
        }
    }
}

/// A linear as the components hold it.
pub(crate) fn boxed(linear: DenseLinear) -> Box<dyn Linear> {
    Box::new(linear)
}
