//! Samplers of plugins as steps of the sampler chain.

use crate::component::{ComponentDescription, Sample};
use crate::detached::{self, DetachedContext, DetachedInstance};
use menagerie_engine::{Sampler, SamplerKind, SamplerStep};
use menagerie_model::ModelError;
use menagerie_plugin::abi::{Header, SampleCall, Tensor};
use std::sync::Arc;

/// An instance of a sampler: one for every generation.
struct PluginSampler {
    detached: DetachedInstance,
    run: Sample,
}

/// The kind of a sampler, for requests.
pub(crate) fn kind_of(described: &'static ComponentDescription, run: Sample) -> SamplerKind {
    SamplerKind {
        name: described.name,
        doc: described.doc,
        options: detached::option_docs(described),
        registered_by: described.record.shown,
        with_options: Arc::new(move |given| {
            let values = detached::values(described, given)?;
            // Reports invalid options before a model is loaded.
            drop(DetachedInstance::new(described, &values, DetachedContext::default())?);
            Ok(Sampler::new(described.name, move || {
                let detached = DetachedInstance::new(described, &values, DetachedContext::default())?;
                Ok(Box::new(PluginSampler { detached, run }) as Box<dyn SamplerStep>)
            }))
        }),
    }
}

impl SamplerStep for PluginSampler {
    fn sample(
        &mut self,
        logits: &mut [f32],
        history: &[u32],
        prompt: usize,
        random: u64,
    ) -> Result<(), String> {
        let tensor = Tensor::values(logits.as_mut_ptr(), logits.len(), 0);
        let call = SampleCall {
            header: Header::of::<SampleCall>(),
            logits: &tensor,
            tokens: history.as_ptr(),
            n_tokens: history.len(),
            n_prompt: prompt,
            random,
        };
        // SAFETY: the plugin's function of this instance; everything that `call` points to outlives the call.
        let called = self.detached.instance.call("sample", |handle| unsafe { (self.run)(handle, &call) });
        called.map_err(reason)
    }
}

/// The error of a call, without the name of the component.
pub(crate) fn reason(error: ModelError) -> String {
    match error {
        ModelError::Component { reason, .. } => reason,
        other => other.to_string(),
    }
}
