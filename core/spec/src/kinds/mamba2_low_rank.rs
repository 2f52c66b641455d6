//! The mixer `mamba2-low-rank`.

use super::mamba1::{InnerNormConfig, InnerNormOptions, resolve_inner_norm};
use crate::kind::{Definition, Family, Optional, Positive, RecordedFault, ResolveContext, RoleDef, Sizes};
use crate::options;

/// State space duality over time steps of low rank, of one layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Mamba2LowRankConfig {
    /// Heads, each with a time step of its own.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of B and C, which all heads share.
    pub state: usize,
    /// Rank of the time steps.
    pub rank: usize,
    /// Taps of the convolution; `length - 1` earlier rows are carried from step to step.
    pub length: usize,
    /// Norms on the low-rank time step, B and C.
    pub inner_norm: Option<InnerNormConfig>,
}

options! {
    /// Options of `mamba2-low-rank`.
    pub struct Mamba2LowRankOptions {
        /// Heads, each with a time step of its own.
        heads: Positive<usize> = Key("ssm.time_step_rank"),
        /// Elements of all heads together.
        inner: Positive<usize> = Key("ssm.inner_size"),
        /// Elements of B and C, which all heads share.
        state: Positive<usize> = Key("ssm.state_size"),
        /// Rank of the time steps.
        rank: Positive<usize> = Required,
        /// Taps of the convolution, in tokens.
        length: Positive<usize> = Key("ssm.conv_kernel"),
        /// Norms on the low-rank time step, B and C.
        inner_norm: Optional<InnerNormOptions> = Absent,
    }
}

impl Definition for Mamba2LowRankConfig {
    type Options = Mamba2LowRankOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "mamba2-low-rank";
    const DOC: &'static str = "State space duality (Dao and Gu, 2024) whose B, C and low-rank time steps are computed from the output of the convolution \
                               (PLaMo 2).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear(
            "ssm_in",
            &["D", "2*inner"],
            "Head by head: rows of the gate, then of the input of the state.",
        ),
        RoleDef::values(
            "ssm_conv1d",
            &["L", "inner"],
            "Taps of each channel, the last for the current token.",
        ),
        RoleDef::linear(
            "ssm_x",
            &["inner", "2*state+rank"],
            "Rows of B, of C and of the low-rank time step.",
        ),
        RoleDef::linear("ssm_dt", &["rank", "heads"], "The time steps, before their bias."),
        RoleDef::only_bias("ssm_dt", &["heads"], "Added to the time steps before softplus."),
        RoleDef::norm("ssm_dt_norm", &["rank"], "dt_norm", "Norm on the low-rank time step."),
        RoleDef::norm("ssm_b_norm", &["state"], "b_norm", "Norm on B."),
        RoleDef::norm("ssm_c_norm", &["state"], "c_norm", "Norm on C."),
        RoleDef::values("ssm_a", &["heads"], "A, negative: a state decays by exp(dt A).").around(-1.0),
        RoleDef::values("ssm_d", &["heads"], "D: the input times D is added to the output.").around(1.0),
        RoleDef::linear("ssm_out", &["inner", "D"], "The output projection."),
    ];

    fn resolve(options: Mamba2LowRankOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let Mamba2LowRankOptions {
            heads: Positive(heads),
            inner: Positive(inner),
            state: Positive(state),
            rank: Positive(rank),
            length: Positive(length),
            inner_norm: Optional(inner_norm),
        } = options;
        if !inner.is_multiple_of(heads) {
            let message = format!("{heads} heads do not divide {inner} elements");
            return at.key_fault("ssm.time_step_rank", message);
        }
        let inner_norm = resolve_inner_norm(inner_norm, at)?;
        Ok(Self { heads, head_dim: inner / heads, state, rank, length, inner_norm })
    }

    fn sizes(&self, into: &mut Sizes) {
        let Self { heads, head_dim, state, rank, length, inner_norm } = self;
        for (symbol, size) in [
            ("heads", *heads),
            ("inner", heads * head_dim),
            ("state", *state),
            ("rank", *rank),
            ("L", *length),
        ] {
            into.set(symbol, size);
        }
        into.norm("dt_norm", inner_norm.as_ref().map(|norm| &norm.step));
        into.norm("b_norm", inner_norm.as_ref().map(|norm| &norm.write));
        into.norm("c_norm", inner_norm.as_ref().map(|norm| &norm.read));
    }
}
