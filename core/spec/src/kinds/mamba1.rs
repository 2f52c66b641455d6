//! The mixer `mamba1`.

use super::gated_norm::resolve_conv_bias;
use crate::config::BiasRule;
use crate::kind::{
    Component, Definition, Family, Nested, NormHere, Optional, Positive, RecordedFault, ResolveContext,
    RoleDef, Sizes,
};
use crate::options;

/// A selective state space of one layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Mamba1Config {
    /// Channels.
    pub inner: usize,
    /// Elements of state of a channel.
    pub state: usize,
    /// Rank of the time steps.
    pub rank: usize,
    /// Taps of the convolution; `length - 1` earlier rows are carried from step to step.
    pub length: usize,
    /// Bias of the convolution; `if-present` is already decided.
    pub conv_bias: BiasRule,
    /// Norms on the low-rank time step, B and C.
    pub inner_norm: Option<InnerNormConfig>,
}

/// Norms on the low-rank time step, B and C (roles `ssm_dt_norm`, `ssm_b_norm`, `ssm_c_norm` where they have weights).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct InnerNormConfig {
    /// On the time step.
    pub step: Component,
    /// On B.
    pub write: Component,
    /// On C.
    pub read: Component,
}

options! {
    /// Options of `mamba1`.
    pub struct Mamba1Options {
        /// Channels.
        inner: Positive<usize> = Key("ssm.inner_size"),
        /// Elements of state of a channel.
        state: Positive<usize> = Key("ssm.state_size"),
        /// Rank of the time steps.
        rank: Positive<usize> = Key("ssm.time_step_rank"),
        /// Taps of the convolution, in tokens.
        length: Positive<usize> = Key("ssm.conv_kernel"),
        /// Bias of the convolution.
        conv_bias: BiasRule = Name("required"),
        /// Norms on the low-rank time step, B and C (Jamba).
        inner_norm: Optional<InnerNormOptions> = Absent,
    }
}

options! {
    /// Norms inside a recurrent mixer (roles `ssm_dt_norm`, `ssm_b_norm`, `ssm_c_norm` where they have weights).
    pub struct InnerNormOptions {
        /// The norm.
        norm: NormHere = Fields,
    }
}

impl Definition for Mamba1Config {
    type Options = Mamba1Options;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "mamba1";
    const DOC: &'static str = "Selective state space (Gu and Dao, 2023).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("ssm_in", &["D", "2*inner"], "Rows of the input of the state, then of the gate."),
        RoleDef::values(
            "ssm_conv1d",
            &["L", "inner"],
            "Taps of each channel, the last for the current token.",
        ),
        RoleDef::only_bias("ssm_conv1d", &["inner"], "Bias of the convolution.").when("conv bias"),
        RoleDef::linear("ssm_x", &["inner", "rank+2*state"], "Rows of the low-rank time step, of B and C."),
        RoleDef::linear("ssm_dt", &["rank", "inner"], "The time steps, before softplus.").with_bias("dt"),
        RoleDef::norm("ssm_dt_norm", &["rank"], "dt_norm", "Norm on the low-rank time step."),
        RoleDef::norm("ssm_b_norm", &["state"], "b_norm", "Norm on B."),
        RoleDef::norm("ssm_c_norm", &["state"], "c_norm", "Norm on C."),
        RoleDef::values("ssm_a", &["state", "inner"], "A, negative: a state decays by exp(dt A).")
            .around(-1.0),
        RoleDef::values("ssm_d", &["inner"], "D: the input times D is added to the output.").around(1.0),
        RoleDef::linear("ssm_out", &["inner", "D"], "The output projection."),
    ];

    fn resolve(options: Mamba1Options, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let Mamba1Options {
            inner: Positive(inner),
            state: Positive(state),
            rank: Positive(rank),
            length: Positive(length),
            conv_bias,
            inner_norm: Optional(inner_norm),
        } = options;
        let inner_norm = resolve_inner_norm(inner_norm, at)?;
        let conv_bias = resolve_conv_bias(conv_bias, at);
        Ok(Self { inner, state, rank, length, conv_bias, inner_norm })
    }

    fn sizes(&self, into: &mut Sizes) {
        let Self { inner, state, rank, length, conv_bias, inner_norm } = self;
        for (symbol, size) in [("inner", *inner), ("state", *state), ("rank", *rank), ("L", *length)] {
            into.set(symbol, size);
        }
        into.holds("conv bias", *conv_bias == BiasRule::Required);
        into.bias("dt", BiasRule::Required);
        into.norm("dt_norm", inner_norm.as_ref().map(|norm| &norm.step));
        into.norm("b_norm", inner_norm.as_ref().map(|norm| &norm.write));
        into.norm("c_norm", inner_norm.as_ref().map(|norm| &norm.read));
    }
}

/// The norms, if there are any.
pub(super) fn resolve_inner_norm(
    options: Option<Nested<InnerNormOptions>>,
    at: &mut ResolveContext<'_>,
) -> Result<Option<InnerNormConfig>, RecordedFault> {
    let Some(Nested { options: InnerNormOptions { norm }, .. }) = options else { return Ok(None) };
    let step = at.norm(&norm, &["ssm_dt_norm"]);
    let write = at.norm(&norm, &["ssm_b_norm"]);
    let read = at.norm(&norm, &["ssm_c_norm"]);
    Ok(Some(InnerNormConfig { step: step?, write: write?, read: read? }))
}
