//! The mixer `kda`.

use super::mamba1::InnerNormOptions;
use crate::kind::{Component, Definition, Family, Positive, RecordedFault, ResolveContext, RoleDef, Sizes};
use crate::options;

/// A delta net of one layer whose state decays by key element.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct KdaConfig {
    /// Heads.
    pub heads: usize,
    /// Elements of a query, key or value.
    pub dim: usize,
    /// Taps of the convolutions; `length - 1` earlier rows are carried from step to step.
    pub length: usize,
    /// Added to the squares of the lengths that queries and keys are divided by.
    pub length_eps: f32,
    /// Norm on the output of each head, before its gate.
    pub norm: Component,
}

options! {
    /// Options of `kda`.
    pub struct KdaOptions {
        /// Heads.
        heads: Positive<usize> = Key("attention.head_count"),
        /// Elements of a query, key or value.
        dim: Positive<usize> = Key("kda.head_dim"),
        /// Taps of the convolutions, in tokens.
        length: Positive<usize> = Key("ssm.conv_kernel"),
        /// Added to the squares of the lengths that queries and keys are divided by.
        length_eps: f32 = Number(1e-6) => guarded,
        /// Norm on the output of each head, before its gate.
        norm: InnerNormOptions = Required,
    }
}

const QKV: &str = "q, k and v";

impl Definition for KdaConfig {
    type Options = KdaOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "kda";
    const DOC: &'static str = "Kimi delta attention (Moonshot AI, 2025): a gated delta net whose state decays by key element, its \
                               output gated by a sigmoid.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("attn_q", &["D", "inner"], "Queries.").in_form(QKV, "split"),
        RoleDef::linear("attn_k", &["D", "inner"], "Keys.").in_form(QKV, "split"),
        RoleDef::linear("attn_v", &["D", "inner"], "Values.").in_form(QKV, "split"),
        RoleDef::linear("attn_qkv", &["D", "3*inner"], "Rows of queries, keys and values.")
            .in_form(QKV, "fused"),
        RoleDef::values("ssm_conv1d_q", &["L", "1", "inner"], "Taps of the queries' channels."),
        RoleDef::values("ssm_conv1d_k", &["L", "1", "inner"], "Taps of the keys' channels."),
        RoleDef::values("ssm_conv1d_v", &["L", "1", "inner"], "Taps of the values' channels."),
        RoleDef::linear("ssm_beta", &["D", "heads"], "beta, the write strength, before the sigmoid."),
        RoleDef::linear("ssm_f_a", &["D", "dim"], "g, the log decay: down projection to a low rank."),
        RoleDef::linear("ssm_f_b", &["dim", "inner"], "g, the log decay, before softplus."),
        RoleDef::only_bias("ssm_dt", &["inner"], "Added to the decays before softplus."),
        RoleDef::values("ssm_a", &["1", "heads"], "Negative: times the softplus, the exponent of the decay.")
            .around(-1.0),
        RoleDef::linear("ssm_g_a", &["D", "dim"], "Gate on the output: to a low rank."),
        RoleDef::linear("ssm_g_b", &["dim", "inner"], "Gate on the output, before a sigmoid."),
        RoleDef::norm("ssm_norm", &["dim"], "norm", "Norm on the output of each head."),
        RoleDef::linear("attn_output", &["inner", "D"], "The output projection."),
    ];

    fn resolve(options: KdaOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let KdaOptions {
            heads: Positive(heads),
            dim: Positive(dim),
            length: Positive(length),
            length_eps,
            norm: InnerNormOptions { norm },
        } = options;
        if length_eps < 0.0 {
            return at.fault("length_eps", format!("{length_eps}; must not be negative"));
        }
        let norm = at.norm(&norm, &["ssm_norm"])?;
        Ok(Self { heads, dim, length, length_eps, norm })
    }

    fn sizes(&self, into: &mut Sizes) {
        let Self { heads, dim, length, norm, length_eps: _ } = self;
        for (symbol, size) in [("heads", *heads), ("dim", *dim), ("inner", heads * dim), ("L", *length)] {
            into.set(symbol, size);
        }
        into.norm("norm", Some(norm));
    }
}
