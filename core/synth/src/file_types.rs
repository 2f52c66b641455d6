//! [`policy`]: the file types of random models, with the same tensor types as quantized files.

use crate::blocks::can_fill;
use crate::error::SynthError;
use crate::tensor_plan::SynthTensor;
use gguf_file::GgmlType;
use menagerie_quantize::{ModelFacts, Policy, PolicyTensor};
use menagerie_spec::{ArchSpec, MetadataValue};
use std::collections::BTreeMap;

/// The file types that are possible for random models.
pub fn file_types() -> impl Iterator<Item = &'static str> {
    Policy::names().filter(|name| Policy::named(name).is_ok_and(|policy| can_fill(policy.own_type())))
}

/// The policy of a file type, by name in any case.
///
/// # Errors
/// [`SynthError::Quantization`], which lists [`file_types`].
pub fn policy(name: &str) -> Result<Policy, SynthError> {
    let found = Policy::named(name).ok().filter(|policy| can_fill(policy.own_type()));
    found.ok_or_else(|| SynthError::Quantization {
        label: name.to_owned(),
        known: file_types().collect::<Vec<_>>().join(", "),
    })
}

/// The name in the file and the type of each tensor.
pub(crate) fn choose(
    policy: &Policy,
    spec: &ArchSpec,
    keys: &BTreeMap<String, MetadataValue>,
    planned: &[SynthTensor],
) -> Result<Vec<(String, GgmlType)>, SynthError> {
    let tensor = |planned: &SynthTensor| PolicyTensor {
        name: spec.role_to_gguf_name(&planned.role, planned.layer),
        dims: planned.dims.clone(),
        kind: GgmlType::F32,
    };
    let tensors: Vec<PolicyTensor> = planned.iter().map(tensor).collect();
    let facts = ModelFacts::of(|key| keys.get(key).and_then(MetadataValue::first_count));
    let choices = policy.choose(&tensors, &facts)?;
    let chosen = tensors.into_iter().zip(choices).zip(planned).map(|((tensor, choice), planned)| {
        let kind = if planned.is_full { GgmlType::F32 } else { choice.kind };
        if !can_fill(kind) {
            return Err(SynthError::Unsupported(format!(
                "tensor `{}`: cannot make random blocks of {}; use another file type",
                tensor.name,
                kind.name()
            )));
        }
        Ok((tensor.name, kind))
    });
    chosen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_quantize_as_far_as_blocks_can_be_made() {
        let known: Vec<&str> = file_types().collect();
        assert!(known.contains(&"Q4_K_M") && known.contains(&"MXFP4_MOE") && known.contains(&"F32"));
        assert!(!known.contains(&"IQ2_XS") && !known.contains(&"TQ1_0"), "{known:?}");
        assert_eq!(policy("q4_k_m").unwrap().own_type(), GgmlType::Q4_K);
        let said = policy("IQ2_XS").unwrap_err().to_string();
        assert!(said.contains("IQ2_XS") && said.contains("Q4_K_M"), "{said}");
    }
}
