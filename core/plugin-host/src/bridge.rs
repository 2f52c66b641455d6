//! Instances as layers of models: what assembly builds for kinds of plugins.

use crate::building;
use crate::calling::{self, StepAccess};
use crate::component::{ComponentDescription, FamilyFunctions, Forward, Frequencies};
use crate::instance::{Instance, InstanceState};
use menagerie_model::components::{FrequencyQuestion, RopeFrequencies, ScaledFrequencies};
use menagerie_model::{
    ElementWise, FeedForward, Norm, Raw, Result, Rows, SequenceMixer, StateSpec, TransformContext,
};
use menagerie_plugin::abi::{FrequencyCall, Header, Tensor};
use menagerie_registry::{BuildResult, ComponentFactory, ComponentParts, NormTarget};
use menagerie_spec::kind::Component as Config;
use std::sync::Arc;

/// A mixer, feed-forward, norm or activation of a plugin.
struct PluginLayer {
    instance: Instance,
    run: Forward,
}

/// The frequencies of a rope of a plugin.
struct PluginRope {
    instance: Instance,
    run: Frequencies,
}

/// The factory of a component; `None` for families that are not part of specs.
pub(crate) fn factory_of(described: &'static ComponentDescription) -> Option<ComponentFactory> {
    Some(match described.work {
        FamilyFunctions::Mixer(run) => ComponentFactory::Mixer(Box::leak(Box::new(
            move |config: &Config, parts: &mut dyn ComponentParts| {
                part(described, run, config, parts).map(|part| Box::new(part) as Box<dyn SequenceMixer>)
            },
        ))),
        FamilyFunctions::FeedForward(run) => ComponentFactory::FeedForward(Box::leak(Box::new(
            move |config: &Config, parts: &mut dyn ComponentParts| {
                part(described, run, config, parts).map(|part| Box::new(part) as Box<dyn FeedForward>)
            },
        ))),
        FamilyFunctions::Norm(run) => ComponentFactory::Norm(Box::leak(Box::new(
            move |config: &Config, parts: &mut dyn ComponentParts, place: &NormTarget<'_>| {
                let instance = building::create(described, config, parts, (place.role, place.width))?;
                Ok(Box::new(PluginLayer { instance, run }) as Box<dyn Norm>)
            },
        ))),
        FamilyFunctions::Activation(run) => ComponentFactory::Activation(Box::leak(Box::new(
            move |config: &Config, parts: &mut dyn ComponentParts| {
                part(described, run, config, parts).map(|part| Arc::new(part) as Arc<dyn ElementWise>)
            },
        ))),
        FamilyFunctions::Rope(run) => ComponentFactory::Rope(Box::leak(Box::new(
            move |config: &Config, parts: &mut dyn ComponentParts| {
                let width = parts.width();
                let instance = building::create(described, config, parts, ("", width))?;
                Ok(Box::new(PluginRope { instance, run }) as Box<dyn RopeFrequencies>)
            },
        ))),
        FamilyFunctions::Sampler(_) | FamilyFunctions::Tokenizer(..) | FamilyFunctions::LayerHook(..) => {
            return None;
        }
    })
}

fn part(
    described: &'static ComponentDescription,
    run: Forward,
    config: &Config,
    parts: &mut dyn ComponentParts,
) -> BuildResult<PluginLayer> {
    let width = parts.width();
    let instance = building::create(described, config, parts, ("", width))?;
    Ok(PluginLayer { instance, run })
}

impl PluginLayer {
    /// Its name, if it has a recurrent state and does not declare that its rows are exact.
    fn inexact(&self) -> Option<&'static str> {
        let Instance { described, kept, .. } = &self.instance;
        let is_recurrent = |state: &InstanceState| matches!(state.spec, StateSpec::PerSequence { .. });
        (!described.has_exact_rows && kept.states.iter().any(is_recurrent)).then_some(described.name)
    }
}

impl SequenceMixer for PluginLayer {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        calling::forward(&self.instance, self.run, &[x], StepAccess::Owned(context))
    }

    fn is_bidirectional(&self) -> bool {
        self.instance.described.is_bidirectional
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.inexact()
    }
}

impl FeedForward for PluginLayer {
    fn forward(&self, x: &Rows, raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        calling::forward(&self.instance, self.run, &[x, raw.stream, raw.block], StepAccess::Owned(context))
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.inexact()
    }
}

impl Norm for PluginLayer {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        calling::forward(&self.instance, self.run, &[x], StepAccess::Shared(context))
    }
}

impl ElementWise for PluginLayer {
    fn apply(&self, x: &[f32], width: usize, out: &mut [f32]) -> Result<()> {
        calling::alone(&self.instance, self.run, x, width, out)
    }
}

impl RopeFrequencies for PluginRope {
    fn frequencies(&self, question: &FrequencyQuestion) -> Result<ScaledFrequencies> {
        let FrequencyQuestion { base, rotated, context_length } = *question;
        // Elements that are not written stay NaN and are detected.
        let mut frequencies = vec![f32::NAN; rotated / 2];
        let mut magnitude = 1.0f32;
        let tensor = Tensor::values(frequencies.as_mut_ptr(), frequencies.len(), 0);
        let call = FrequencyCall {
            header: Header::of::<FrequencyCall>(),
            base: f64::from(base),
            rotated: rotated as u64,
            context_length: context_length as u64,
            frequencies: &tensor,
            magnitude: &raw mut magnitude,
        };
        // SAFETY: the plugin's function of this instance; everything that `call` points to outlives the call.
        self.instance.call("frequencies", |handle| unsafe { (self.run)(handle, &call) })?;
        if let Some(at) = frequencies.iter().position(|value| !value.is_finite()) {
            return Err(self.instance.error(format!(
                "frequency {at} of {} is not finite, or was not written",
                frequencies.len()
            )));
        }
        if !magnitude.is_finite() {
            return Err(self.instance.error(format!("the magnitude is {magnitude}, which is not finite")));
        }
        Ok(ScaledFrequencies { frequencies, magnitude })
    }
}
