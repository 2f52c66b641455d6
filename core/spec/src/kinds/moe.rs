//! The feed-forward `moe`: routed experts, perhaps one that every token takes.

use super::dense::Activation;
use crate::config::{BiasRule, Role};
use crate::kind::{Bits, Definition, Family, FreeSize, Lazy, Optional, Positive, Resolving, RoleDef, Sizes};
use crate::{names, options};

/// Mixture of experts.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MoeConfig {
    /// The routed experts (roles `ffn_*_exps`).
    pub experts: ExpertConfig,
    /// The expert every token takes (roles `ffn_*_shexp`).
    pub shared: Option<SharedExpertConfig>,
    /// How experts are chosen and weighted.
    pub router: RouterConfig,
}

options! {
    /// Options of `moe`.
    pub struct MoeOptions {
        /// The routed experts (roles `ffn_*_exps`).
        experts: ExpertConfig = Required,
        /// The expert every token takes (roles `ffn_*_shexp`).
        shared: Optional<SharedExpertOptions> = Absent,
        /// How experts are chosen and weighted.
        router: RouterOptions = Required,
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

options! {
    /// The routed experts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
    pub struct ExpertConfig {
        /// Gated or plain.
        kind: ExpertForm = Required,
        /// Activation inside.
        activation: Activation = Required => guarded,
        /// Biases of the expert linears.
        bias: BiasRule = Name("none"),
    }
}

/// The shared expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
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
        activation: Activation = Required => guarded,
        /// Biases of its linears.
        bias: BiasRule = Name("none"),
        /// What its output is multiplied by.
        gate: SharedGate = Name("none"),
    }
}

/// The router.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RouterConfig {
    /// How logits become scores.
    pub score: RouterScore,
    /// Bias of the router's linear.
    pub bias: BiasRule,
    /// What the router reads.
    pub input: RouterInput,
    /// What experts are selected by.
    pub select: RouterSelect,
    /// Role of a bias added for the selection only.
    pub select_bias: Option<Role>,
    /// Selection by groups of experts first.
    pub groups: Option<RouterGroups>,
    /// What the weights of the chosen experts are.
    pub weights: RouterWeights,
    /// Multiplies the weights.
    pub scale: f32,
    /// What the weight multiplies.
    pub apply: RouterApply,
    /// Experts per token.
    pub top_k: usize,
}

names! {
    /// How router logits become scores.
    pub enum RouterScore {
        /// Softmax over all experts.
        Softmax = "softmax",
        /// Sigmoid of each.
        Sigmoid = "sigmoid",
        /// Softmax over the chosen ones.
        SoftmaxOfSelected = "softmax-of-selected",
        /// `sqrt(softplus(x))`.
        SqrtSoftplus = "sqrt-softplus",
    }
}

names! {
    /// What the router reads.
    pub enum RouterInput {
        /// What the experts get.
        Branch = "branch",
        /// The raw input of the block.
        BlockInput = "block-input",
    }
}

names! {
    /// What experts are selected by.
    pub enum RouterSelect {
        /// Their scores.
        Scores = "scores",
        /// Their logits.
        Logits = "logits",
    }
}

names! {
    /// What the weights of the chosen experts are.
    pub enum RouterWeights {
        /// Their scores, divided by their sum.
        SumToOne = "sum-to-one",
        /// Their scores.
        AsScored = "as-scored",
    }
}

names! {
    /// What the weight of an expert multiplies.
    pub enum RouterApply {
        /// Its output.
        ToOutput = "to-output",
        /// Its input.
        ToInput = "to-input",
    }
}

names! {
    /// How a group of experts is scored.
    pub enum GroupScore {
        /// By its best expert.
        Best = "best",
        /// By the sum of its best two.
        SumOfBestTwo = "sum-of-best-two",
    }
}

options! {
    /// How experts are chosen and weighted.
    pub struct RouterOptions {
        /// How logits become scores.
        score: RouterScore = Required => guarded,
        /// Bias of the router's linear.
        bias: BiasRule = Name("none"),
        /// What the router reads.
        input: RouterInput = Name("branch"),
        /// What experts are selected by.
        select: RouterSelect = Name("scores") => guarded,
        /// A bias (role `exp_probs_b`) that is added for the selection only.
        select_bias: BiasRule = Name("none"),
        /// Selection by groups of experts first; count 1 is none.
        groups: Option<GroupOptions> = Absent,
        /// What the weights of the chosen experts are.
        weights: Option<RouterWeights> = RequiredUnless {
            field: "score",
            is: "softmax-of-selected",
            why: "it has no default, because it is the most often wrong value",
        } => guarded,
        /// Multiplies the weights; 0 is an error.
        scale: f32 = Number(1.0) => guarded,
        /// What the weight of an expert multiplies.
        apply: RouterApply = Name("to-output") => guarded,
        /// Experts per token.
        top_k: Positive<usize> = Key("expert_used_count"),
    }
}

options! {
    /// Selection by groups of experts first.
    pub struct GroupOptions {
        /// Groups of consecutive experts; 1 = none.
        count: usize = Required,
        /// Groups kept.
        keep: Lazy<usize> = Required,
        /// How a group is scored.
        score: Lazy<GroupScore> = Required => guarded,
    }
}

/// Group-limited routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RouterGroups {
    /// Groups of consecutive experts.
    pub count: usize,
    /// Groups kept.
    pub keep: usize,
    /// How a group is scored.
    pub score: GroupScore,
}

/// Role of a bias that is added for the selection of experts only.
const SELECT_BIAS: &str = "exp_probs_b.bias";

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
        RoleDef::linear("ffn_gate_exps", &["D", "EF", "E"], "Gates of the experts.")
            .with_bias("experts")
            .when("gated")
            .in_form(EXPERTS, "split"),
        RoleDef::linear("ffn_up_exps", &["D", "EF", "E"], "Ways up of the experts.")
            .with_bias("experts")
            .in_form(EXPERTS, "split"),
        RoleDef::linear("ffn_gate_up_exps", &["D", "2*EF", "E"], "Gate rows, then up rows, of each expert.")
            .with_bias("experts")
            .when("gated")
            .in_form(EXPERTS, "fused"),
        RoleDef::linear("ffn_down_exps", &["EF", "D", "E"], "Ways down of the experts.")
            .with_bias("experts")
            .stored(Bits::More),
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
            .when("shared")
            .stored(Bits::More),
        RoleDef::linear("ffn_gate_inp_shexp", &["D", "1"], "Gate on the output of the shared expert.")
            .when("shared gate")
            .stored(Bits::Full),
    ];
    const FREE: &'static [FreeSize] = &[
        FreeSize { symbol: "E", hints: &["expert_count"], doc: "Routed experts." },
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

    fn resolve(options: MoeOptions, at: &mut Resolving<'_, '_>) -> Option<Self> {
        let MoeOptions { experts, shared: Optional(shared), router } = options;
        let shared = shared.map(|shared| {
            let SharedExpertOptions { kind, activation, bias, gate } = shared.options;
            SharedExpertConfig { expert: ExpertConfig { kind, activation, bias }, gate }
        });
        Some(MoeConfig { experts, shared, router: resolve_router(router, at)? })
    }

    fn sizes(&self, into: &mut Sizes) {
        let MoeConfig { experts, shared, router } = self;
        into.bias("router", router.bias);
        into.role("select_bias", router.select_bias.as_ref());
        into.bias("experts", experts.bias);
        into.holds("gated", experts.kind == ExpertForm::Gated);
        let Some(SharedExpertConfig { expert, gate }) = shared else { return };
        into.bias("shared", expert.bias);
        into.holds("shared", true);
        into.holds("shared gated", expert.kind == ExpertForm::Gated);
        into.holds("shared gate", *gate == SharedGate::Sigmoid);
    }
}

fn resolve_router(options: RouterOptions, at: &mut Resolving<'_, '_>) -> Option<RouterConfig> {
    let RouterOptions {
        score,
        bias,
        input,
        select,
        select_bias,
        groups,
        weights,
        scale,
        apply,
        top_k: Positive(top_k),
    } = options;
    let groups = match groups {
        Some(groups) => resolve_groups(groups, at)?,
        None => None,
    };
    if scale == 0.0 {
        return at.fault("router.scale", "0 would silence the experts");
    }
    // Some converters write it without the suffix.
    let stored = [SELECT_BIAS, "exp_probs_b"].into_iter().find(|role| at.has(role));
    let select_bias = match select_bias {
        BiasRule::None => None,
        BiasRule::Required => Some(stored.unwrap_or(SELECT_BIAS).to_string()),
        BiasRule::IfPresent => stored.map(str::to_string),
    };
    // Softmax over the chosen experts sums to one by itself.
    let weights = weights.unwrap_or(RouterWeights::AsScored);
    Some(RouterConfig { score, bias, input, select, select_bias, groups, weights, scale, apply, top_k })
}

#[allow(clippy::option_option)]
fn resolve_groups(options: GroupOptions, at: &mut Resolving<'_, '_>) -> Option<Option<RouterGroups>> {
    let GroupOptions { count, keep, score } = options;
    if count <= 1 {
        return Some(None);
    }
    let (keep, score) = (at.force(&keep), at.force(&score));
    let (keep, score) = (keep?, score?);
    if keep == 0 || keep > count {
        let message = format!("{keep} of {count} groups are kept; at least 1 and at most all are wanted");
        return at.fault("router.groups.keep", message);
    }
    Some(Some(RouterGroups { count, keep, score }))
}
