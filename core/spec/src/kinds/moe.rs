//! The feed-forward `moe`: routed experts, perhaps one that every token takes.

use super::dense::{ActivationConfig, LimitConfig, LimitOptions, form_fits};
use super::router::{RouterConfig, RouterOptions, resolve_router};
use crate::config::BiasRule;
use crate::kind::{
    Bits, Definition, Family, FreeSize, Optional, RecordedFault, ResolveContext, RoleDef, Sizes,
};
use crate::{names, options};

/// Mixture of experts.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MoeConfig {
    /// The routed experts (roles `ffn_*_exps`).
    pub experts: ExpertConfig,
    /// The expert every token takes (roles `ffn_*_shexp`).
    pub shared: Option<SharedExpertConfig>,
    /// What the routed experts work on.
    pub width: ExpertWidth,
    /// How experts are chosen and weighted.
    pub router: RouterConfig,
}

options! {
    /// Options of `moe`.
    pub struct MoeOptions {
        /// The routed experts (roles `ffn_*_exps`).
        experts: ExpertOptions = Required,
        /// The expert every token takes (roles `ffn_*_shexp`).
        shared: Optional<SharedExpertOptions> = Absent,
        /// What the routed experts work on.
        width: ExpertWidth = Name("model"),
        /// How experts are chosen and weighted.
        router: RouterOptions = Required,
    }
}

names! {
    /// What routed experts work on.
    pub enum ExpertWidth {
        /// Rows of the model's width.
        Model = "model",
        /// Rows that `ffn_latent_down` makes, and `ffn_latent_up` brings their sum back (Nemotron 3).
        Latent = "latent",
    }
}

names! {
    /// The form of an expert.
    pub enum ExpertForm {
        /// `down(act(gate(x)) * up(x))`.
        Gated = "gated",
        /// `down(act(up(x)))`.
        Plain = "plain",
    }
}

/// The shape of an expert.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ExpertConfig {
    /// Gated or plain.
    pub kind: ExpertForm,
    /// Activation inside.
    pub activation: ActivationConfig,
    /// Biases of its linears.
    pub bias: BiasRule,
    /// Limit on gate and up projection.
    pub limit: Option<LimitConfig>,
}

options! {
    /// The routed experts.
    pub struct ExpertOptions {
        /// Gated or plain.
        kind: ExpertForm = Required,
        /// Activation inside.
        activation: ActivationConfig = Required => guarded,
        /// Biases of the expert linears.
        bias: BiasRule = Name("none"),
        /// Limit on gate and up projection.
        limit: Option<LimitOptions> = Absent,
    }
}

/// The shared expert.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SharedExpertConfig {
    /// Its shape.
    pub expert: ExpertConfig,
    /// What its output is multiplied by.
    pub gate: SharedGate,
}

names! {
    /// What the output of the shared expert is multiplied by.
    pub enum SharedGate {
        /// Nothing.
        None = "none",
        /// `sigmoid(ffn_gate_inp_shexp(x))`.
        Sigmoid = "sigmoid",
    }
}

options! {
    /// The expert every token takes.
    pub struct SharedExpertOptions {
        /// Gated or plain.
        kind: ExpertForm = Required,
        /// Activation inside.
        activation: ActivationConfig = Required => guarded,
        /// Biases of its linears.
        bias: BiasRule = Name("none"),
        /// Limit on gate and up projection.
        limit: Option<LimitOptions> = Absent,
        /// What its output is multiplied by.
        gate: SharedGate = Name("none"),
    }
}

const EXPERTS: &str = "gate and up of the experts";
const SHARED: &str = "gate and up of the shared expert";

impl Definition for MoeConfig {
    type Options = MoeOptions;
    const FAMILY: Family = Family::FeedForward;
    const NAME: &'static str = "moe";
    const DOC: &'static str = "Mixture of experts (Shazeer et al., 2017): a router chooses some experts for each token and weights them.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("ffn_gate_inp", &["D", "E"], "The router.").with_bias("router").stored(Bits::Full),
        RoleDef::only_bias("exp_probs_b", &["E"], "Added to the scores for the selection only.")
            .given_by("select_bias"),
        RoleDef::norm("ffn_gate_inp.scale", &["D"], "router_norm", "Norm on what the router reads."),
        RoleDef::linear("ffn_gate_exps", &["D", "EF", "E"], "Gates of the experts.")
            .with_bias("experts")
            .when("gated")
            .in_form(EXPERTS, "split"),
        RoleDef::linear("ffn_latent_down", &["D", "LD"], "From the model's width to the experts'.")
            .when("latent"),
        RoleDef::linear("ffn_latent_up", &["LD", "D"], "From the experts' width to the model's.")
            .when("latent"),
        RoleDef::linear("ffn_up_exps", &["LD", "EF", "E"], "Ways up of experts of a width of their own.")
            .with_bias("experts")
            .when("latent")
            .in_form(EXPERTS, "split"),
        RoleDef::linear("ffn_up_exps", &["D", "EF", "E"], "Ways up of the experts.")
            .with_bias("experts")
            .when("not latent")
            .in_form(EXPERTS, "split"),
        RoleDef::linear("ffn_gate_up_exps", &["D", "2*EF", "E"], "Gate rows, then up rows, of each expert.")
            .with_bias("experts")
            .when("gated")
            .in_form(EXPERTS, "fused"),
        RoleDef::linear("ffn_down_exps", &["EF", "LD", "E"], "Ways down of experts of a width of their own.")
            .with_bias("experts")
            .when("latent"),
        RoleDef::linear("ffn_down_exps", &["EF", "D", "E"], "Ways down of the experts.")
            .with_bias("experts")
            .when("not latent"),
        RoleDef::linear("ffn_gate_shexp", &["D", "SF"], "Gate of the shared expert.")
            .with_bias("shared")
            .when("shared gated")
            .in_form(SHARED, "split"),
        RoleDef::linear("ffn_up_shexp", &["D", "SF"], "Way up of the shared expert.")
            .with_bias("shared")
            .when("shared")
            .in_form(SHARED, "split"),
        RoleDef::linear("ffn_up_shexp", &["D", "2*SF"], "Gate rows, then up rows, of the shared expert.")
            .with_bias("shared")
            .when("shared gated")
            .in_form(SHARED, "fused"),
        RoleDef::linear("ffn_down_shexp", &["SF", "D"], "Way down of the shared expert.")
            .with_bias("shared")
            .when("shared"),
        RoleDef::linear("ffn_gate_inp_shexp", &["D", "1"], "Gate on the output of the shared expert.")
            .when("shared gate")
            .stored(Bits::Full),
    ];
    const FREE: &'static [FreeSize] = &[
        FreeSize { symbol: "E", hints: &["expert_count"], doc: "Routed experts." },
        FreeSize { symbol: "LD", hints: &["moe_latent_size"], doc: "Width that the experts work on." },
        FreeSize {
            symbol: "EF",
            hints: &["expert_feed_forward_length", "feed_forward_length"],
            doc: "Width of an expert.",
        },
        FreeSize {
            symbol: "SF",
            hints: &[
                "expert_shared_feed_forward_length",
                "expert_feed_forward_length",
                "feed_forward_length",
            ],
            doc: "Width of the shared expert.",
        },
    ];

    fn resolve(options: MoeOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let MoeOptions { experts, shared: Optional(shared), width, router } = options;
        let ExpertOptions { kind, activation, bias, limit } = experts;
        let experts = ExpertConfig { kind, activation, bias, limit: LimitOptions::config(limit) };
        let fits = expert_fits(&experts, "experts.", at);
        if width == ExpertWidth::Latent && kind == ExpertForm::Gated {
            return at.fault("width", "experts with a width of their own are supported only without a gate");
        }
        let shared = match shared {
            None => None,
            Some(shared) => {
                let SharedExpertOptions { kind, activation, bias, limit, gate } = shared.options;
                let expert = ExpertConfig { kind, activation, bias, limit: LimitOptions::config(limit) };
                expert_fits(&expert, "shared.", at)?;
                Some(SharedExpertConfig { expert, gate })
            }
        };
        let router = resolve_router(router, at);
        fits?;
        Ok(MoeConfig { experts, shared, width, router: router? })
    }

    fn sizes(&self, into: &mut Sizes) {
        let MoeConfig { experts, shared, width, router } = self;
        into.bias("router", router.bias);
        into.role("select_bias", router.select_bias.as_ref());
        into.norm("router_norm", router.norm.as_ref());
        into.bias("experts", experts.bias);
        into.holds("latent", *width == ExpertWidth::Latent);
        into.holds("not latent", *width == ExpertWidth::Model);
        into.holds("gated", experts.kind == ExpertForm::Gated);
        let Some(SharedExpertConfig { expert, gate }) = shared else { return };
        into.bias("shared", expert.bias);
        into.holds("shared", true);
        into.holds("shared gated", expert.kind == ExpertForm::Gated);
        into.holds("shared gate", *gate == SharedGate::Sigmoid);
    }
}

fn expert_fits(
    expert: &ExpertConfig,
    prefix: &str,
    at: &mut ResolveContext<'_>,
) -> Result<(), RecordedFault> {
    let ExpertConfig { kind, activation, bias: _, limit } = expert;
    form_fits(activation, *limit, *kind == ExpertForm::Gated, prefix, at)
}
