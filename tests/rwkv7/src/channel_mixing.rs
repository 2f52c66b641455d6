//! The feed-forward `rwkv7-channel-mixing`: `W_v max(W_k mixed, 0)^2`, with the row before as its state.

use crate::shifted::Shifted;
use menagerie_model::{
    Backend, FeedForward, Linear, LinearInput, Raw, Result, Rows, StateId, StateSpec, TransformContext,
};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component};
use menagerie_rwkv7::math::squared_relu_rows;
use menagerie_spec::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};
use menagerie_spec::options;

/// Channel mixing.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ChannelMixingConfig {}

options! {
    /// No options.
    pub struct ChannelMixingOptions {}
}

impl Definition for ChannelMixingConfig {
    type Options = ChannelMixingOptions;
    const FAMILY: Family = Family::FeedForward;
    const NAME: &'static str = "rwkv7-channel-mixing";
    const DOC: &'static str = "Channel mixing of RWKV-7 (Peng et al., 2025).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::values("channel_mix_lerp_k", &["D"], "The share of the token before."),
        RoleDef::linear("channel_mix_key", &["D", "F"], "What is squared."),
        RoleDef::linear("channel_mix_value", &["F", "D"], "The way back."),
    ];

    fn resolve(
        ChannelMixingOptions {}: ChannelMixingOptions,
        _: &mut ResolveContext<'_>,
    ) -> Result<Self, RecordedFault> {
        Ok(Self {})
    }

    fn sizes(&self, _: &mut Sizes) {}
}

component!(feed_forward ChannelMixingConfig, build);

fn build(config: &ChannelMixingConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn FeedForward>> {
    let ChannelMixingConfig {} = config;
    let share = parts.values("channel_mix_lerp_k", TensorPart::Main);
    let key = parts.linear("channel_mix_key");
    let value = parts.linear("channel_mix_value");
    let spec = StateSpec::PerSequence { name: parts.name("channel_shift"), shape: vec![parts.width()] };
    let state = parts.states().declare(spec);
    Ok(Box::new(ChannelMixing { share: share?, key: key?, value: value?, state }))
}

struct ChannelMixing {
    share: Vec<f32>,
    key: Box<dyn Linear>,
    value: Box<dyn Linear>,
    state: StateId,
}

impl FeedForward for ChannelMixing {
    fn forward(&self, x: &Rows, _: Raw, context: &mut TransformContext) -> Result<Rows> {
        let backend: &dyn Backend = &*context.compute.backend;
        let shifted = Shifted::new(x, self.state, backend, context)?;
        let mixed = shifted.mixed(&self.share, backend)?;
        shifted.keep(self.state, context)?;
        let key = self.key.forward(&LinearInput::new(&mixed), context)?;
        let mut squared = backend.read(&key)?.into_owned();
        squared_relu_rows(&mut squared);
        let squared = backend.upload(squared, key.cols())?;
        self.value.forward(&LinearInput::new(&squared), context)
    }
}
