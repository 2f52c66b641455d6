//! The dense feed-forwards `gated` and `plain`.

use crate::config::{BiasRule, NormSite};
use crate::kind::formulas::{definitions, with_numbers};
use crate::kind::{
    Cap, Component, Definition, Family, FieldType, FreeSize, NameDef, NameList, OptionalNorm, Options,
    RecordedFault, ResolveContext, RoleDef, Sizes, Value,
};
use crate::{names, options};
use menagerie_formulas::{Activation, Xielu};
use serde::ser::SerializeMap;
use std::collections::BTreeMap;

options! {
    /// Numbers of `swiglu-oai`.
    #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
    pub struct SwigluOai {
        /// Multiplies inside the sigmoid.
        alpha: f32 = Required => guarded,
        /// The gate is at most this, the up projection within plus and minus this.
        limit: f32 = Required => guarded,
    }
}

options! {
    /// Numbers of `xielu`, as they are stored.
    pub struct XieluOptions {
        /// Its softplus is `a`, the curvature above 0.
        alpha_p: f32 = Required => guarded,
        /// `beta` and its softplus are `n`, the weight of the exponential.
        alpha_n: f32 = Required => guarded,
        /// Linear part.
        beta: f32 = Required => guarded,
        /// Largest argument of the exponential.
        eps: f32 = Required => guarded,
    }
}

/// Names of formulas, and what only a gate and an up projection have.
const COUNT: usize = Activation::NAMES.len() + 1;

/// Every activation that a name stands for; `swiglu-oai` is the last.
static ACTIVATIONS: NameList = NameList {
    title: Activation::TITLE,
    doc: Activation::DOC,
    names: &{
        let formulas = definitions::<{ Activation::NAMES.len() }>(Activation::NAMES);
        let formulas = with_numbers(formulas, "xielu", XieluOptions::TABLE);
        let mut all = [SWIGLU_OAI; COUNT];
        let mut at = 0;
        while at < formulas.len() {
            all[at] = formulas[at];
            at += 1;
        }
        all
    },
};

const SWIGLU_OAI: NameDef = NameDef {
    name: "swiglu-oai",
    doc: "The clamped SwiGLU: with `g = min(gate, limit)`, `g * sigmoid(alpha * g) * (clamp(up) + 1)`.\n",
    reads: &[],
    numbers: Some(SwigluOai::TABLE),
};

/// An activation with its numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum ActivationConfig {
    /// A formula that every backend computes.
    Formula(Activation),
    /// The clamped SwiGLU of gpt-oss; of a gate and an up projection.
    SwigluOai(SwigluOai),
    /// That of a registered component.
    Component(Component),
}

impl From<Activation> for ActivationConfig {
    fn from(formula: Activation) -> Self {
        Self::Formula(formula)
    }
}

impl Value for ActivationConfig {
    const TYPE: FieldType = FieldType::NameOrKind(&ACTIVATIONS, Family::Activation);

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        if at.is_component(index) {
            return at.component(index).map(Self::Component);
        }
        let place = at.place_in(index, &ACTIVATIONS)?;
        Ok(match Activation::ALL.get(place) {
            None => Self::SwigluOai(at.numbers(index)?),
            Some(Activation::Xielu(_)) => {
                let XieluOptions { alpha_p, alpha_n, beta, eps } = at.numbers(index)?;
                let alpha_p = softplus(f64::from(alpha_p)) as f32;
                let alpha_n = (f64::from(beta) + softplus(f64::from(alpha_n))) as f32;
                Self::Formula(Activation::Xielu(Xielu { alpha_p, alpha_n, beta, eps }))
            }
            Some(plain) => Self::Formula(*plain),
        })
    }
}

impl serde::Serialize for ActivationConfig {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Formula(Activation::Xielu(Xielu { alpha_p, alpha_n, beta, eps })) => {
                let numbers = [("alpha_p", alpha_p), ("alpha_n", alpha_n), ("beta", beta), ("eps", eps)];
                one_entry(to, "xielu", &BTreeMap::from(numbers))
            }
            Self::Formula(plain) => to.serialize_str(plain.name()),
            Self::SwigluOai(numbers) => one_entry(to, SWIGLU_OAI.name, numbers),
            Self::Component(component) => one_entry(to, "component", component),
        }
    }
}

/// A map of one name.
pub(super) fn one_entry<S: serde::Serializer>(
    to: S,
    name: &str,
    value: &impl serde::Serialize,
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(1))?;
    map.serialize_entry(name, value)?;
    map.end()
}

/// `ln(1 + exp(x))` without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

/// Limit on gate and up projection.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct LimitConfig {
    /// The gate is at most this, the up projection within plus and minus this; above 0.
    pub value: f32,
    /// Where the gate is limited.
    pub at: LimitPlace,
}

names! {
    /// Where a gate is limited.
    pub enum LimitPlace {
        /// Before its activation.
        BeforeActivation = "before-activation",
        /// After its activation.
        AfterActivation = "after-activation",
    }
}

options! {
    /// Limit on gate and up projection.
    pub struct LimitOptions {
        /// The gate is at most this, the up projection within plus and minus this; 0 = none.
        value: Cap = Required => guarded,
        /// Where the gate is limited; the up projection is where it comes in.
        at: LimitPlace = Required => guarded,
    }
}

impl LimitOptions {
    /// The limit, if there is one.
    pub(super) fn config(options: Option<Self>) -> Option<LimitConfig> {
        let LimitOptions { value: Cap(value), at } = options?;
        Some(LimitConfig { value: value?, at })
    }
}

/// Refuses what a feed-forward, or an expert, of this form cannot compute; `prefix` is the path of its options.
pub(super) fn form_fits(
    activation: &ActivationConfig,
    limit: Option<LimitConfig>,
    gated: bool,
    prefix: &str,
    at: &mut ResolveContext<'_>,
) -> Result<(), RecordedFault> {
    if limit.is_some() && (!gated || *activation != ActivationConfig::Formula(Activation::Silu)) {
        let message = "a limit requires a gate with the activation `silu`";
        return at.fault(&format!("{prefix}limit"), message);
    }
    match *activation {
        ActivationConfig::SwigluOai(_) if !gated => {
            let message = "`swiglu-oai` requires a gate and an up projection";
            at.fault(&format!("{prefix}activation"), message)
        }
        ActivationConfig::SwigluOai(SwigluOai { limit, .. }) if limit <= 0.0 => {
            at.fault(&format!("{prefix}activation.limit"), format!("{limit}; expected a positive number"))
        }
        _ => Ok(()),
    }
}

options! {
    /// Options of `gated` and `plain`.
    pub struct DenseOptions {
        /// The activation: between the linears, on the gate where there is one.
        activation: ActivationConfig = Required => guarded,
        /// Biases of the linears.
        bias: BiasRule = Name("none"),
        /// Norm before the down projection.
        inner_norm: OptionalNorm = Absent,
        /// Limit on gate and up projection.
        limit: Option<LimitOptions> = Absent,
    }
}

/// `down(norm(act(gate(x)) * up(x)))`; `ffn_up` of double width holds gate, then up.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct GatedConfig {
    /// Activation of the gate.
    pub activation: ActivationConfig,
    /// Biases of the three linears.
    pub bias: BiasRule,
    /// Norm before the down projection.
    pub inner_norm: Option<NormSite>,
    /// Limit on gate and up projection.
    pub limit: Option<LimitConfig>,
}

/// `down(norm(act(up(x))))`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PlainConfig {
    /// Activation between the two linears.
    pub activation: ActivationConfig,
    /// Biases of the two linears.
    pub bias: BiasRule,
    /// Norm before the down projection.
    pub inner_norm: Option<NormSite>,
}

const INNER_NORM: RoleDef =
    RoleDef::norm("ffn_sub_norm", &["F"], "inner_norm", "Norm before the down projection.")
        .given_by("inner_norm");

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
        RoleDef::linear("ffn_up", &["D", "F"], "The up projection.")
            .with_bias("bias")
            .in_form("gate and up", "split"),
        RoleDef::linear("ffn_up", &["D", "2*F"], "Gate rows, then up rows.")
            .with_bias("bias")
            .in_form("gate and up", "fused"),
        RoleDef::linear("ffn_down", &["F", "D"], "The down projection.").with_bias("bias"),
        INNER_NORM,
    ];
    const FREE: &'static [FreeSize] = WIDTH;

    fn resolve(options: DenseOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let DenseOptions { activation, bias, inner_norm: OptionalNorm(inner_norm), limit } = options;
        let limit = LimitOptions::config(limit);
        form_fits(&activation, limit, true, "", at)?;
        Ok(GatedConfig { activation, bias, inner_norm, limit })
    }

    fn sizes(&self, into: &mut Sizes) {
        let GatedConfig { activation: _, bias, inner_norm, limit: _ } = self;
        into.bias("bias", *bias);
        into.norm_site("inner_norm", inner_norm.as_ref());
    }
}

impl Definition for PlainConfig {
    type Options = DenseOptions;
    const FAMILY: Family = Family::FeedForward;
    const NAME: &'static str = "plain";
    const DOC: &'static str = "`down(act(up(x)))`.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("ffn_up", &["D", "F"], "The up projection.").with_bias("bias"),
        RoleDef::linear("ffn_down", &["F", "D"], "The down projection.").with_bias("bias"),
        INNER_NORM,
    ];
    const FREE: &'static [FreeSize] = WIDTH;

    fn resolve(options: DenseOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let DenseOptions { activation, bias, inner_norm: OptionalNorm(inner_norm), limit } = options;
        form_fits(&activation, LimitOptions::config(limit), false, "", at)?;
        Ok(PlainConfig { activation, bias, inner_norm })
    }

    fn sizes(&self, into: &mut Sizes) {
        let PlainConfig { activation: _, bias, inner_norm } = self;
        into.bias("bias", *bias);
        into.norm_site("inner_norm", inner_norm.as_ref());
    }
}
