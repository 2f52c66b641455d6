//! [`PeftConfig`]: `adapter_config.json`. Keys that change the result are read or refused; all others are known to be
//! harmless.

use super::patterns::Patterns;
use crate::error::{AdapterError, about};
use serde_json::{Map, Value};
use std::path::Path;

/// Keys about the training or the origin of an adapter, without influence on its computation.
const HARMLESS: [&str; 22] = [
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "megatron_config",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "target_parameters",
    "task_type",
];

/// Keys that are read.
const READ: [&str; 9] = [
    "alpha_pattern",
    "bias",
    "init_lora_weights",
    "lora_alpha",
    "r",
    "rank_pattern",
    "use_dora",
    "use_rslora",
    "lora_bias",
];

/// Initializations that change the weights of the model, so that the adapter does not fit the published model.
const CHANGES_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

/// The configuration of an adapter.
#[derive(Clone, Debug)]
pub(super) struct PeftConfig {
    file: String,
    /// The model that it was trained on.
    pub(super) base: Option<String>,
    rank: f64,
    alpha: f64,
    ranks: Patterns,
    alphas: Patterns,
    scale_by: ScaleBy,
    /// Parameters trained in place of modules (`mlp.experts.gate_up_proj`).
    pub(super) target_parameters: Vec<String>,
    /// Whether it has DoRA magnitudes.
    pub(super) dora: Dora,
    facts: Vec<(String, String)>,
}

/// The divisor of alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScaleBy {
    Rank,
    /// rsLoRA (Kalajdzievski, 2023).
    RootOfRank,
}

/// Whether the magnitudes of rows were trained (DoRA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dora {
    Absent,
    Present,
}

impl PeftConfig {
    /// Reads `adapter_config.json`.
    pub(super) fn read(path: &Path) -> Result<Self, AdapterError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let reason = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "there is no such file; a PEFT folder has adapter_config.json and adapter_model.safetensors".to_owned()
                }
                _ => error.to_string(),
            };
            about(&file, reason)
        })?;
        match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => Self::of(&file, &map),
            Ok(_) => Err(about(&file, "expected a JSON object, as written by PEFT")),
            Err(error) => Err(about(&file, format!("invalid JSON: {error}"))),
        }
    }

    fn of(file: &str, map: &Map<String, Value>) -> Result<Self, AdapterError> {
        let keys = PeftKeys { file, map };
        keys.kind()?;
        keys.refuse_unknown()?;
        keys.init()?;
        let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
        let (rank, alpha) = (keys.number("r", 8.0)?, keys.number("lora_alpha", 8.0)?);
        if rank < 1.0 {
            return Err(keys.error("r", format!("expected a rank of at least 1, found {rank}")));
        }
        let scale_by = if keys.flag("use_rslora")? { ScaleBy::RootOfRank } else { ScaleBy::Rank };
        let dora = if keys.flag("use_dora")? { Dora::Present } else { Dora::Absent };
        let mut facts = vec![("rank".to_owned(), rank.to_string()), ("alpha".to_owned(), alpha.to_string())];
        let mut fact = |key: &str, value: &str| facts.push((key.to_owned(), value.to_owned()));
        if scale_by == ScaleBy::RootOfRank {
            fact("scaling", "rsLoRA: alpha over the root of the rank");
        }
        if dora == Dora::Present {
            fact("kind", "DoRA");
        }
        if let Some(bias) = text("bias").filter(|bias| bias != "none") {
            fact("bias", &bias);
        }
        Ok(Self {
            file: file.to_owned(),
            base: text("base_model_name_or_path").filter(|base| !base.is_empty()),
            rank,
            alpha,
            ranks: keys.patterns("rank_pattern")?,
            alphas: keys.patterns("alpha_pattern")?,
            scale_by,
            target_parameters: keys.texts("target_parameters")?,
            dora,
            facts,
        })
    }

    /// Facts for listings.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }

    /// The file, for messages.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The rank of a module.
    ///
    /// # Errors
    /// A pattern reached its limit on the name.
    pub(super) fn rank(&self, module: &str) -> Result<usize, AdapterError> {
        let rank = self.ranks.get(module).map_err(|reason| self.error("rank_pattern", reason))?;
        Ok(rank.unwrap_or(self.rank) as usize)
    }

    /// The factor of the product of a module.
    ///
    /// # Errors
    /// As [`Self::rank`].
    pub(super) fn scaling(&self, module: &str) -> Result<f32, AdapterError> {
        let alpha = self.alphas.get(module).map_err(|reason| self.error("alpha_pattern", reason))?;
        let (rank, alpha) = (self.rank(module)? as f64, alpha.unwrap_or(self.alpha));
        Ok(match self.scale_by {
            ScaleBy::Rank => (alpha / rank) as f32,
            ScaleBy::RootOfRank => (alpha / rank.sqrt()) as f32,
        })
    }

    fn error(&self, key: &str, reason: String) -> AdapterError {
        AdapterError::Key { file: self.file.clone(), key: key.to_owned(), reason }
    }
}

/// The keys of a configuration, and the file for messages.
struct PeftKeys<'a> {
    file: &'a str,
    map: &'a Map<String, Value>,
}

impl PeftKeys<'_> {
    fn error(&self, key: &str, reason: impl Into<String>) -> AdapterError {
        AdapterError::Key { file: self.file.to_owned(), key: key.to_owned(), reason: reason.into() }
    }

    fn kind(&self) -> Result<(), AdapterError> {
        match self.map.get("peft_type").and_then(Value::as_str) {
            Some("LORA") => Ok(()),
            Some("XLORA") => {
                Err(self.error("peft_type", "this is an X-LoRA mixture of adapters; pass it with --xlora"))
            }
            Some(other) => Err(self.error(
                "peft_type",
                format!("expected LORA or XLORA, found \"{other}\"; merge the adapter with PEFT"),
            )),
            None => Err(self.error("peft_type", "missing; this is not a PEFT adapter")),
        }
    }

    /// Refuses unknown keys, and keys that change the result in an unsupported way.
    fn refuse_unknown(&self) -> Result<(), AdapterError> {
        for (key, value) in self.map {
            let says_nothing = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(items) => items.is_empty(),
                _ => false,
            };
            let known =
                HARMLESS.contains(&key.as_str()) || (READ.contains(&key.as_str()) && key != "lora_bias");
            if says_nothing || known {
                continue;
            }
            return Err(self.error(key, refusal(key)));
        }
        match self.map.get("bias").and_then(Value::as_str) {
            None | Some("none" | "all" | "lora_only") => Ok(()),
            Some(other) => {
                Err(self.error("bias", format!("expected none, all or lora_only, found \"{other}\"")))
            }
        }
    }

    /// Refuses adapters to weights that were changed before training.
    fn init(&self) -> Result<(), AdapterError> {
        const KEY: &str = "init_lora_weights";
        let Some(how) = self.map.get(KEY).and_then(Value::as_str) else { return Ok(()) };
        let how = how.to_lowercase();
        if CHANGES_BASE.iter().any(|prefix| how.starts_with(prefix)) {
            let reason = format!(
                "\"{how}\" changed the weights of the model before training, so the adapter does not fit the published \
                 weights; save it with path_initial_model_for_weight_conversion, which converts it to plain LoRA"
            );
            return Err(self.error(KEY, reason));
        }
        match how.as_str() {
            "gaussian" | "eva" | "orthogonal" => Ok(()),
            _ => Err(self.error(
                KEY,
                format!(
                    "\"{how}\" is unknown and may change the weights of the model; merge the adapter with PEFT"
                ),
            )),
        }
    }

    fn number(&self, key: &str, default: f64) -> Result<f64, AdapterError> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value.as_f64().ok_or_else(|| self.error(key, "expected a number")),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, AdapterError> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.error(key, "expected true or false")),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, AdapterError> {
        let wrong = || self.error(key, "expected a list of names");
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    fn patterns(&self, key: &str) -> Result<Patterns, AdapterError> {
        let entries = match self.map.get(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Object(map)) => {
                let entry = |(pattern, value): (&String, &Value)| Some((pattern.clone(), value.as_f64()?));
                let entries: Option<Vec<_>> = map.iter().map(entry).collect();
                entries.ok_or_else(|| self.error(key, "expected a number for each pattern"))?
            }
            Some(_) => return Err(self.error(key, "expected an object with patterns and numbers")),
        };
        if key == "rank_pattern"
            && let Some((pattern, rank)) = entries.iter().find(|(_, rank)| *rank < 1.0)
        {
            return Err(
                self.error(key, format!("expected a rank of at least 1 for \"{pattern}\", found {rank}"))
            );
        }
        Patterns::new(&entries).map_err(|reason| self.error(key, reason))
    }
}

/// The reason for refusing a key.
fn refusal(key: &str) -> &'static str {
    match key {
        "lora_bias" => "biases inside the low-rank product are not supported; train without lora_bias",
        "trainable_token_indices" => {
            "single trained rows of the embedding are not supported; merge the adapter with PEFT and convert the model"
        }
        "alora_invocation_tokens" => "activated LoRA, which acts only after certain tokens, is not supported",
        "layer_replication" => {
            "repeated layers are not supported; merge the adapter with PEFT and convert the model"
        }
        "use_qalora" | "use_bdlora" | "arrow_config" | "kasa_config" | "velora_config"
        | "monteclora_config" | "corda_config" | "lora_ga_config" => {
            "this variant of LoRA is not supported; merge the adapter with PEFT and convert the model"
        }
        _ => {
            "unknown key, which may change the result; update menagerie, or remove the key if it does not matter"
        }
    }
}
