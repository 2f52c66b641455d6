//! [`GateFile`]: the gates of a mixture on disk, as mistral.rs writes and reads them.
//!
//! A safetensors file with `moe_gate.{layer}.weight` `[experts, D]` and `moe_gate.{layer}.bias` `[experts]`.

use crate::error::LoadError;
use menagerie_loaders::{Dtype, SafetensorsFile, SafetensorsTensor};
use menagerie_spec::layer_ranges;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The gate of one layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerGate {
    /// `[experts, D]`, row after row.
    pub weight: Vec<f32>,
    /// `[experts]`.
    pub bias: Vec<f32>,
}

/// The gates of a mixture, by layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateFile {
    /// By layer.
    pub layers: BTreeMap<usize, LayerGate>,
}

impl GateFile {
    /// Reads a file; its numbers may be F32, F16 or BF16. A layer without a bias has one of zeros.
    ///
    /// # Errors
    /// The file does not exist, or has no gates; a value that is not a number.
    pub(crate) fn read(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        if !path.exists() {
            let reason = "there is no gate; train one: menagerie train-gate RECIPE DATA".to_owned();
            return Err(fault(path, reason));
        }
        let file = SafetensorsFile::open(path, false);
        let file = file.map_err(|error| LoadError::File(menagerie_loaders::LoadError::from(error)))?;
        let mut layers: BTreeMap<usize, LayerGate> = BTreeMap::new();
        let mut rows: BTreeMap<usize, u64> = BTreeMap::new();
        for tensor in file.tensors() {
            let Some((layer, part)) = place(tensor.name()) else {
                let reason = format!(
                    "tensor \"{}\" is no part of a gate: moe_gate.LAYER.weight and moe_gate.LAYER.bias are",
                    tensor.name()
                );
                return Err(fault(path, reason));
            };
            let values = values(&file, tensor)
                .map_err(|reason| fault(path, format!("tensor \"{}\": {reason}", tensor.name())))?;
            let gate = layers.entry(layer).or_default();
            match (part, tensor.shape()) {
                ("weight", [experts, _]) => {
                    rows.insert(layer, *experts);
                    gate.weight = values;
                }
                ("bias", [_]) => gate.bias = values,
                (_, shape) => {
                    let reason = format!("tensor \"{}\" has the shape {shape:?}", tensor.name());
                    return Err(fault(path, format!("{reason}; a weight is [experts, D], a bias [experts]")));
                }
            }
        }
        for (layer, gate) in &mut layers {
            let rows = rows.get(layer).map_or(0, |rows| *rows as usize);
            if gate.bias.is_empty() {
                gate.bias = vec![0.0; rows];
            }
            if rows == 0 || gate.bias.len() != rows {
                let reason = format!(
                    "the gate of layer {layer} has a weight of {rows} experts and a bias of {}",
                    gate.bias.len()
                );
                return Err(fault(path, reason));
            }
        }
        Ok(Self { layers })
    }

    /// Checks the gates against a mixture with this number of experts over rows of this width.
    ///
    /// # Errors
    /// Gates of other layers, of another number of experts, or of another width.
    pub(crate) fn check(
        &self,
        path: &Path,
        layers: &[usize],
        [experts, width]: [usize; 2],
    ) -> Result<(), LoadError> {
        let wanted: BTreeSet<usize> = layers.iter().copied().collect();
        let found: BTreeSet<usize> = self.layers.keys().copied().collect();
        let missing: BTreeSet<usize> = wanted.difference(&found).copied().collect();
        let others: BTreeSet<usize> = found.difference(&wanted).copied().collect();
        for (what, layers) in [("no gate for", &missing), ("a gate for", &others)] {
            if !layers.is_empty() {
                let reason = format!(
                    "it has {what} {}, and the mixture is in {}; train it for this recipe: menagerie train-gate",
                    layer_ranges(layers),
                    layer_ranges(&wanted)
                );
                return Err(fault(path, reason));
            }
        }
        for (layer, gate) in &self.layers {
            let [rows, cols] = gate.shape();
            if [rows, cols] != [experts, width] {
                let reason = format!(
                    "the gate of layer {layer} is [{rows}, {cols}], and {experts} experts over rows of {width} want \
                     [{experts}, {width}]; train it for this recipe: menagerie train-gate"
                );
                return Err(fault(path, reason));
            }
        }
        Ok(())
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (layer, gate) in &self.layers {
            let [rows, cols] = gate.shape();
            let parts =
                [("weight", &gate.weight, vec![rows, cols]), ("bias", &gate.bias, vec![gate.bias.len()])];
            for (part, values, shape) in parts {
                let from = data.len();
                data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, data.len()] });
                header.insert(format!("moe_gate.{layer}.{part}"), entry);
            }
        }
        let header = serde_json::Value::Object(header).to_string();
        // Spaces, so the data begins at a multiple of eight.
        let padded = header.len().next_multiple_of(8);
        let mut bytes = (padded as u64).to_le_bytes().to_vec();
        bytes.extend(format!("{header:<padded$}").into_bytes());
        bytes.extend(data);
        bytes
    }
}

impl LayerGate {
    /// Experts and D.
    fn shape(&self) -> [usize; 2] {
        [self.bias.len(), self.weight.len().checked_div(self.bias.len()).unwrap_or(0)]
    }
}

/// Layer and part of a tensor.
fn place(name: &str) -> Option<(usize, &'static str)> {
    let (layer, part) = name.strip_prefix("moe_gate.")?.split_once('.')?;
    let part = ["weight", "bias"].into_iter().find(|known| *known == part)?;
    Some((layer.parse().ok()?, part))
}

/// The numbers of a tensor.
fn values(file: &SafetensorsFile, tensor: &SafetensorsTensor) -> Result<Vec<f32>, String> {
    let bytes = file.data(tensor).map_err(|error| error.to_string())?;
    let pairs = || bytes.as_chunks::<2>().0.iter();
    let values: Vec<f32> = match tensor.dtype() {
        Dtype::F32 => bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect(),
        Dtype::F16 => pairs().map(|value| half::f16::from_le_bytes(*value).to_f32()).collect(),
        Dtype::BF16 => pairs().map(|value| half::bf16::from_le_bytes(*value).to_f32()).collect(),
        other => return Err(format!("its numbers are {other:?}, and F32, F16 or BF16 are wanted")),
    };
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(format!("it holds {value}: the gate is broken, train it again")),
        None => Ok(values),
    }
}

fn fault(path: &Path, reason: String) -> LoadError {
    LoadError::Mixture { file: path.display().to_string(), reason }
}
