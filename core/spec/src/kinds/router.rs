//! The router of `moe`: how experts are chosen and weighted.

use crate::config::{BiasRule, Role};
use crate::kind::{Component, FieldType, Lazy, Named, NormHere, Noted, Optional, Positive, Resolving, Value};
use crate::{names, options};

/// The router.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RouterConfig {
    /// How logits become scores.
    pub score: RouterScore,
    /// Bias of the router's linear.
    pub bias: BiasRule,
    /// What the router reads.
    pub input: RouterInput,
    /// Norm on what the router reads (role `ffn_gate_inp.scale`).
    pub norm: Option<Component>,
    /// Multiplies what the router reads.
    pub input_scale: f32,
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
    pub enum RouterScoreName {
        /// Softmax over all experts.
        Softmax = "softmax",
        /// Sigmoid of each.
        Sigmoid = "sigmoid",
        /// Softmax over the chosen ones.
        SoftmaxOfSelected = "softmax-of-selected",
        /// `sqrt(softplus(x))`.
        SqrtSoftplus = "sqrt-softplus",
        /// SparseMixer (Liu et al., 2023), as it infers: one expert after the other, the best that is left; its weight is
        /// its share of a softmax over those left that are not further below it than twice the jitter, as a part of the
        /// larger of its logit and their size.
        SparseMixer = "sparse-mixer" with SparseMixer,
    }
}

options! {
    /// Numbers of `sparse-mixer`.
    #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
    pub struct SparseMixer {
        /// Noise that the router was trained with.
        jitter: f32 = Required => guarded,
    }
}

/// How router logits become scores, with the numbers of that.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouterScore {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
    /// Softmax over the chosen ones.
    SoftmaxOfSelected,
    /// `sqrt(softplus(x))`.
    SqrtSoftplus,
    /// SparseMixer, as it infers.
    SparseMixer(SparseMixer),
}

impl Value for RouterScore {
    const TYPE: FieldType = FieldType::Name(RouterScoreName::LIST);

    fn read(at: &mut Resolving<'_, '_>, index: usize) -> Result<Self, Noted> {
        Ok(match at.named(index)? {
            RouterScoreName::Softmax => RouterScore::Softmax,
            RouterScoreName::Sigmoid => RouterScore::Sigmoid,
            RouterScoreName::SoftmaxOfSelected => RouterScore::SoftmaxOfSelected,
            RouterScoreName::SqrtSoftplus => RouterScore::SqrtSoftplus,
            RouterScoreName::SparseMixer => RouterScore::SparseMixer(at.numbers(index)?),
        })
    }
}

names! {
    /// What the router reads.
    pub enum RouterInput {
        /// What the experts get.
        Branch = "branch",
        /// The residual stream that the branch reads, before its norm.
        Stream = "stream",
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
        /// Norm on what the router reads (role `ffn_gate_inp.scale`).
        norm: Optional<RouterNormOptions> = Absent,
        /// Multiplies what the router reads.
        input_scale: f32 = Number(1.0) => guarded,
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
    /// Norm on what the router reads (role `ffn_gate_inp.scale`).
    pub struct RouterNormOptions {
        /// The norm.
        norm: NormHere = Fields,
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

/// The router of one layer.
pub(super) fn resolve_router(
    options: RouterOptions,
    at: &mut Resolving<'_, '_>,
) -> Result<RouterConfig, Noted> {
    let RouterOptions {
        score,
        bias,
        input,
        norm: Optional(norm),
        input_scale,
        select,
        select_bias,
        groups,
        weights,
        scale,
        apply,
        top_k: Positive(top_k),
    } = options;
    let norm = match norm {
        Some(norm) => Some(at.norm(&norm.options.norm, &["ffn_gate_inp.scale"])?),
        None => None,
    };
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
    let mixed = matches!(score, RouterScore::SparseMixer(_));
    if mixed && (select_bias.is_some() || groups.is_some() || select != RouterSelect::Scores) {
        let message = "`sparse-mixer` chooses by itself: no select, select_bias or groups goes with it";
        return at.fault("router.score", message);
    }
    // Softmax over the chosen experts sums to one by itself.
    let weights = weights.unwrap_or(RouterWeights::AsScored);
    Ok(RouterConfig {
        score,
        bias,
        input,
        norm,
        input_scale,
        select,
        select_bias,
        groups,
        weights,
        scale,
        apply,
        top_k,
    })
}

fn resolve_groups(options: GroupOptions, at: &mut Resolving<'_, '_>) -> Result<Option<RouterGroups>, Noted> {
    let GroupOptions { count, keep, score } = options;
    if count <= 1 {
        return Ok(None);
    }
    let (keep, score) = (at.force(&keep), at.force(&score));
    let (keep, score) = (keep?, score?);
    if keep == 0 || keep > count {
        let message = format!("{keep} of {count} groups are kept; at least 1 and at most all are wanted");
        return at.fault("router.groups.keep", message);
    }
    Ok(Some(RouterGroups { count, keep, score }))
}
