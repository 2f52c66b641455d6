//! [`Merge`]: a GGUF file with adapters added to its weights.

use crate::load_error::LoadError;
use crate::resolve::ResolvedFile;
use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions, OwnedValue};
use menagerie_kernels::Cpu;
use menagerie_model::{
    Activated, Adapter, AdapterSet, AdapterSite, Arithmetic, Backend, Compute, LinearPart, LowRank,
    ModelError, Param, Product, SiteForm, SitePart, SiteShape, TablePart, Weight, WeightShape,
};
use menagerie_quantise::Encoder;
use menagerie_registry::Part;
use menagerie_spec::SourceFormat;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;

/// Rows of a low-rank product that are made at once.
const ROWS: usize = 512;

/// A model's file and the adapters that are to become part of its weights.
pub struct Merge<'a> {
    resolved: &'a ResolvedFile,
    sites: &'a [AdapterSite],
    set: &'a AdapterSet,
    compute: &'a Compute,
    /// Sites by the tensor that holds their weights.
    weights: BTreeMap<usize, Vec<usize>>,
    /// Sites by the tensor that holds their biases.
    biases: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Merge<'a> {
    /// Finds the tensors that the adapters change.
    ///
    /// # Errors
    /// [`LoadError::Merge`]: a folder of Hugging Face; a weight that stands in two places of which one is changed.
    pub(crate) fn new(
        resolved: &'a ResolvedFile,
        sites: &'a [AdapterSite],
        set: &'a AdapterSet,
        compute: &'a Compute,
    ) -> Result<Self, LoadError> {
        let mut merge =
            Self { resolved, sites, set, compute, weights: BTreeMap::new(), biases: BTreeMap::new() };
        if resolved.file.format() != SourceFormat::Gguf {
            return Err(merge.error("a merged model is written as GGUF; convert the folder to one first"));
        }
        for (number, site) in sites.iter().enumerate() {
            if set.adapters().any(|(adapter, _)| adapter.part(number).is_some()) {
                merge.plan(number, site)?;
            }
        }
        Ok(merge)
    }

    /// Tensors that are changed.
    pub fn tensors(&self) -> usize {
        self.weights.len() + self.biases.len()
    }

    fn error(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Merge { file: self.resolved.file_name(), reason: reason.into() }
    }

    fn failed(&self, error: impl std::fmt::Display) -> LoadError {
        self.error(error.to_string())
    }

    fn plan(&mut self, number: usize, site: &AdapterSite) -> Result<(), LoadError> {
        let (place, source) = (&site.place, &self.resolved.tensors);
        let index = source.find(&place.role, place.layer, Part::Main);
        if place.form != SiteForm::Stored {
            // Another form of a weight that is merged where it is stored.
            let stored = |other: &AdapterSite| {
                (&other.place.role, other.place.layer) == (&place.role, place.layer)
                    && other.place.form == SiteForm::Stored
            };
            return match self.sites.iter().any(stored) {
                true => Ok(()),
                false => Err(self.error(format!(
                    "{} is stored in another form than the adapter changes; it cannot be merged into this file",
                    place.role
                ))),
            };
        }
        let index = index.ok_or_else(|| self.error(format!("no tensor of {}", place.role)))?;
        let shared = self.sites.iter().filter(|other| {
            (&other.place.role, other.place.layer) == (&place.role, place.layer)
                && matches!(other.shape, SiteShape::Table(_)) != matches!(site.shape, SiteShape::Table(_))
        });
        if shared.count() > 0 {
            let tensor = &source.entries()[index].name;
            return Err(self.error(format!(
                "tensor \"{tensor}\" is embedding and head at once, and an adapter changes one of them: there is no place for \
                 the other; merge with PEFT, which writes both"
            )));
        }
        self.weights.entry(index).or_default().push(number);
        let parts = self.set.adapters().filter_map(|(adapter, _)| linear(adapter, number));
        if parts.into_iter().any(has_bias) {
            let role =
                if place.layer.is_none() && place.role == "token_embd" { "output" } else { &place.role };
            let index = source.find(role, place.layer, Part::Bias);
            let index =
                index.ok_or_else(|| self.error(format!("{role} has no bias that could be changed")))?;
            self.biases.entry(index).or_default().push(number);
        }
        Ok(())
    }

    /// Writes the model, every tensor in the type it has; the file appears whole or not at all. `progress` is told how many
    /// of how many tensors are done, and may end it.
    ///
    /// # Errors
    /// [`LoadError::Merge`] names the tensor: a type that cannot be written (without importance), no room.
    pub fn write(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(), LoadError> {
        let source = self.resolved.file.paths().first().ok_or_else(|| self.error("it has no path"))?;
        let file = GgufFile::open(source, &OpenOptions::default()).map_err(|error| self.failed(error))?;
        let mut writer = GgufWriter::new();
        for (key, value) in file.metadata().iter().filter(|(key, _)| !key.starts_with("split.")) {
            writer.metadata(key, OwnedValue::from(value)).map_err(|error| self.failed(error))?;
        }
        for info in file.tensors() {
            writer.declare(info.name(), info.dims(), info.kind()).map_err(|error| self.failed(error))?;
        }
        let cpu = Cpu::new(None).map_err(|error| self.failed(error))?;
        let mut stream = writer.begin(path).map_err(|error| self.failed(error))?;
        let total = file.tensors().len();
        for (done, info) in file.tensors().iter().enumerate() {
            if progress(done, total).is_break() {
                return Err(self.error("cancelled; nothing was written"));
            }
            let index = self.resolved.tensors.entries().iter().position(|entry| entry.name == info.name());
            let cols = info.dims().first().map_or(1, |cols| *cols as usize);
            let merged = index.map(|index| self.merged(index)).transpose()?.flatten();
            let written = match merged {
                Some(values) => {
                    let bytes = encoded(&values, cols, info.kind(), &cpu);
                    let bytes = bytes
                        .map_err(|reason| self.error(format!("tensor \"{}\": {reason}", info.name())))?;
                    stream.tensor(info.name(), &bytes)
                }
                None => {
                    let bytes = file.data(info).map_err(|error| self.failed(error))?;
                    stream.tensor(info.name(), &bytes)
                }
            };
            written.map_err(|error| self.failed(error))?;
        }
        file.check_alive().map_err(|error| self.failed(error))?;
        stream.commit().map_err(|error| self.failed(error))
    }

    /// The values of a tensor with the adapters in it; none where they do not change it.
    fn merged(&self, index: usize) -> Result<Option<Vec<f32>>, LoadError> {
        let (weights, biases) = (self.weights.get(&index), self.biases.get(&index));
        if weights.is_none() && biases.is_none() {
            return Ok(None);
        }
        let backend = &*self.compute.backend;
        let weight = self.resolved.tensors.weight(index).map_err(|error| self.failed(error))?;
        let mut values = backend.values(&weight).map_err(|error| self.failed(error))?;
        let shape = weight.shape();
        for &site in weights.into_iter().flatten() {
            self.weight(site, &mut values, shape).map_err(|error| self.failed(error))?;
        }
        for &site in biases.into_iter().flatten() {
            self.bias(site, &mut values).map_err(|error| self.failed(error))?;
        }
        Ok(Some(values))
    }

    /// Adds everything that is done at a site to the tensor that holds it.
    fn weight(&self, site: usize, values: &mut [f32], shape: WeightShape) -> Result<(), ModelError> {
        let backend = &*self.compute.backend;
        let rows = self.sites[site].place.rows.clone();
        let WeightShape { count, rows: all, cols } = shape;
        for (adapter, weight) in self.set.adapters() {
            match adapter.part(site) {
                None => {}
                Some(SitePart::Linear(part)) => {
                    let own = &mut values[rows.start * cols..rows.end * cols];
                    merge_linear(backend, own, cols, part, weight)?;
                }
                Some(SitePart::Experts(low_rank)) => {
                    for expert in 0..count {
                        let start = (expert * all + rows.start) * cols;
                        let own = &mut values[start..start + rows.len() * cols];
                        add_low_rank(backend, own, cols, (low_rank, expert), weight)?;
                    }
                }
                Some(SitePart::Table(TablePart::Whole(table))) => {
                    values.copy_from_slice(&matrix(backend, table, 0)?);
                }
                Some(SitePart::Table(TablePart::LowRank(low_rank))) => {
                    // A row of the table is its ranks times B turned.
                    let (ranks, b) = (matrix(backend, &low_rank.a, 0)?, matrix(backend, &low_rank.b, 0)?);
                    let b = Weight::from_f32("B", &b, low_rank.b.shape())?;
                    add_product(backend, values, cols, (&ranks, &b), weight * low_rank.scaling)?;
                }
            }
        }
        Ok(())
    }

    fn bias(&self, site: usize, values: &mut [f32]) -> Result<(), ModelError> {
        let backend = &*self.compute.backend;
        let place = &self.sites[site].place;
        let own = values
            .get_mut(place.rows.clone())
            .ok_or_else(|| ModelError::Weights("a short bias".to_owned()))?;
        for (adapter, _) in self.set.adapters() {
            let Some(part) = linear(adapter, site) else { continue };
            if let Some(bias) = &part.bias {
                let change = vector(backend, bias)?;
                own.iter_mut().zip(&change).for_each(|(own, change)| *own += change);
            }
            if let Some(bias) = part.whole.as_ref().and_then(|whole| whole.bias.as_ref()) {
                own.copy_from_slice(&vector(backend, bias)?);
            }
        }
        Ok(())
    }
}

fn linear(adapter: &Adapter, site: usize) -> Option<&LinearPart> {
    match adapter.part(site) {
        Some(SitePart::Linear(part)) => Some(part),
        _ => None,
    }
}

fn has_bias(part: &LinearPart) -> bool {
    part.bias.is_some() || part.whole.as_ref().is_some_and(|whole| whole.bias.is_some())
}

/// A weight `[rows, cols]` as the forward has it with one adapter: LoRA added, then stretched by DoRA.
fn merge_linear(
    backend: &dyn Backend,
    own: &mut [f32],
    cols: usize,
    part: &LinearPart,
    weight: f32,
) -> Result<(), ModelError> {
    if let Some(whole) = &part.whole {
        own.copy_from_slice(&matrix(backend, &whole.weight, 0)?);
    }
    if let Some(low_rank) = &part.low_rank {
        add_low_rank(backend, own, cols, (low_rank, 0), weight)?;
    }
    if let Some(magnitude) = &part.magnitude {
        let weight = f64::from(weight);
        for (row, (length, [square, mixed, low])) in
            own.chunks_exact_mut(cols.max(1)).zip(magnitude.lengths.iter().zip(&magnitude.squares))
        {
            let before = (square + 2.0 * weight * mixed + weight * weight * low).max(0.0).sqrt();
            let factor = (f64::from(*length) / before) as f32;
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }
    Ok(())
}

fn add_low_rank(
    backend: &dyn Backend,
    own: &mut [f32],
    cols: usize,
    (low_rank, expert): (&LowRank, usize),
    weight: f32,
) -> Result<(), ModelError> {
    let (a, b) = (matrix(backend, &low_rank.a, expert)?, matrix(backend, &low_rank.b, expert)?);
    let rank = low_rank.a.shape().rows;
    let a = Weight::from_f32("A", &a, WeightShape { count: 1, rows: rank, cols })?;
    let turned = a.turned(&backend.values(&a)?)?;
    add_product(backend, own, cols, (&b, &turned), weight * low_rank.scaling)
}

/// `own += factor * left right^T`; `left` is `[rows, rank]`, `right` `[cols, rank]`.
fn add_product(
    backend: &dyn Backend,
    own: &mut [f32],
    cols: usize,
    (left, right): (&[f32], &Weight),
    factor: f32,
) -> Result<(), ModelError> {
    let rank = right.shape().cols;
    let right = backend.matrix(right, Arithmetic::Exact)?;
    let product = Product { weight: &right, bias: None };
    for (own, left) in own.chunks_mut(ROWS * cols.max(1)).zip(left.chunks(ROWS * rank.max(1))) {
        let left = backend.upload(left.to_vec(), rank)?;
        let made = backend.products(&[product], &Activated::new(&left), Arithmetic::Exact)?;
        let Some(made) = made.first() else { continue };
        own.iter_mut().zip(backend.read(made)?.iter()).for_each(|(own, more)| *own += factor * more);
    }
    Ok(())
}

/// The values of one matrix of a parameter.
fn matrix(backend: &dyn Backend, param: &Param, index: usize) -> Result<Vec<f32>, ModelError> {
    let rows = param.shape().rows;
    let ids: Range<u32> = (index * rows) as u32..((index + 1) * rows) as u32;
    let made = backend.lookup(param, &ids.collect::<Vec<_>>())?;
    Ok(backend.read(&made)?.into_owned())
}

/// The values of a vector: added to a row of zeros.
fn vector(backend: &dyn Backend, param: &Param) -> Result<Vec<f32>, ModelError> {
    let cols = param.shape().cols;
    let row = backend.add_vector(backend.upload(vec![0.0; cols], cols)?, param)?;
    Ok(backend.read(&row)?.into_owned())
}

fn encoded(values: &[f32], cols: usize, kind: GgmlType, cpu: &Cpu) -> Result<Vec<u8>, String> {
    let encoder = Encoder::new(kind, cpu).map_err(|error| error.to_string())?;
    let bytes = encoder.bytes(values.len() / cols.max(1), cols).map_err(|error| error.to_string())?;
    let mut blocks = vec![0; bytes];
    encoder.encode(values, cols, None, &mut blocks).map_err(|error| error.to_string())?;
    Ok(blocks)
}
