//! [`StoredClassifier`]: the classifier of an X-LoRA on disk.

use super::config::{XLoraConfig, XLoraLayout};
use crate::error::{AdapterError, about};
use gguf_file::GgmlType;
use menagerie_loaders::{Dtype, SafetensorsFile, SafetensorsTensor};
use menagerie_model::{
    Compute, DenseLinear, ModelError, Param, Weight, WeightBytes, WeightShape, XLoraClassifier,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A linear: its weight `[out, in]` and bias `[out]`.
#[derive(Clone, Debug, Default)]
struct StoredLinear {
    weight: Option<Weight>,
    bias: Option<Weight>,
}

/// The linears of a classifier, in order.
#[derive(Clone, Debug)]
pub(super) struct StoredClassifier {
    file: PathBuf,
    linears: Vec<StoredLinear>,
}

impl StoredClassifier {
    /// Reads the classifier of a configuration.
    pub(super) fn read(folder: &Path, config: &XLoraConfig) -> Result<Self, AdapterError> {
        let name = match config.layout {
            XLoraLayout::Peft => "adapter_model.safetensors",
            XLoraLayout::Published => "xlora_classifier.safetensors",
        };
        let path = folder.join(name);
        if !path.is_file() {
            let pickle = if folder.join(name.replace(".safetensors", ".pt")).is_file() {
                "there is only a pickle (.pt), which can run code when it is read; save the classifier as safetensors"
            } else {
                "the classifier is missing; download it too"
            };
            return Err(about(&path.display().to_string(), pickle));
        }
        let file = SafetensorsFile::open(&path, false)?;
        let mut linears: BTreeMap<usize, StoredLinear> = BTreeMap::new();
        for tensor in file.tensors() {
            let Some((index, part)) = place(tensor.name(), config.layout) else {
                if tensor.name().contains(".lora_") {
                    // A copy of an adapter, which is complete in its own folder.
                    continue;
                }
                return Err(error(&path, tensor.name(), "unknown tensor of a classifier; update menagerie"));
            };
            let weight = stored(&file, tensor).map_err(|reason| error(&path, tensor.name(), &reason))?;
            let linear = linears.entry(index).or_default();
            match part {
                "weight" => linear.weight = Some(weight),
                _ => linear.bias = Some(weight),
            }
        }
        let stored = Self { file: path, linears: linears.into_values().collect() };
        stored.check(config)?;
        Ok(stored)
    }

    /// The memory of all linears in bytes, as f32.
    pub(super) fn memory_bytes(&self) -> u64 {
        let weights = self.linears.iter().flat_map(|linear| [&linear.weight, &linear.bias]).flatten();
        let bytes = |weight: &Weight| {
            let WeightShape { count, rows, cols } = weight.shape();
            (count * rows * cols * size_of::<f32>()) as u64
        };
        weights.map(bytes).sum()
    }

    /// Checks that there are as many linears as the configuration says, each with its biases.
    fn check(&self, config: &XLoraConfig) -> Result<(), AdapterError> {
        let file = self.file.display().to_string();
        let whole = self.linears.iter().filter(|linear| linear.weight.is_some()).count();
        if whole != config.depth || self.linears.len() != config.depth {
            let reason = format!(
                "it has {whole} linears of a classifier, but xlora_depth is {}; PEFT 0.21 omits linears when it saves an \
                 X-LoRA, so save it with PEFT 0.17",
                config.depth
            );
            return Err(about(&file, reason));
        }
        let wrong = |linear: &StoredLinear| config.bias.is_some_and(|bias| bias != linear.bias.is_some());
        if let Some(index) = self.linears.iter().position(wrong) {
            let (has, wants) =
                if config.bias == Some(true) { ("no", "have one") } else { ("a", "have none") };
            return Err(about(
                &file,
                format!("linear {index} has {has} bias, but use_bias says that the linears {wants}"),
            ));
        }
        Ok(())
    }

    /// The file, for messages.
    pub(super) fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// The classifier of a model, from rows of `inputs` to rows of `outputs` elements, in f32.
    pub(super) fn fit(
        &self,
        config: &XLoraConfig,
        [inputs, outputs]: [usize; 2],
        compute: &Compute,
    ) -> Result<XLoraClassifier, ModelError> {
        let mut linears = Vec::with_capacity(self.linears.len());
        for stored in &self.linears {
            let Some(weight) = &stored.weight else { continue };
            let bias = stored.bias.as_ref().map(|bias| -> Result<Param, ModelError> {
                compute.backend.vector(bias.name(), finite(bias, compute)?)
            });
            let values = finite(weight, compute)?;
            let weight = Weight::from_f32(weight.name(), &values, weight.shape())?;
            let weight = compute.backend.matrix(&weight, compute.arithmetic)?;
            linears.push(DenseLinear::new(weight, bias.transpose()?)?);
        }
        XLoraClassifier::new(linears, config.between, [inputs, outputs])
    }
}

/// The values of a tensor, which must be finite.
fn finite(weight: &Weight, compute: &Compute) -> Result<Vec<f32>, ModelError> {
    let values = compute.backend.values(weight)?;
    weight.expect_finite(&values)?;
    Ok(values)
}

/// The index of the linear that a tensor belongs to, and whether the tensor is its weight or its bias. Modules without
/// tensors (ReLU, dropout) also take indices, so the indices have gaps.
fn place(name: &str, layout: XLoraLayout) -> Option<(usize, &'static str)> {
    let (rest, part) = match name.rsplit_once('.')? {
        (rest, "weight") => (rest, "weight"),
        (rest, "bias") => (rest, "bias"),
        _ => return None,
    };
    let index = match layout {
        XLoraLayout::Peft => rest.rsplit_once("internal_xlora_classifier.layers.")?.1.parse().ok()?,
        XLoraLayout::Published if rest == "last" => usize::MAX,
        XLoraLayout::Published => rest.strip_prefix("inner.")?.parse().ok()?,
    };
    Some((index, part))
}

/// A tensor as a weight; a vector is one row.
fn stored(file: &SafetensorsFile, tensor: &SafetensorsTensor) -> Result<Weight, String> {
    let block = match tensor.dtype() {
        Dtype::F32 => GgmlType::F32,
        Dtype::F16 => GgmlType::F16,
        Dtype::BF16 => GgmlType::BF16,
        other => return Err(format!("expected F32, F16 or BF16, found {other:?}")),
    };
    let size =
        |dim: &u64| usize::try_from(*dim).map_err(|_| "its shape is too large for this machine".to_owned());
    let dims = tensor.shape().iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let shape = match dims.as_slice() {
        [cols] => WeightShape { count: 1, rows: 1, cols: *cols },
        [rows, cols] => WeightShape { count: 1, rows: *rows, cols: *cols },
        other => return Err(format!("expected a matrix or a vector, found shape {other:?}")),
    };
    let bytes = file.data(tensor).map_err(|error| error.to_string())?;
    Weight::new(tensor.name(), WeightBytes::Mapped(bytes), block, shape).map_err(|error| error.to_string())
}

fn error(file: &Path, tensor: &str, reason: &str) -> AdapterError {
    about(&file.display().to_string(), format!("tensor \"{tensor}\": {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_layouts_are_recognized() {
        let peft = |name: &str| place(name, XLoraLayout::Peft);
        assert_eq!(peft("base_model.internal_xlora_classifier.layers.3.weight"), Some((3, "weight")));
        assert_eq!(peft("base_model.internal_xlora_classifier.layers.0.bias"), Some((0, "bias")));
        assert_eq!(peft("base_model.internal_xlora_classifier.last.bias"), None);
        let published = |name: &str| place(name, XLoraLayout::Published);
        assert_eq!(published("inner.3.bias"), Some((3, "bias")));
        assert_eq!(published("last.weight"), Some((usize::MAX, "weight")));
        assert_eq!(published("layers.0.weight"), None);
    }
}
