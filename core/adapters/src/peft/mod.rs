//! PEFT folders: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Source: PEFT 0.21, `tuners/lora/config.py`, `layer.py`, `variants.py` and `utils/save_and_load.py`.

mod config;
mod modules;
mod patterns;
mod tensor_name;

use crate::error::{AdapterError, about};
use crate::file::{AdapterFile, AdapterFormat};
use config::PeftConfig;
use menagerie_loaders::SafetensorsFile;
use std::path::Path;

/// The configuration of an adapter.
pub(crate) const CONFIG: &str = "adapter_config.json";
/// The tensors of an adapter.
pub(crate) const WEIGHTS: &str = "adapter_model.safetensors";

/// Reads a PEFT folder.
pub(crate) fn open(folder: &Path) -> Result<AdapterFile, AdapterError> {
    let config = PeftConfig::read(&folder.join(CONFIG))?;
    let weights = folder.join(WEIGHTS);
    if !weights.is_file() {
        let reason = match folder.join("adapter_model.bin").is_file() {
            true => {
                "the weights are a pickle (adapter_model.bin), which can run code when it is read; save the adapter as \
                 safetensors"
            }
            false => "there is no adapter_model.safetensors beside adapter_config.json; download it too",
        };
        return Err(about(&folder.display().to_string(), reason));
    }
    // Read into memory: an adapter is small, and its file is not monitored later.
    let file = SafetensorsFile::open(&weights, false)?;
    let modules = modules::modules(&file, &config)?;
    Ok(AdapterFile {
        path: folder.to_owned(),
        format: AdapterFormat::Peft,
        base: config.base.clone(),
        architecture: None,
        modules,
        facts: config.facts(),
    })
}
