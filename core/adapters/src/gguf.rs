//! Adapters of llama.cpp: a GGUF file with `<tensor>.lora_a` and `<tensor>.lora_b`.
//!
//! Source: `llama-adapter.cpp` and `convert_lora_to_gguf.py` of llama.cpp: the factor is `adapter.lora.alpha` over the
//! rank of the tensor, or 1 if alpha is 0; the A of a table is transposed.

use crate::adapter_tensor::AdapterTensor;
use crate::error::{AdapterError, about, of_module};
use crate::file::{AdapterFile, AdapterFormat};
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use gguf_file::{GgufFile, OpenOptions, TensorInfo, Value};
use menagerie_model::{WeightBytes, WeightShape};
use std::collections::BTreeMap;
use std::path::Path;

/// Whether a file is a GGUF file of the type "adapter".
pub(crate) fn is_adapter(path: &Path) -> bool {
    let file = GgufFile::open(path, &OpenOptions::default());
    file.is_ok_and(|file| {
        file.metadata().get("general.type").and_then(|kind| kind.as_str()) == Some("adapter")
    })
}

/// Reads a GGUF adapter.
pub(crate) fn open(path: &Path) -> Result<AdapterFile, AdapterError> {
    let name = path.display().to_string();
    // Read into memory: an adapter is small, and its file is not monitored later.
    let file = GgufFile::open(path, &OpenOptions::default().with_mmap(false))?;
    let text = |key: &str| file.metadata().get(key).and_then(|value| value.as_str().map(str::to_owned));
    match (text("general.type").as_deref(), text("adapter.type").as_deref()) {
        (Some("adapter"), Some("lora")) => {}
        (Some("adapter"), kind) => {
            let kind = kind.unwrap_or("none");
            return Err(key(&name, "adapter.type", format!("expected \"lora\", found \"{kind}\"")));
        }
        _ => {
            return Err(about(
                &name,
                "this GGUF file is a model, not an adapter (general.type is not \"adapter\"); pass the adapter itself",
            ));
        }
    }
    if file.metadata().contains("adapter.alora.invocation_tokens") {
        let reason = "activated LoRA, which acts only after certain tokens, is not supported";
        return Err(key(&name, "adapter.alora.invocation_tokens", reason));
    }
    let Some(alpha) = file.metadata().get("adapter.lora.alpha").as_ref().and_then(Value::as_f64) else {
        return Err(key(&name, "adapter.lora.alpha", "missing; convert the adapter again"));
    };
    let modules = modules(&name, &file, alpha)?;
    let facts = vec![("alpha".to_owned(), alpha.to_string())];
    Ok(AdapterFile {
        path: path.to_owned(),
        format: AdapterFormat::Gguf,
        base: text("general.base_model.0.name"),
        architecture: text("general.architecture"),
        modules,
        facts,
    })
}

fn key(file: &str, key: &str, reason: impl Into<String>) -> AdapterError {
    AdapterError::Key { file: file.to_owned(), key: key.to_owned(), reason: reason.into() }
}

/// Pairs of tensors, by the name of the tensor they belong to.
fn modules(name: &str, file: &GgufFile, alpha: f64) -> Result<Vec<AdapterModule>, AdapterError> {
    let mut pairs: BTreeMap<String, [Option<&TensorInfo>; 2]> = BTreeMap::new();
    for info in file.tensors() {
        let found = [".lora_a", ".lora_b"].iter().enumerate();
        let mut found = found.filter_map(|(side, suffix)| Some((side, info.name().strip_suffix(suffix)?)));
        let Some((side, tensor)) = found.next_back() else {
            let reason = "unknown tensor: expected a name that ends in .lora_a or .lora_b";
            return Err(of_module(name, info.name(), reason));
        };
        pairs.entry(tensor.to_owned()).or_default()[side] = Some(info);
    }
    if pairs.is_empty() {
        return Err(about(name, "the adapter has no tensors; convert it again"));
    }
    pairs.into_iter().map(|(tensor, pair)| module(name, file, &tensor, pair, alpha)).collect()
}

fn module(
    name: &str,
    file: &GgufFile,
    stored: &str,
    pair: [Option<&TensorInfo>; 2],
    alpha: f64,
) -> Result<AdapterModule, AdapterError> {
    let module = stored.strip_suffix(".weight").unwrap_or(stored);
    let [Some(a), Some(b)] = pair else {
        return Err(of_module(
            name,
            module,
            "one of its two matrices (.lora_a, .lora_b) is missing; the file is incomplete",
        ));
    };
    let (a, b) = (tensor(name, module, file, a)?, tensor(name, module, file, b)?);
    let rank = b.shape.cols;
    let scaling = if alpha == 0.0 { 1.0 } else { (alpha / rank as f64) as f32 };
    let table = module == "token_embd" && a.shape.cols == rank;
    if !table && a.shape.rows != rank {
        let reason = format!(
            "rank mismatch: A is {} and B is {}; expected as many rows of A as columns of B",
            a.written_shape(),
            b.written_shape()
        );
        return Err(of_module(name, module, reason));
    }
    let pair = LowRankPair { a, b, scaling };
    let change = match (table, pair.a.shape.count) {
        (true, _) => ModuleChange::Table(pair),
        (false, 1) => ModuleChange::Linear { pair: Some(pair), magnitude: None, bias: None },
        (false, _) => ModuleChange::Parameter { parameter: String::new(), pair },
    };
    Ok(AdapterModule { name: module.to_owned(), change })
}

fn tensor(
    name: &str,
    module: &str,
    file: &GgufFile,
    info: &TensorInfo,
) -> Result<AdapterTensor, AdapterError> {
    let size = |at: usize| info.dims().get(at).map_or(Ok(1), |dim| usize::try_from(*dim));
    let (Ok(cols), Ok(rows), Ok(count)) = (size(0), size(1), size(2)) else {
        return Err(of_module(
            name,
            module,
            format!("dimensions {:?} are too large for this machine", info.dims()),
        ));
    };
    if info.dims().len() > 3 {
        return Err(of_module(
            name,
            module,
            format!("expected two dimensions (three for experts), found {}", info.dims().len()),
        ));
    }
    let bytes = WeightBytes::Mapped(file.data(info)?);
    let made = AdapterTensor::new(info.name(), bytes, info.kind(), WeightShape { count, rows, cols });
    made.map_err(|error| of_module(name, module, error.to_string()))
}
