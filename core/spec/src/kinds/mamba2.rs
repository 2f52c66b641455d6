//! The mixer `mamba2`.

use super::gated_norm::{GatedNormConfig, GatedNormOptions, resolve_conv_bias, resolve_gated_norm};
use crate::config::BiasRule;
use crate::kind::{Definition, Family, Optional, Positive, RecordedFault, ResolveContext, RoleDef, Sizes};
use crate::options;

/// State space duality of one layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Mamba2Config {
    /// Heads, each with a time step of its own.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Groups of heads that share B and C; divides `heads`.
    pub groups: usize,
    /// Elements of B and C.
    pub state: usize,
    /// Taps of the convolution; `length - 1` earlier rows are carried from step to step.
    pub length: usize,
    /// Bias of the convolution; `if-present` is already decided.
    pub conv_bias: BiasRule,
    /// Norm on the output; absent = the gate alone.
    pub norm: Option<GatedNormConfig>,
}

options! {
    /// Options of `mamba2`.
    pub struct Mamba2Options {
        /// Heads, each with a time step of its own.
        heads: Positive<usize> = Key("ssm.time_step_rank"),
        /// Elements of all heads together.
        inner: Positive<usize> = Key("ssm.inner_size"),
        /// Groups of consecutive heads that share B and C; divides `heads`.
        groups: Positive<usize> = Key("ssm.group_count"),
        /// Elements of B and C.
        state: Positive<usize> = Key("ssm.state_size"),
        /// Taps of the convolution, in tokens.
        length: Positive<usize> = Key("ssm.conv_kernel"),
        /// Bias of the convolution.
        conv_bias: BiasRule = Name("required"),
        /// Norm on the output, over each group of heads; absent = the gate alone.
        norm: Optional<GatedNormOptions> = Absent,
    }
}

impl Definition for Mamba2Config {
    type Options = Mamba2Options;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "mamba2";
    const DOC: &'static str =
        "State space duality (Dao and Gu, 2024): linear attention with a decaying state.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear(
            "ssm_in",
            &["D", "2*inner+2*groups*state+heads"],
            "Rows of the gate, of the input of the state, of B, C and the time steps.",
        ),
        RoleDef::values(
            "ssm_conv1d",
            &["L", "inner+2*groups*state"],
            "Taps of each channel, the last for the current token.",
        ),
        RoleDef::only_bias("ssm_conv1d", &["inner+2*groups*state"], "Bias of the convolution.")
            .when("conv bias"),
        RoleDef::only_bias("ssm_dt", &["heads"], "Added to the time steps before softplus."),
        RoleDef::values("ssm_a", &["1", "heads"], "A, negative: a state decays by exp(dt A).").around(-1.0),
        RoleDef::values("ssm_d", &["1", "heads"], "D: the input times D is added to the output.").around(1.0),
        RoleDef::norm("ssm_norm", &["inner"], "norm", "Norm on the output."),
        RoleDef::linear("ssm_out", &["inner", "D"], "The output projection."),
    ];

    fn resolve(options: Mamba2Options, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let Mamba2Options {
            heads: Positive(heads),
            inner: Positive(inner),
            groups: Positive(groups),
            state: Positive(state),
            length: Positive(length),
            conv_bias,
            norm: Optional(norm),
        } = options;
        if !inner.is_multiple_of(heads) {
            let message = format!("{heads} heads do not divide {inner} elements");
            return at.key_fault("ssm.time_step_rank", message);
        }
        if !heads.is_multiple_of(groups) {
            let message = format!("{groups} groups do not divide {heads} heads");
            return at.key_fault("ssm.group_count", message);
        }
        let norm = resolve_gated_norm(norm, at)?;
        let conv_bias = resolve_conv_bias(conv_bias, at);
        Ok(Self { heads, head_dim: inner / heads, groups, state, length, conv_bias, norm })
    }

    fn sizes(&self, into: &mut Sizes) {
        let Self { heads, head_dim, groups, state, length, conv_bias, norm } = self;
        for (symbol, size) in [
            ("heads", *heads),
            ("inner", heads * head_dim),
            ("groups", *groups),
            ("state", *state),
            ("L", *length),
        ] {
            into.set(symbol, size);
        }
        into.holds("conv bias", *conv_bias == BiasRule::Required);
        into.norm("norm", norm.as_ref().map(|norm| &norm.norm));
    }
}
