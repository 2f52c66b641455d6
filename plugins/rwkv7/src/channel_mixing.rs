//! [`ChannelMixing`]: the feed-forward, which mixes each token with the one before it.

use crate::math::squared_relu_rows;
use crate::shifted::{Shifted, change, keep};
use menagerie_plugin::{Build, Call, Component, FeedForward, Linear, Raw, Result, Role, State};

/// `W_v max(W_k mixed, 0)^2`.
pub struct ChannelMixing {
    share: Vec<f32>,
    key: Linear,
    value: Linear,
    before: State,
}

impl Component for ChannelMixing {
    const NAME: &'static str = "channel-mixing";
    const DOC: &'static str = "Channel mixing of RWKV-7 (Peng et al., 2025): `W_v max(W_k x', 0)^2`, x' the token mixed with the one before it.";
    const ROLES: &'static [Role] = &[
        Role::values("channel_mix_lerp_k", &["D"], "The share of the token before."),
        Role::linear("channel_mix_key", &["D", "F"], "What is squared."),
        Role::linear("channel_mix_value", &["F", "D"], "The way back."),
    ];
    type Options = ();

    fn create((): (), build: &mut Build) -> Result<Self> {
        let share = build.values("channel_mix_lerp_k");
        let key = build.linear("channel_mix_key");
        let value = build.linear("channel_mix_value");
        let before = build.state("channel_shift", &[build.width()]);
        Ok(Self { share: share?, key: key?, value: value?, before: before? })
    }
}

impl FeedForward for ChannelMixing {
    const EXACT_ROWS: bool = true;

    fn forward(&self, call: Call, _: Raw) -> Result<()> {
        let Call { x, mut output, sequences, mut states, host, .. } = call;
        let mut mixed = host.scratch_rows(x.rows(), x.cols())?;
        Shifted::new(x, &sequences, &states, &self.before)?.mix(&self.share, &mut mixed, &host)?;
        keep(x, &sequences, &mut states, &self.before)?;
        let mut key = host.product(&self.key, mixed.as_rows())?;
        change(&mut key, squared_relu_rows, &host)?;
        host.linear(&self.value, key.as_rows(), &mut output)
    }
}
