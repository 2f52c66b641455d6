//! [`Beside`]: what a model was opened with beside its own files, and that changes what it computes.

use crate::config::LoadOptions;
use crate::mixture::{GivenExpert, GivenGate};
use menagerie_kernels::HalfPrompts;
use menagerie_spec::AdapterKind;
use std::path::PathBuf;

/// What a model was opened with beside its own files, and that changes what it computes. LoRA adapters are not here: they
/// come and go.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// An X-LoRA, experts and gate of a mixture, an importance matrix.
    pub files: Vec<PathBuf>,
    /// How `fast` multiplies F16 weights with prompts.
    pub half_prompts: HalfPrompts,
}

impl Beside {
    /// Of these options.
    pub(crate) fn of(options: &LoadOptions) -> Self {
        let xlora = options.adapters.iter().filter(|one| one.kind == AdapterKind::XLora);
        let mut files: Vec<PathBuf> = xlora.map(|one| one.path.clone()).collect();
        if let Some(mixture) = &options.mixture {
            files.extend(mixture.experts.iter().map(|expert| match expert {
                GivenExpert::Model(path) | GivenExpert::Adapter { path, .. } => path.clone(),
            }));
            if let GivenGate::File(path) = &mixture.gate {
                files.push(path.clone());
            }
        }
        let importance =
            options.quantization.as_ref().and_then(|quantization| quantization.importance.as_ref());
        files.extend(importance.map(|(name, _)| PathBuf::from(name)));
        Self { files, half_prompts: options.half_prompts }
    }
}
