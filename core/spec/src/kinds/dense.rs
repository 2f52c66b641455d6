//! The dense feed-forwards `gated` and `plain`.

use crate::config::BiasRule;
use crate::kind::{
    Bits, Default, Definition, Family, Field, FieldType, FreeSize, KnownName, NotBuiltIn, Resolving, RoleDef,
    Sizes, Table,
};
use crate::{names, options};

names! {
    /// A pointwise activation.
    pub enum Activation {
        /// `x * sigmoid(x)`.
        Silu = "silu",
        /// GELU, tanh form (`gelu_new`, `gelu_pytorch_tanh`).
        GeluTanh = "gelu-tanh",
        /// GELU, erf form.
        GeluErf = "gelu-erf",
        /// `max(x, 0)`.
        Relu = "relu",
        /// `max(x, 0)^2`.
        ReluSquared = "relu-squared",
    }
    known &[
        KnownName {
            name: "swiglu-oai",
            doc: "The clamped SwiGLU of gpt-oss.",
            numbers: &SWIGLU_OAI,
        },
        KnownName { name: "xielu", doc: "xIELU (Huang and Schlag, 2024).", numbers: &XIELU },
    ];
}

static SWIGLU_OAI: Table = Table {
    title: "SwigluOai",
    doc: "Numbers of `swiglu-oai`.",
    fields: &[
        Field::new("alpha", FieldType::Real, Default::Required, "Multiplies inside the sigmoid."),
        Field::new("limit", FieldType::Real, Default::Required, "Gate and up are clamped to it."),
    ],
};

static XIELU: Table = Table {
    title: "Xielu",
    doc: "Numbers of `xielu`.",
    fields: &[
        Field::new("alpha_p", FieldType::Real, Default::Required, "Slope of the positive side."),
        Field::new("alpha_n", FieldType::Real, Default::Required, "Slope of the negative side."),
        Field::new("beta", FieldType::Real, Default::Required, "Linear part."),
        Field::new("eps", FieldType::Real, Default::Required, "Largest argument of the exponential."),
    ],
};

options! {
    /// Options of `gated` and `plain`.
    pub struct DenseOptions {
        /// The activation: between the linears, on the gate where there is one.
        activation: Activation = Required => guarded,
        /// Biases of the linears.
        bias: BiasRule = Name("none"),
        /// Norm before the way down.
        inner_norm: NotBuiltIn = Absent,
        /// Clamp inside.
        limit: NotBuiltIn = Absent,
    }
}

/// `down(act(gate(x)) * up(x))`; `ffn_up` of double width holds gate, then up.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct GatedConfig {
    /// Activation of the gate.
    pub activation: Activation,
    /// Biases of the three linears.
    pub bias: BiasRule,
}

/// `down(act(up(x)))`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PlainConfig {
    /// Activation between the two linears.
    pub activation: Activation,
    /// Biases of the two linears.
    pub bias: BiasRule,
}

/// Width of a dense feed-forward.
const WIDTH: &[FreeSize] =
    &[FreeSize { symbol: "F", hints: &["feed_forward_length"], doc: "Width of the feed-forward." }];

impl Definition for GatedConfig {
    type Options = DenseOptions;
    const FAMILY: Family = Family::FeedForward;
    const NAME: &'static str = "gated";
    const DOC: &'static str = "`down(act(gate(x)) * up(x))` (Shazeer, 2020).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("ffn_gate", &["D", "F"], "The gate.")
            .with_bias("bias")
            .in_form("gate and up", "split"),
        RoleDef::linear("ffn_up", &["D", "F"], "The way up.")
            .with_bias("bias")
            .in_form("gate and up", "split"),
        RoleDef::linear("ffn_up", &["D", "2*F"], "Gate rows, then up rows.")
            .with_bias("bias")
            .in_form("gate and up", "fused"),
        RoleDef::linear("ffn_down", &["F", "D"], "The way down.").with_bias("bias").stored(Bits::More),
    ];
    const FREE: &'static [FreeSize] = WIDTH;

    fn resolve(options: DenseOptions, _at: &mut Resolving<'_, '_>) -> Option<Self> {
        let DenseOptions { activation, bias, inner_norm: NotBuiltIn, limit: NotBuiltIn } = options;
        Some(GatedConfig { activation, bias })
    }

    fn sizes(&self, into: &mut Sizes) {
        let GatedConfig { activation: _, bias } = self;
        into.bias("bias", *bias);
    }
}

impl Definition for PlainConfig {
    type Options = DenseOptions;
    const FAMILY: Family = Family::FeedForward;
    const NAME: &'static str = "plain";
    const DOC: &'static str = "`down(act(up(x)))`.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("ffn_up", &["D", "F"], "The way up.").with_bias("bias"),
        RoleDef::linear("ffn_down", &["F", "D"], "The way down.").with_bias("bias").stored(Bits::More),
    ];
    const FREE: &'static [FreeSize] = WIDTH;

    fn resolve(options: DenseOptions, _at: &mut Resolving<'_, '_>) -> Option<Self> {
        let DenseOptions { activation, bias, inner_norm: NotBuiltIn, limit: NotBuiltIn } = options;
        Some(PlainConfig { activation, bias })
    }

    fn sizes(&self, into: &mut Sizes) {
        let PlainConfig { activation: _, bias } = self;
        into.bias("bias", *bias);
    }
}
