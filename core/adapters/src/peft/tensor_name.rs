//! [`split`]: the names of tensors in `adapter_model.safetensors`.

/// The purpose of a tensor in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TensorPurpose {
    /// `lora_A`.
    A,
    /// `lora_B`.
    B,
    /// `lora_embedding_A`.
    TableA,
    /// `lora_embedding_B`.
    TableB,
    /// `lora_magnitude_vector`.
    Magnitude,
    /// A trained bias.
    Bias,
    /// The weight itself: `modules_to_save`.
    Weight,
    /// A copy of the model's weight, saved with an adapter of an embedding or head.
    BaseWeight,
}

/// The error of a tensor without a known purpose.
const UNKNOWN: &str = "unknown tensor: its purpose in the module is not known; update menagerie, or merge the adapter \
     with PEFT";

/// The module and the purpose of a tensor; an error message for unsupported tensors.
pub(super) fn split(name: &str) -> Result<(String, TensorPurpose), String> {
    let rest =
        name.strip_prefix("base_model.model.").ok_or("expected a name that begins with base_model.model.")?;
    if rest.contains(".token_adapter.") || rest.contains("trainable_tokens") {
        return Err(
            "single trained rows of the embedding are not supported; merge the adapter with PEFT".to_owned()
        );
    }
    if rest.contains("lora_A.bias") || rest.contains("lora_B.bias") || rest.ends_with("lora_B.default.bias") {
        return Err(
            "biases inside the low-rank product (lora_bias) are not supported; merge the adapter with PEFT"
                .to_owned(),
        );
    }
    const PARTS: [(&str, TensorPurpose); 14] = [
        (".lora_A.weight", TensorPurpose::A),
        (".lora_B.weight", TensorPurpose::B),
        (".lora_A.default.weight", TensorPurpose::A),
        (".lora_B.default.weight", TensorPurpose::B),
        (".lora_embedding_A", TensorPurpose::TableA),
        (".lora_embedding_B", TensorPurpose::TableB),
        (".lora_embedding_A.default", TensorPurpose::TableA),
        (".lora_embedding_B.default", TensorPurpose::TableB),
        (".lora_magnitude_vector", TensorPurpose::Magnitude),
        (".lora_magnitude_vector.weight", TensorPurpose::Magnitude),
        (".base_layer.weight", TensorPurpose::BaseWeight),
        (".base_layer.bias", TensorPurpose::Bias),
        (".weight", TensorPurpose::Weight),
        (".bias", TensorPurpose::Bias),
    ];
    let found =
        PARTS.iter().filter(|(suffix, _)| rest.ends_with(suffix)).max_by_key(|(suffix, _)| suffix.len());
    let Some((suffix, part)) = found else {
        return Err(UNKNOWN.to_owned());
    };
    let module = &rest[..rest.len() - suffix.len()];
    let module = module.strip_suffix(".modules_to_save.default").unwrap_or(module);
    let module = module.strip_suffix(".modules_to_save").unwrap_or(module);
    if module.contains(".lora_") || module.contains("original_module") {
        return Err(UNKNOWN.to_owned());
    }
    Ok((module.to_owned(), *part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_name_is_recognized() {
        let module = |name: &str| split(name).unwrap();
        let q = "model.layers.0.self_attn.q_proj".to_owned();
        let with = |rest: &str| module(&format!("base_model.model.{q}.{rest}"));
        assert_eq!(with("lora_A.weight"), (q.clone(), TensorPurpose::A));
        assert_eq!(with("lora_B.default.weight"), (q.clone(), TensorPurpose::B));
        assert_eq!(with("lora_magnitude_vector"), (q.clone(), TensorPurpose::Magnitude));
        assert_eq!(with("lora_magnitude_vector.weight"), (q.clone(), TensorPurpose::Magnitude));
        assert_eq!(with("base_layer.bias"), (q.clone(), TensorPurpose::Bias));
        assert_eq!(with("bias"), (q.clone(), TensorPurpose::Bias));
        assert_eq!(with("modules_to_save.weight"), (q.clone(), TensorPurpose::Weight));
        assert_eq!(
            module("base_model.model.lm_head.base_layer.weight"),
            ("lm_head".to_owned(), TensorPurpose::BaseWeight)
        );
        let table = ("model.embed_tokens".to_owned(), TensorPurpose::TableA);
        assert_eq!(module("base_model.model.model.embed_tokens.lora_embedding_A"), table);
        for bad in [
            "model.layers.0.self_attn.q_proj.lora_A.weight",
            "base_model.model.lm_head.lora_B.bias",
            "base_model.model.lm_head.lora_C.weight",
            "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta",
        ] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
