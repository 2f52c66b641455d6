//! The HF directory of a fixture, made again in a folder of its own: `hf/config.json`, and the weights that `hf/tensors.json` finds
//! in the fixture's GGUF (see `reference/hf_tensors.py`, which wrote it and says what its lines mean).

use half::{bf16, f16};
use menagerie::gguf::{GgmlType, GgufFile, OpenOptions};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Whether a fixture has everything that its HF directory needs.
pub fn has_hf(fixture: &Path) -> bool {
    fixture.join("hf/tensors.json").exists()
}

/// Makes the HF directory of a fixture from its GGUF; `config` is copied as its `config.json`.
pub fn make(fixture: &Path, gguf: &Path, config: &Path) -> TempDir {
    let into = tempfile::tempdir().unwrap();
    std::fs::copy(config, into.path().join("config.json"))
        .unwrap_or_else(|e| panic!("{}: {e}", config.display()));
    let path = fixture.join("hf/tensors.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let said: Value = serde_json::from_str(&text).unwrap();
    let source = Source::open(gguf, &fixture.join("hf/extra.safetensors"));
    let tensors: Vec<(&String, Dtype, Vec<usize>, Vec<u8>)> = said["tensors"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, how)| {
            let dtype = how.get("dtype").unwrap_or(&said["dtype"]).as_str().unwrap();
            let how = how.as_object().unwrap();
            let (dtype, bytes) = source.bytes(name, how, dtype);
            (name, dtype, shape(how), bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        (
            name.as_str(),
            TensorView::new(*dtype, shape.clone(), bytes).unwrap_or_else(|e| panic!("{name}: {e}")),
        )
    });
    serialize_to_file(views, None, &into.path().join("model.safetensors")).unwrap();
    into
}

/// The config in the way of transformers 4 that a fixture has, if it is of the same class: where the converter wants the weights
/// under other names, it is of the class that has them.
pub fn hub_config(fixture: &Path) -> Option<PathBuf> {
    let class = |path: &Path| -> Value {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["architectures"].clone()
    };
    let hub = Some(fixture.join("config.hub-style.json")).filter(|path| path.exists())?;
    (class(&hub) == class(&fixture.join("hf/config.json"))).then_some(hub)
}

fn shape(how: &Map<String, Value>) -> Vec<usize> {
    serde_json::from_value(how["shape"].clone()).unwrap()
}

/// A tensor in f32, its dimensions as HF has them.
struct Tensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// Where values are taken from: the tensors of a GGUF, and those that it does not contain.
struct Source {
    tensors: HashMap<String, Tensor>,
    extra: Option<Vec<u8>>,
}

impl Source {
    fn open(gguf: &Path, extra: &Path) -> Self {
        let file = GgufFile::open(gguf, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let tensors = file.tensors().iter().map(|tensor| {
            let bytes = file.data(tensor).unwrap();
            let values = match tensor.kind() {
                GgmlType::F32 => floats(&bytes),
                GgmlType::F16 => halves(&bytes),
                other => panic!("{}: {other:?}", tensor.name()),
            };
            let shape = tensor.dims().iter().rev().map(|&dim| dim as usize).collect();
            (tensor.name().to_owned(), Tensor { shape, values })
        });
        Self { tensors: tensors.collect(), extra: std::fs::read(extra).ok() }
    }

    fn bytes(&self, name: &str, how: &Map<String, Value>, dtype: &str) -> (Dtype, Vec<u8>) {
        if !how.contains_key("extra") {
            let values = self.values(how);
            return match dtype {
                "F32" => (Dtype::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect()),
                "F16" => (Dtype::F16, values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect()),
                "BF16" => {
                    (Dtype::BF16, values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect())
                }
                other => panic!("{name}: {other}"),
            };
        }
        let extra = SafeTensors::deserialize(self.extra.as_ref().expect("extra.safetensors")).unwrap();
        let tensor = extra.tensor(name).unwrap();
        match (tensor.dtype(), dtype) {
            (Dtype::F16, "F32") => {
                (Dtype::F32, halves(tensor.data()).iter().flat_map(|x| x.to_le_bytes()).collect())
            }
            (stored, _) => (stored, tensor.data().to_vec()),
        }
    }

    fn values(&self, how: &Map<String, Value>) -> Vec<f32> {
        let shape = shape(how);
        if how.contains_key("zeros") {
            return vec![0.0; shape.iter().product()];
        }
        if let Some(from) = how.get("from") {
            let values = self.tensors[from.as_str().unwrap()].values.clone();
            return match how.get("times").and_then(Value::as_f64) {
                Some(factor) => values.iter().map(|x| f16::from_f32(x * factor as f32).to_f32()).collect(),
                None => values,
            };
        }
        let columns = how.contains_key("columns");
        let (&rows, &cols) = match shape.as_slice() {
            [.., rows, cols] => (rows, cols),
            [cols] => (&1, cols),
            [] => (&1, &1),
        };
        let usual = if columns { rows } else { cols };
        let unit = how.get("unit").and_then(Value::as_u64).map_or(usual, |unit| unit as usize);
        let taken = self.take(how["take"].as_array().unwrap(), unit);
        if columns { swapped(&taken, cols, rows) } else { taken }
    }

    /// Units one after the other, as in the runs: the tensor, the first unit, the number, the step.
    fn take(&self, runs: &[Value], unit: usize) -> Vec<f32> {
        let mut out = Vec::new();
        let mut values = Vec::new();
        for run in runs {
            let run = run.as_array().unwrap();
            let numbers = match run[0].as_str() {
                Some(name) => {
                    values = self.named(name);
                    &run[1..]
                }
                None => run.as_slice(),
            };
            let number = |at: usize| numbers.get(at).map_or(1, |x: &Value| x.as_i64().unwrap());
            for k in 0..number(1) {
                let at = usize::try_from(number(0) + k * number(2)).unwrap() * unit;
                out.extend_from_slice(&values[at..at + unit]);
            }
        }
        out
    }

    /// A tensor's values, its last two dimensions swapped if its name ends with `^T`.
    fn named(&self, name: &str) -> Vec<f32> {
        let Some(turned) = name.strip_suffix("^T") else { return self.tensors[name].values.clone() };
        let tensor = &self.tensors[turned];
        let [.., rows, cols] = tensor.shape.as_slice() else { panic!("{name}") };
        swapped(&tensor.values, *rows, *cols)
    }
}

/// Every matrix of `rows` by `cols` with the two swapped.
fn swapped(values: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    let matrices = values.chunks_exact(rows * cols);
    matrices
        .flat_map(|m| (0..cols).flat_map(move |col| (0..rows).map(move |row| m[row * cols + col])))
        .collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn halves(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|b| f16::from_le_bytes(b.try_into().unwrap()).to_f32()).collect()
}
