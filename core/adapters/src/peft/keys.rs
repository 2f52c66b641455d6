//! Names of tensors in `adapter_model.safetensors`.

/// What a tensor is to its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
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
    /// The model's own weight, saved beside an adapter of an embedding or head: a copy.
    BaseWeight,
}

/// A tensor's module and part; what is not understood is an error that says why.
pub(super) fn split(name: &str) -> Result<(String, Part), String> {
    let rest =
        name.strip_prefix("base_model.model.").ok_or("its name does not begin with base_model.model.")?;
    if rest.contains(".token_adapter.") || rest.contains("trainable_tokens") {
        return Err("rows of the embedding trained one by one are not supported".to_owned());
    }
    if rest.contains("lora_A.bias") || rest.contains("lora_B.bias") || rest.ends_with("lora_B.default.bias") {
        return Err("biases inside the low-rank product (lora_bias) are not supported".to_owned());
    }
    const PARTS: [(&str, Part); 14] = [
        (".lora_A.weight", Part::A),
        (".lora_B.weight", Part::B),
        (".lora_A.default.weight", Part::A),
        (".lora_B.default.weight", Part::B),
        (".lora_embedding_A", Part::TableA),
        (".lora_embedding_B", Part::TableB),
        (".lora_embedding_A.default", Part::TableA),
        (".lora_embedding_B.default", Part::TableB),
        (".lora_magnitude_vector", Part::Magnitude),
        (".lora_magnitude_vector.weight", Part::Magnitude),
        (".base_layer.weight", Part::BaseWeight),
        (".base_layer.bias", Part::Bias),
        (".weight", Part::Weight),
        (".bias", Part::Bias),
    ];
    let found =
        PARTS.iter().filter(|(suffix, _)| rest.ends_with(suffix)).max_by_key(|(suffix, _)| suffix.len());
    let Some((suffix, part)) = found else {
        return Err("what it does to its module is not known".to_owned());
    };
    let module = &rest[..rest.len() - suffix.len()];
    let module = module.strip_suffix(".modules_to_save.default").unwrap_or(module);
    let module = module.strip_suffix(".modules_to_save").unwrap_or(module);
    if module.contains(".lora_") || module.contains("original_module") {
        return Err("what it does to its module is not known".to_owned());
    }
    Ok((module.to_owned(), *part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_name_is_told_apart() {
        let module = |name: &str| split(name).unwrap();
        let q = "model.layers.0.self_attn.q_proj".to_owned();
        let with = |rest: &str| module(&format!("base_model.model.{q}.{rest}"));
        assert_eq!(with("lora_A.weight"), (q.clone(), Part::A));
        assert_eq!(with("lora_B.default.weight"), (q.clone(), Part::B));
        assert_eq!(with("lora_magnitude_vector"), (q.clone(), Part::Magnitude));
        assert_eq!(with("lora_magnitude_vector.weight"), (q.clone(), Part::Magnitude));
        assert_eq!(with("base_layer.bias"), (q.clone(), Part::Bias));
        assert_eq!(with("bias"), (q.clone(), Part::Bias));
        assert_eq!(with("modules_to_save.weight"), (q.clone(), Part::Weight));
        assert_eq!(
            module("base_model.model.lm_head.base_layer.weight"),
            ("lm_head".to_owned(), Part::BaseWeight)
        );
        let table = ("model.embed_tokens".to_owned(), Part::TableA);
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
