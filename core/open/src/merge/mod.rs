//! [`Merge`]: a model with adapters added to its weights, before it is written.

mod folder;
mod gguf;
mod low_rank;
mod tensors;

use crate::error::LoadError;
use crate::resolved::ResolvedFile;
use gguf_file::GgmlType;
use low_rank::{add_low_rank, add_product, add_to_heads, matrix, merge_linear, vector};
use menagerie_kernels::Cpu;
use menagerie_model::{
    Adapter, AdapterSet, AdapterSite, Compute, LinearPart, ModelError, SiteForm, SitePart, SiteShape,
    TablePart, Weight, WeightBytes, WeightShape,
};
use menagerie_quantize::Encoder;
use menagerie_registry::TensorPart;
use menagerie_spec::SourceFormat;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
pub use tensors::MergedTensors;

/// Is called with the number of tensors that are written and the number of all, and can cancel.
pub(crate) type MergeProgress<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// The file of a model and the adapters that become part of its weights.
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
    /// [`LoadError::Merge`]: weights that were quantized while loading; a weight that is used in two places of which one is
    /// changed.
    pub(crate) fn new(
        resolved: &'a ResolvedFile,
        sites: &'a [AdapterSite],
        set: &'a AdapterSet,
        compute: &'a Compute,
    ) -> Result<Self, LoadError> {
        let mut merge =
            Self { resolved, sites, set, compute, weights: BTreeMap::new(), biases: BTreeMap::new() };
        let stored = resolved.file.tensors(Arc::clone(&resolved.spec))?;
        if stored.entries() != resolved.tensors.entries() {
            return Err(merge.error(
                "its weights were quantized while loading: merge without --quant, then `quantize` what is written",
            ));
        }
        for (number, site) in sites.iter().enumerate() {
            if set.adapters().any(|(adapter, _)| adapter.part(number).is_some()) {
                merge.plan(number, site)?;
            }
        }
        Ok(merge)
    }

    /// The number of tensors that change.
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
        let index = source.find(&place.role, place.layer, TensorPart::Main);
        if place.form != SiteForm::Stored {
            return self.plan_form(number, site, index);
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
            let index = source.find(role, place.layer, TensorPart::Bias);
            let index =
                index.ok_or_else(|| self.error(format!("{role} has no bias that could be changed")))?;
            self.biases.entry(index).or_default().push(number);
        }
        Ok(())
    }

    /// A weight of heads: stored as a stack of matrices, like the site, or as rows, head after head.
    fn plan_form(
        &mut self,
        number: usize,
        site: &AdapterSite,
        index: Option<usize>,
    ) -> Result<(), LoadError> {
        let stored = index.map(|index| self.resolved.tensors.weight(index)).transpose();
        let stored = stored.map_err(|error| self.failed(error))?.map(|weight| weight.shape());
        let fits = match (site.shape, stored) {
            (SiteShape::Experts(own), Some(stored)) => own == stored || stored.count == 1,
            _ => false,
        };
        match index {
            Some(index) if fits => self.weights.entry(index).or_default().push(number),
            _ => {
                return Err(self.error(format!(
                    "{} is stored in another form than the adapter changes; it cannot be merged into this file",
                    site.place.role
                )));
            }
        }
        Ok(())
    }

    /// Writes the model in its format, and every tensor in its type: a file, or a folder with the other files of the
    /// base. The result appears whole or not at all, and replaces an existing one.
    ///
    /// # Errors
    /// [`LoadError::Merge`] names the tensor: a type that cannot be written (without importance), no room; for a folder also
    /// a target that is not the folder of a model, or that contains the base.
    pub fn write(&self, path: impl AsRef<Path>, progress: &mut MergeProgress) -> Result<(), LoadError> {
        let path = path.as_ref();
        match self.resolved.file.format() {
            SourceFormat::Gguf => self.write_gguf(path, progress),
            SourceFormat::Hf => self.write_folder(path, progress),
        }
    }

    /// The tensors of the model with the adapters merged, for a file of another format.
    pub fn merged_tensors(&self) -> MergedTensors<'_> {
        MergedTensors::new(self)
    }

    /// Whether the adapters change a tensor.
    fn changes(&self, index: usize) -> bool {
        self.weights.contains_key(&index) || self.biases.contains_key(&index)
    }

    /// The values of some matrices of a tensor (a vector counts as one) with the adapters merged.
    fn merged(&self, index: usize, matrices: Range<usize>) -> Result<Vec<f32>, ModelError> {
        let whole = self.resolved.tensors.weight(index)?;
        let weight = part(&whole, &matrices)?;
        let mut values = self.compute.backend.values(&weight)?;
        for &site in self.weights.get(&index).into_iter().flatten() {
            self.weight(site, &mut values, (whole.shape(), &matrices))?;
        }
        for &site in self.biases.get(&index).into_iter().flatten() {
            self.bias(site, &mut values)?;
        }
        Ok(values)
    }

    /// Adds the changes of a site to matrices of its tensor.
    fn weight(
        &self,
        site: usize,
        values: &mut [f32],
        (shape, matrices): (WeightShape, &Range<usize>),
    ) -> Result<(), ModelError> {
        let backend = &*self.compute.backend;
        let WeightShape { rows: all, cols, .. } = shape;
        let place = &self.sites[site].place;
        let rows = if place.form == SiteForm::Stored { place.rows.clone() } else { 0..all };
        for (adapter, weight) in self.set.adapters() {
            match adapter.part(site) {
                None => {}
                Some(SitePart::Experts(low_rank)) if shape.count == 1 && place.form != SiteForm::Stored => {
                    add_to_heads(backend, values, cols, (low_rank, &place.form), weight)?;
                }
                Some(SitePart::Linear(part)) => {
                    let own = &mut values[rows.start * cols..rows.end * cols];
                    merge_linear(backend, own, cols, part, weight)?;
                }
                Some(SitePart::Experts(low_rank)) => {
                    for (at, expert) in matrices.clone().enumerate() {
                        let start = (at * all + rows.start) * cols;
                        let own = &mut values[start..start + rows.len() * cols];
                        add_low_rank(backend, own, cols, (low_rank, expert), weight)?;
                    }
                }
                Some(SitePart::Table(TablePart::Whole(table))) => {
                    values.copy_from_slice(&matrix(backend, table, 0)?);
                }
                Some(SitePart::Table(TablePart::LowRank(low_rank))) => {
                    // A row of the table changes by its ranks times the transpose of B.
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

/// Some matrices of a stack, as a stack.
fn part(whole: &Weight, matrices: &Range<usize>) -> Result<Weight, ModelError> {
    let shape = whole.shape();
    if *matrices == (0..shape.count) {
        return Ok(whole.clone());
    }
    let mut bytes = Vec::new();
    for matrix in matrices.clone() {
        bytes.extend_from_slice(whole.matrix(matrix)?);
    }
    let shape = WeightShape { count: matrices.len(), ..shape };
    Weight::new(whole.name(), WeightBytes::Owned(Arc::new(bytes)), whole.block(), shape)
}

/// Rows of values as blocks of a type.
fn encoded(values: &[f32], cols: usize, kind: GgmlType, cpu: &Cpu) -> Result<Vec<u8>, String> {
    let encoder = Encoder::new(kind, cpu).map_err(|error| error.to_string())?;
    let bytes = encoder.bytes(values.len() / cols.max(1), cols).map_err(|error| error.to_string())?;
    let mut blocks = vec![0; bytes];
    encoder.encode(values, cols, None, &mut blocks).map_err(|error| error.to_string())?;
    Ok(blocks)
}
