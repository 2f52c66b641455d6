//! The router of `moe`: how experts are chosen and weighted.

use super::dense::one_entry;
use crate::config::{BiasRule, Role};
use crate::kind::formulas::{as_name, definitions, with_numbers};
use crate::kind::{
    Component, FieldType, Lazy, NameList, NormHere, Optional, Options, Positive, RecordedFault,
    ResolveContext, Value,
};
use crate::options;
use menagerie_formulas::{
    GroupScore, RouterApply, RouterInput, RouterScore, RouterSelect, RouterWeights, SparseMixer,
};
use std::collections::BTreeMap;

/// The router.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RouterConfig {
    /// How logits become scores.
    #[serde(serialize_with = "score_as_written")]
    pub score: RouterScore,
    /// Bias of the router's linear.
    pub bias: BiasRule,
    /// What the router reads.
    #[serde(serialize_with = "as_name")]
    pub input: RouterInput,
    /// Norm on what the router reads (role `ffn_gate_inp.scale`).
    pub norm: Option<Component>,
    /// Multiplies what the router reads.
    pub input_scale: f32,
    /// What experts are selected by.
    #[serde(serialize_with = "as_name")]
    pub select: RouterSelect,
    /// Role of a bias added for the selection only.
    pub select_bias: Option<Role>,
    /// Selection by groups of experts first.
    pub groups: Option<RouterGroups>,
    /// What the weights of the chosen experts are.
    #[serde(serialize_with = "as_name")]
    pub weights: RouterWeights,
    /// Multiplies the weights.
    pub scale: f32,
    /// What the weight multiplies.
    #[serde(serialize_with = "as_name")]
    pub apply: RouterApply,
    /// Experts per token.
    pub top_k: usize,
}

options! {
    /// Numbers of `sparse-mixer`.
    pub struct SparseMixerOptions {
        /// Noise that the router was trained with.
        jitter: f32 = Required => guarded,
    }
}

static SCORES: NameList = NameList {
    title: RouterScore::TITLE,
    doc: RouterScore::DOC,
    names: &with_numbers(
        definitions::<{ RouterScore::NAMES.len() }>(RouterScore::NAMES),
        "sparse-mixer",
        SparseMixerOptions::TABLE,
    ),
};

impl Value for RouterScore {
    const TYPE: FieldType = FieldType::Name(&SCORES);

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        let place = at.place_in(index, &SCORES)?;
        let Some(score) = RouterScore::ALL.get(place) else { return at.misread(index) };
        Ok(match score {
            RouterScore::SparseMixer(_) => {
                let SparseMixerOptions { jitter } = at.numbers(index)?;
                RouterScore::SparseMixer(SparseMixer { jitter })
            }
            plain => *plain,
        })
    }
}

fn score_as_written<S: serde::Serializer>(score: &RouterScore, to: S) -> Result<S::Ok, S::Error> {
    match score {
        RouterScore::SparseMixer(SparseMixer { jitter }) => {
            one_entry(to, score.name(), &BTreeMap::from([("jitter", jitter)]))
        }
        plain => to.serialize_str(plain.name()),
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
    #[serde(serialize_with = "as_name")]
    pub score: GroupScore,
}

/// Role of a bias that is added for the selection of experts only.
const SELECT_BIAS: &str = "exp_probs_b.bias";

/// The router of one layer.
pub(super) fn resolve_router(
    options: RouterOptions,
    at: &mut ResolveContext<'_>,
) -> Result<RouterConfig, RecordedFault> {
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
        return at.fault("router.scale", "0 would disable the experts");
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
        let message =
            "`sparse-mixer` selects experts itself and cannot be combined with select, select_bias or groups";
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

fn resolve_groups(
    options: GroupOptions,
    at: &mut ResolveContext<'_>,
) -> Result<Option<RouterGroups>, RecordedFault> {
    let GroupOptions { count, keep, score } = options;
    if count <= 1 {
        return Ok(None);
    }
    let (keep, score) = (at.force(&keep), at.force(&score));
    let (keep, score) = (keep?, score?);
    if keep == 0 || keep > count {
        let message = format!("keeps {keep} of {count} groups; expected 1 to {count}");
        return at.fault("router.groups.keep", message);
    }
    Ok(Some(RouterGroups { count, keep, score }))
}
