//! [`Folder`]: the files of a repository that form a model or an adapter in the Hugging Face format.

/// The list of shards of a model.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Longest index that is read, in bytes: ten times that of a model with 1000 shards and 100,000 tensors.
pub(crate) const LONGEST_INDEX: u64 = 1 << 26;

/// The files of a model besides its weights: configuration, vocabulary, chat template and pooling. Python pickles, which
/// are programs, are never downloaded.
const BESIDE: [&str; 17] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "config_sentence_transformers.json",
];

/// The files of an adapter in any folder: the adapters of an X-LoRA are in subfolders.
const ADAPTER: [&str; 4] =
    ["adapter_config.json", "xlora_config.json", "adapter_model.safetensors", "xlora_classifier.safetensors"];

/// The files of a model or adapter among those of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Small files, the index included.
    pub(crate) beside: Vec<String>,
    /// Weights.
    pub(crate) weights: Weights,
}

/// The weights of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Weights {
    /// [`INDEX`] names them.
    Indexed,
    /// These files.
    Files(Vec<String>),
}

impl Folder {
    /// Selects the files of a folder from a list; `None` without a configuration or without safetensors.
    pub(crate) fn of(files: &[String]) -> Option<Self> {
        let has = |name: &str| files.iter().any(|file| file == name);
        let weights = weights(files);
        if has("config.json")
            && let Some(weights) = weights
        {
            let pooled = has("modules.json");
            let beside = |file: &&String| {
                BESIDE.contains(&file.as_str())
                    || is_template(file)
                    || (pooled && is_of_module(file))
                    || (**file == INDEX && weights == Weights::Indexed)
            };
            return Some(Self { beside: files.iter().filter(beside).cloned().collect(), weights });
        }
        let of_adapter = files.iter().filter(|file| ADAPTER.contains(&last(file)));
        let (weights, beside): (Vec<String>, Vec<String>) =
            of_adapter.cloned().partition(|file| file.ends_with(".safetensors"));
        let whole = beside.iter().any(|file| !file.contains('/')) && !weights.is_empty();
        whole.then_some(Self { beside, weights: Weights::Files(weights) })
    }

    /// All weights; `index` reads [`INDEX`] if the model has one.
    ///
    /// # Errors
    /// The index is invalid.
    pub(crate) fn weights(
        &self,
        index: impl FnOnce() -> Result<String, String>,
    ) -> Result<Vec<String>, String> {
        match &self.weights {
            Weights::Files(files) => Ok(files.clone()),
            Weights::Indexed => shards(&index()?),
        }
    }
}

/// The weights in the top folder of a repository.
fn weights(files: &[String]) -> Option<Weights> {
    if files.iter().any(|file| file == INDEX) {
        return Some(Weights::Indexed);
    }
    let there: Vec<&String> = files
        .iter()
        .filter(|file| {
            file.ends_with(".safetensors") && !file.contains('/') && !ADAPTER.contains(&file.as_str())
        })
        .collect();
    let whole = there.iter().find(|file| file.as_str() == "model.safetensors");
    let shards: Vec<&&String> = there.iter().filter(|file| is_shard(file)).collect();
    let chosen: Vec<String> = match (whole, there.as_slice()) {
        (Some(whole), _) => vec![whole.to_string()],
        (None, [only]) => vec![only.to_string()],
        (None, _) => shards.into_iter().map(ToString::to_string).collect(),
    };
    (!chosen.is_empty()).then_some(Weights::Files(chosen))
}

/// `model-00001-of-00003.safetensors`.
fn is_shard(file: &str) -> bool {
    let parts = file.strip_prefix("model-").and_then(|rest| rest.strip_suffix(".safetensors"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts
        .and_then(|parts| parts.split_once("-of-"))
        .is_some_and(|(part, total)| digits(part) && digits(total))
}

fn is_template(file: &str) -> bool {
    file.strip_prefix("additional_chat_templates/")
        .is_some_and(|name| name.ends_with(".jinja") && !name.contains('/'))
}

/// `1_Pooling/config.json` or `2_Dense/model.safetensors`: the modules of sentence-transformers.
fn is_of_module(file: &str) -> bool {
    let module =
        |folder: &str| folder.starts_with(|first: char| first.is_ascii_digit()) && folder.contains('_');
    file.split_once('/')
        .is_some_and(|(folder, name)| module(folder) && matches!(name, "config.json" | "model.safetensors"))
}

fn last(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// The files that an index names, sorted.
fn shards(index: &str) -> Result<Vec<String>, String> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let index: Index = serde_json::from_str(index).map_err(|error| format!("{INDEX}: {error}"))?;
    let mut files: Vec<String> = index.weight_map.into_values().collect();
    files.sort();
    files.dedup();
    let safe = |file: &String| crate::identifiers::is_safe_file(file) && file.ends_with(".safetensors");
    match files.iter().find(|file| !safe(file)) {
        Some(file) => {
            Err(format!("{INDEX} names {file:?}, which is not a safetensors file of the repository"))
        }
        None if files.is_empty() => Err(format!("{INDEX} does not name any files")),
        None => Ok(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn found(names: &[&str]) -> Option<(Vec<String>, Weights)> {
        Folder::of(&files(names)).map(|folder| (folder.beside, folder.weights))
    }

    #[test]
    fn a_model_is_its_configuration_vocabulary_and_safetensors() {
        let all = [
            "README.md",
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "onnx/model.onnx",
            "pytorch_model.bin",
            "original/params.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
            "additional_chat_templates/tool.jinja",
            "consolidated.safetensors",
            "model.fp16.safetensors",
        ];
        let (beside, weights) = found(&all).unwrap();
        assert_eq!(weights, Weights::Files(files(&["model.safetensors"])));
        assert_eq!(
            beside,
            files(&[
                "config.json",
                "generation_config.json",
                "tokenizer.json",
                "tokenizer_config.json",
                "chat_template.jinja",
                "additional_chat_templates/tool.jinja"
            ])
        );
        let (beside, weights) = found(&["config.json", INDEX, "model-00001-of-00002.safetensors"]).unwrap();
        assert_eq!((beside, weights), (files(&["config.json", INDEX]), Weights::Indexed));
        let parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        let (_, weights) = found(&["config.json", parts[0], parts[1], "optimizer.safetensors"]).unwrap();
        assert_eq!(weights, Weights::Files(files(&parts)));
        let (beside, _) = found(&[
            "config.json",
            "m.safetensors",
            "modules.json",
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "2_Dense/pytorch_model.bin",
            "x/config.json",
        ])
        .unwrap();
        assert_eq!(
            beside,
            files(&["config.json", "modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors"])
        );
        for none in [
            &["config.json", "pytorch_model.bin"][..],
            &["model.safetensors"],
            &[],
            &["config.json", "a.safetensors", "b.safetensors"],
        ] {
            assert_eq!(found(none), None, "{none:?}");
        }
    }

    #[test]
    fn an_adapter_is_its_configuration_and_safetensors() {
        let (beside, weights) =
            found(&["README.md", "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"])
                .unwrap();
        assert_eq!(
            (beside, weights),
            (files(&["adapter_config.json"]), Weights::Files(files(&["adapter_model.safetensors"])))
        );
        let mixed = [
            "xlora_config.json",
            "xlora_classifier.safetensors",
            "a/adapter_config.json",
            "a/adapter_model.safetensors",
        ];
        let (beside, weights) = found(&mixed).unwrap();
        assert_eq!(beside, files(&["xlora_config.json", "a/adapter_config.json"]));
        assert_eq!(
            weights,
            Weights::Files(files(&["xlora_classifier.safetensors", "a/adapter_model.safetensors"]))
        );
        assert_eq!(found(&["a/adapter_config.json", "a/adapter_model.safetensors"]), None);
    }

    #[test]
    fn an_index_names_files_of_the_repository() {
        let of = |map: &str| shards(&format!("{{\"metadata\": {{}}, \"weight_map\": {map}}}"));
        assert_eq!(
            of(r#"{"b": "m2.safetensors", "a": "m1.safetensors", "c": "m2.safetensors"}"#).unwrap(),
            ["m1.safetensors", "m2.safetensors"]
        );
        for wrong in [
            r#"{"a": "../../m.safetensors"}"#,
            r#"{"a": "/m.safetensors"}"#,
            r#"{"a": "m.bin"}"#,
            "{}",
            "3",
            "{\"a\": 3}",
        ] {
            assert!(of(wrong).unwrap_err().starts_with(INDEX), "{wrong}");
        }
    }
}
