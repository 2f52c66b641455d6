//! `generation_config.json` (transformers, `GenerationConfig`).

use super::document::Document;
use crate::loader::{LoadError, SamplingDefaults};

/// Its sampling settings under the names of `general.sampling.*` (as llama.cpp's converter maps them,
/// gguf-py/gguf/metadata.py). `do_sample: false` is a temperature of 0.
///
/// # Errors
/// A value of an unexpected type.
pub(super) fn sampling(document: &Document) -> Result<SamplingDefaults, LoadError> {
    let real = |field: &str| -> Result<Option<f32>, LoadError> {
        let number = |value: &serde_json::Value| {
            let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
            number.ok_or_else(|| document.wrong(field, "a number"))
        };
        document.get(field).map(number).transpose()
    };
    let top_k = match document.get("top_k") {
        None => None,
        Some(value) => Some(value.as_i64().ok_or_else(|| document.wrong("top_k", "a whole number"))?),
    };
    let greedy = document.flag("do_sample")? == Some(false);
    let temperature = real("temperature")?;
    Ok(SamplingDefaults {
        temperature: if greedy { Some(0.0) } else { temperature },
        top_k,
        top_p: real("top_p")?,
        min_p: real("min_p")?,
        penalty_repeat: real("repetition_penalty")?,
        ..SamplingDefaults::default()
    })
}
