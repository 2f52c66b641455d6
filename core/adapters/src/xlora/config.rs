//! [`XLoraConfig`]: the configuration of an X-LoRA, PEFT's `adapter_config.json` or the original `xlora_config.json`.

use crate::error::{AdapterError, about};
use menagerie_entries::{nearest, nearest_clause};
use menagerie_model::{ScalingNormalization, ScalingSpread, TopScalings, XLoraActivation, XLoraMixing};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The layout of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XLoraLayout {
    /// `adapter_config.json` with `peft_type` XLORA, and `adapter_model.safetensors`.
    Peft,
    /// `xlora_config.json` and `xlora_classifier.safetensors`.
    Published,
}

/// Keys without influence on the computation of a trained X-LoRA.
const IGNORED: [&str; 12] = [
    "auto_mapping",
    "base_model_class",
    "device",
    "inference_mode",
    "parent_library",
    "peft_type",
    "peft_version",
    "revision",
    "stop_token_id",
    "task_type",
    "xlora_dropout_p",
    "xlora_size",
];

/// Keys that are read.
const READ: [&str; 15] = [
    "adapters",
    "base_model_id",
    "base_model_name_or_path",
    "enable_relu_and_dropout",
    "enable_softmax",
    "enable_softmax_topk",
    "global_scaling_weight",
    "hidden_size",
    "layerwise_scalings",
    "scaling_pass_value",
    "softmax_temperature",
    "top_k_lora",
    "use_bias",
    "use_trainable_adapters",
    "xlora_depth",
];

/// An adapter that an X-LoRA mixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XLoraMember {
    /// Its name in the configuration.
    pub(crate) name: String,
    /// Its folder, with an `adapter_config.json`.
    pub(crate) folder: PathBuf,
}

/// The configuration of an X-LoRA.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct XLoraConfig {
    /// The file.
    pub(crate) file: PathBuf,
    /// Its layout.
    pub(crate) layout: XLoraLayout,
    /// The model that it was trained on, as stated in the file.
    pub(crate) base: Option<String>,
    /// The width of the hidden rows that it reads, if stated.
    pub(crate) hidden_size: Option<usize>,
    /// The adapters in the order of the classifier's outputs.
    pub(crate) members: Vec<XLoraMember>,
    /// The number of linears of the classifier.
    pub(crate) depth: usize,
    /// The activation between them.
    pub(crate) between: XLoraActivation,
    /// Whether the linears have biases; absent = as in the file of the classifier.
    pub(crate) bias: Option<bool>,
    /// From the outputs of the classifier to weights.
    pub(crate) mixing: XLoraMixing,
    /// The factor of every adapter.
    pub(crate) global_weight: f32,
}

impl XLoraConfig {
    /// Whether a folder has the configuration of an X-LoRA.
    pub(super) fn is_at(folder: &Path) -> bool {
        let peft = folder.join("adapter_config.json");
        let is_xlora =
            |file: &Path| object(file).is_ok_and(|keys| keys.get("peft_type") == Some(&"XLORA".into()));
        folder.join("xlora_config.json").is_file() || (peft.is_file() && is_xlora(&peft))
    }

    /// Reads the configuration of a folder; `None` if the folder is not an X-LoRA.
    ///
    /// # Errors
    /// A file cannot be read, a key is unknown or has a wrong type, a number is impossible, an adapter is missing.
    pub(crate) fn read(folder: impl AsRef<Path>) -> Result<Option<Self>, AdapterError> {
        let folder = folder.as_ref();
        let published = folder.join("xlora_config.json");
        let (file, layout) = match published.exists() {
            true => (published, XLoraLayout::Published),
            false => (folder.join("adapter_config.json"), XLoraLayout::Peft),
        };
        if !file.exists() {
            return Ok(None);
        }
        let keys = object(&file)?;
        let is_xlora = layout == XLoraLayout::Published || keys.get("peft_type") == Some(&"XLORA".into());
        if !is_xlora {
            return Ok(None);
        }
        XLoraKeys { file: &file, keys: &keys }.config(folder, layout).map(Some)
    }
}

/// The JSON object in a file.
pub(super) fn object(file: &Path) -> Result<Map<String, Value>, AdapterError> {
    let read = |reason: String| about(&file.display().to_string(), reason);
    let text = std::fs::read_to_string(file).map_err(|error| read(error.to_string()))?;
    match serde_json::from_str(&text).map_err(|error| read(error.to_string()))? {
        Value::Object(keys) => Ok(keys),
        _ => Err(read("expected a JSON object".to_owned())),
    }
}

struct XLoraKeys<'a> {
    file: &'a Path,
    keys: &'a Map<String, Value>,
}

impl XLoraKeys<'_> {
    fn config(&self, folder: &Path, layout: XLoraLayout) -> Result<XLoraConfig, AdapterError> {
        self.check_known()?;
        if layout == XLoraLayout::Peft && self.boolean("use_trainable_adapters", false)? {
            return Err(self.error(
                "use_trainable_adapters",
                "the adapters were trained together with the classifier, and the copies that PEFT saves of them lack \
                 layers; only X-LoRAs over fixed adapters are supported in this layout",
            ));
        }
        let depth = self.count("xlora_depth")?.unwrap_or(1);
        if depth == 0 {
            return Err(
                self.error("xlora_depth", "expected at least 1: a classifier has at least one linear")
            );
        }
        let (between, bias) = match layout {
            XLoraLayout::Peft => (XLoraActivation::Relu, Some(true)),
            XLoraLayout::Published => (self.between()?, self.optional_boolean("use_bias")?),
        };
        Ok(XLoraConfig {
            file: self.file.to_owned(),
            layout,
            base: self.text("base_model_name_or_path")?.or(self.text("base_model_id")?),
            hidden_size: self.count("hidden_size")?,
            members: self.members(folder, layout)?,
            depth,
            between,
            bias,
            mixing: self.mixing()?,
            global_weight: self.number("global_scaling_weight", 1.0)?,
        })
    }

    fn between(&self) -> Result<XLoraActivation, AdapterError> {
        Ok(match self.boolean("enable_relu_and_dropout", true)? {
            true => XLoraActivation::Relu,
            false => XLoraActivation::Nothing,
        })
    }

    fn mixing(&self) -> Result<XLoraMixing, AdapterError> {
        let temperature = self.number("softmax_temperature", 1.0)?;
        if temperature <= 0.0 {
            return Err(self.error("softmax_temperature", "expected a number above 0, since it is a divisor"));
        }
        let mixing = XLoraMixing {
            spread: match self.boolean("layerwise_scalings", false)? {
                true => ScalingSpread::PerLayer,
                false => ScalingSpread::SameInAll,
            },
            raw: match self.boolean("enable_softmax", true)? {
                true => ScalingNormalization::Softmax { temperature },
                false => ScalingNormalization::AsTheyAre,
            },
            top_k: self.count("top_k_lora")?,
            kept: match self.boolean("enable_softmax_topk", false)? {
                true => TopScalings::Softmax,
                false => TopScalings::AsTheyAre,
            },
            pass_value: self.number("scaling_pass_value", 0.0)?,
        };
        if mixing.top_k == Some(0) {
            return Err(self.error("top_k_lora", "expected 1 or more, or null for all adapters"));
        }
        Ok(mixing)
    }

    /// The adapters in the order of the file.
    fn members(&self, folder: &Path, layout: XLoraLayout) -> Result<Vec<XLoraMember>, AdapterError> {
        let texts: Vec<(String, String)> = match self.keys.get("adapters") {
            Some(Value::Object(entries)) => {
                let text =
                    |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
                entries.iter().map(text).collect::<Option<_>>()
            }
            Some(Value::Array(names)) => {
                let text = |value: &Value| Some((value.as_str()?.to_owned(), value.as_str()?.to_owned()));
                names.iter().map(text).collect::<Option<_>>()
            }
            _ => None,
        }
        .ok_or_else(|| {
            self.error(
                "adapters",
                "expected the names of the adapters in order, or an object with names and paths",
            )
        })?;
        if texts.is_empty() {
            return Err(self.error("adapters", "there is no adapter to mix"));
        }
        let numbered = texts.iter().enumerate().all(|(index, (name, _))| *name == index.to_string());
        if layout == XLoraLayout::Peft && !numbered {
            return Err(self.error(
                "adapters",
                "expected the names \"0\", \"1\" and so on in this order, as written by PEFT",
            ));
        }
        if self.keys.get("top_k_lora").and_then(Value::as_u64).is_some_and(|k| k as usize > texts.len()) {
            let message = format!("expected at most the number of adapters, {}", texts.len());
            return Err(self.error("top_k_lora", &message));
        }
        texts.into_iter().map(|(name, path)| self.member(folder, name, &path)).collect()
    }

    /// The adapter of a path, which may be from another machine: relative to the file, or by its last part or its name
    /// beside the file.
    fn member(&self, folder: &Path, name: String, path: &str) -> Result<XLoraMember, AdapterError> {
        let last = Path::new(path).components().next_back().map(|part| folder.join(part));
        let candidates = [Some(folder.join(path)), last, Some(folder.join(&name))];
        let is_adapter = |folder: &PathBuf| folder.join("adapter_config.json").is_file();
        match candidates.into_iter().flatten().find(is_adapter) {
            Some(folder) => Ok(XLoraMember { name, folder }),
            None => Err(self.error(
                "adapters",
                &format!(
                    "adapter \"{name}\" ({path}) is missing: there is no adapter_config.json under that path, nor in a \
                     folder with its last part or its name beside the file; download it into a folder \"{name}\" \
                     beside the file"
                ),
            )),
        }
    }

    fn check_known(&self) -> Result<(), AdapterError> {
        let known = |key: &&String| READ.contains(&key.as_str()) || IGNORED.contains(&key.as_str());
        let Some(key) = self.keys.keys().find(|key| !known(key)) else { return Ok(()) };
        let near = nearest_clause(nearest(key, READ));
        Err(self.error(key, &format!("unknown key, which may change the result{near}; update menagerie")))
    }

    /// The value of a key that is present and not null.
    fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    fn optional_boolean(&self, key: &str) -> Result<Option<bool>, AdapterError> {
        let wrong = || self.error(key, "expected true or false");
        self.get(key).map(|value| value.as_bool().ok_or_else(wrong)).transpose()
    }

    fn boolean(&self, key: &str, absent: bool) -> Result<bool, AdapterError> {
        Ok(self.optional_boolean(key)?.unwrap_or(absent))
    }

    fn count(&self, key: &str) -> Result<Option<usize>, AdapterError> {
        let wrong = || self.error(key, "expected a whole number");
        self.get(key).map(|value| value.as_u64().map(|count| count as usize).ok_or_else(wrong)).transpose()
    }

    fn number(&self, key: &str, absent: f32) -> Result<f32, AdapterError> {
        let Some(value) = self.get(key) else { return Ok(absent) };
        let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
        number.ok_or_else(|| self.error(key, "expected a number"))
    }

    fn text(&self, key: &str) -> Result<Option<String>, AdapterError> {
        let wrong = || self.error(key, "expected a text");
        self.get(key).map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong)).transpose()
    }

    fn error(&self, key: &str, reason: &str) -> AdapterError {
        AdapterError::Key {
            file: self.file.display().to_string(),
            key: key.to_owned(),
            reason: reason.to_owned(),
        }
    }
}
