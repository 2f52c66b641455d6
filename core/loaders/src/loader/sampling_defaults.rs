//! The sampling defaults of a file.

use gguf_file::Metadata;

/// The `general.sampling.*` keys of a file (llama-arch.cpp, `LLM_KV_GENERAL_SAMPLING_*`); `None` where absent.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)]
pub struct SamplingDefaults {
    /// Names of samplers in their order, separated by `;`.
    pub sequence: Option<String>,
    pub temperature: Option<f32>,
    pub top_k: Option<i64>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    /// The number of tokens that the repetition penalty looks back; -1 is the whole context.
    pub penalty_last_n: Option<i64>,
    pub penalty_repeat: Option<f32>,
    pub mirostat: Option<i64>,
    pub mirostat_tau: Option<f32>,
    pub mirostat_eta: Option<f32>,
}

type Fault = (&'static str, String);

impl SamplingDefaults {
    /// Reads the keys; the error is a key with a value of another type, and what is wrong.
    pub(super) fn read(metadata: &Metadata) -> Result<Self, Fault> {
        let real = |key: &'static str| -> Result<Option<f32>, Fault> {
            let Some(value) = metadata.get(key) else {
                return Ok(None);
            };
            let number = value.as_f64().filter(|number| number.is_finite());
            number
                .map(|number| Some(number as f32))
                .ok_or_else(|| (key, format!("expected a number, found {value:?}")))
        };
        let integer = |key: &'static str| -> Result<Option<i64>, Fault> {
            let Some(value) = metadata.get(key) else {
                return Ok(None);
            };
            value.as_i64().map(Some).ok_or_else(|| (key, format!("expected an integer, found {value:?}")))
        };
        let sequence = "general.sampling.sequence";
        let text = metadata
            .get(sequence)
            .map(|value| value.as_str().map(str::to_owned).ok_or((sequence, "expected a string".to_owned())));
        Ok(Self {
            sequence: text.transpose()?,
            temperature: real("general.sampling.temp")?,
            top_k: integer("general.sampling.top_k")?,
            top_p: real("general.sampling.top_p")?,
            min_p: real("general.sampling.min_p")?,
            xtc_probability: real("general.sampling.xtc_probability")?,
            xtc_threshold: real("general.sampling.xtc_threshold")?,
            penalty_last_n: integer("general.sampling.penalty_last_n")?,
            penalty_repeat: real("general.sampling.penalty_repeat")?,
            mirostat: integer("general.sampling.mirostat")?,
            mirostat_tau: real("general.sampling.mirostat_tau")?,
            mirostat_eta: real("general.sampling.mirostat_eta")?,
        })
    }

    /// Whether the file has no sampling defaults.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
