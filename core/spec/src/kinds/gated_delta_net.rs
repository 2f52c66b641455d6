//! The mixer `gated-delta-net`.

use super::gated_norm::{GatedNormConfig, GatedNormOptions, resolve_conv_bias, resolve_gated_norm};
use crate::config::BiasRule;
use crate::kind::formulas::as_name;
use crate::kind::{Definition, Family, Optional, Positive, RecordedFault, ResolveContext, RoleDef, Sizes};
use crate::options;
use menagerie_formulas::KeySharing;

/// A gated delta net of one layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct GatedDeltaNetConfig {
    /// Heads of values, each with a state.
    pub heads: usize,
    /// Heads of queries and keys; divides `heads`.
    pub key_heads: usize,
    /// Elements of a query or key.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// Which key head a head reads.
    #[serde(serialize_with = "as_name")]
    pub sharing: KeySharing,
    /// Taps of the convolution; `length - 1` earlier rows are carried from step to step.
    pub length: usize,
    /// Bias of the convolution; `if-present` is already decided.
    pub conv_bias: BiasRule,
    /// Added to the squares of the lengths that queries and keys are divided by.
    pub length_eps: f32,
    /// Norm on the output of each head; absent = the gate alone.
    pub norm: Option<GatedNormConfig>,
}

options! {
    /// Options of `gated-delta-net`.
    pub struct GatedDeltaNetOptions {
        /// Heads of values, each with a state.
        heads: Positive<usize> = Key("ssm.time_step_rank"),
        /// Heads of queries and keys; divides `heads`.
        key_heads: Positive<usize> = Key("ssm.group_count"),
        /// Elements of a query or key.
        key_dim: Positive<usize> = Key("ssm.state_size"),
        /// Elements of the values of all heads together.
        inner: Positive<usize> = Key("ssm.inner_size"),
        /// Assignment of key heads to heads, where several share one.
        sharing: KeySharing = Required => guarded,
        /// Taps of the convolution, in tokens.
        length: Positive<usize> = Key("ssm.conv_kernel"),
        /// Bias of the convolution.
        conv_bias: BiasRule = Name("none"),
        /// Added to the squares of the lengths that queries and keys are divided by.
        length_eps: f32 = Number(1e-6) => guarded,
        /// Norm on the output of each head; absent = the gate alone.
        norm: Optional<GatedNormOptions> = Absent,
    }
}

const RATES: &str = "strength and decay";

impl Definition for GatedDeltaNetConfig {
    type Options = GatedDeltaNetOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "gated-delta-net";
    const DOC: &'static str = "Gated DeltaNet (Yang et al., 2024): linear attention with the delta rule: each write first removes the value \
                               that the state holds for the key.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("attn_qkv", &["D", "2*key_heads*key_dim+inner"], "Rows of queries, keys and values."),
        RoleDef::linear("attn_gate", &["D", "inner"], "Gate on the output."),
        RoleDef::values(
            "ssm_conv1d",
            &["L", "2*key_heads*key_dim+inner"],
            "Taps of each channel, the last for the current token.",
        ),
        RoleDef::only_bias("ssm_conv1d", &["2*key_heads*key_dim+inner"], "Bias of the convolution.")
            .when("conv bias"),
        RoleDef::linear("ssm_beta", &["D", "heads"], "beta, the write strength, before the sigmoid.")
            .in_form(RATES, "split"),
        RoleDef::linear("ssm_alpha", &["D", "heads"], "g, the log decay, before softplus.")
            .in_form(RATES, "split"),
        RoleDef::linear(
            "ssm_ba",
            &["D", "2*heads"],
            "Key head by key head: beta, then g, of the heads that share it.",
        )
        .in_form(RATES, "fused"),
        RoleDef::only_bias("ssm_dt", &["heads"], "Added to the decays before softplus."),
        RoleDef::values("ssm_a", &["heads"], "Negative: times the softplus, the exponent of the decay.")
            .around(-1.0),
        RoleDef::norm("ssm_norm", &["value_dim"], "norm", "Norm on the output of each head."),
        RoleDef::linear("ssm_out", &["inner", "D"], "The output projection."),
    ];

    fn resolve(options: GatedDeltaNetOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let GatedDeltaNetOptions {
            heads: Positive(heads),
            key_heads: Positive(key_heads),
            key_dim: Positive(key_dim),
            inner: Positive(inner),
            sharing,
            length: Positive(length),
            conv_bias,
            length_eps,
            norm: Optional(norm),
        } = options;
        if !inner.is_multiple_of(heads) {
            let message = format!("{heads} heads do not divide {inner} elements");
            return at.key_fault("ssm.time_step_rank", message);
        }
        if !heads.is_multiple_of(key_heads) {
            let message = format!("{key_heads} key heads do not divide {heads} heads");
            return at.key_fault("ssm.group_count", message);
        }
        if length_eps < 0.0 {
            return at.fault("length_eps", format!("{length_eps}; must not be negative"));
        }
        let norm = resolve_gated_norm(norm, at)?;
        let (value_dim, conv_bias) = (inner / heads, resolve_conv_bias(conv_bias, at));
        Ok(Self { heads, key_heads, key_dim, value_dim, sharing, length, conv_bias, length_eps, norm })
    }

    fn sizes(&self, into: &mut Sizes) {
        let Self { heads, key_heads, key_dim, value_dim, length, conv_bias, norm, sharing: _, length_eps: _ } =
            self;
        for (symbol, size) in [
            ("heads", *heads),
            ("key_heads", *key_heads),
            ("key_dim", *key_dim),
            ("value_dim", *value_dim),
            ("inner", heads * value_dim),
            ("L", *length),
        ] {
            into.set(symbol, size);
        }
        into.holds("conv bias", *conv_bias == BiasRule::Required);
        into.norm("norm", norm.as_ref().map(|norm| &norm.norm));
    }
}
