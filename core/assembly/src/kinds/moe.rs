//! The feed-forward `moe`.

use super::dense::{DenseRoles, gated_of, plain_of};
use super::names::activation;
use menagerie_model as model;
use menagerie_model::components::{Experts, MoeFeedForward, MoeInput, SharedExpert};
use menagerie_model::{FeedForward, GroupSelection, RouterRule, Weighted};
use menagerie_registry::{Part, Parts, component, noted, where_given};
use menagerie_spec::config::{
    ExpertConfig, ExpertForm, GroupScore, MoeConfig, RouterApply, RouterConfig, RouterGroups, RouterInput,
    RouterScore, RouterSelect, RouterWeights, SharedExpertConfig, SharedGate,
};

component!(feed_forward MoeConfig, moe);

/// Roles of the expert that every token takes.
const SHARED: DenseRoles = DenseRoles { gate: "ffn_gate_shexp", up: "ffn_up_shexp", down: "ffn_down_shexp" };

fn moe(config: &MoeConfig, parts: &mut dyn Parts) -> Option<Box<dyn FeedForward>> {
    let MoeConfig { experts, shared, router: rule } = config;
    let router = parts.linear("ffn_gate_inp");
    let count = router.as_ref().map(|router| router.out_features());
    let routing = router_rule(rule, count, parts);
    let experts = experts_of(experts, parts);
    let shared = where_given(shared.as_ref().map(|shared| shared_expert(shared, parts)));
    let (router, (rule, input, weighted), experts) = (router?, routing?, experts?);
    Some(Box::new(MoeFeedForward { router, rule, input, experts, weighted, shared: shared? }))
}

/// The rule, what the router reads and where its weights multiply.
fn router_rule(
    config: &RouterConfig,
    count: Option<usize>,
    parts: &mut dyn Parts,
) -> Option<(RouterRule, MoeInput, Weighted)> {
    let RouterConfig { score, bias: _, input, select, select_bias, groups, weights, scale, apply, top_k } =
        config;
    let select_bias = where_given(select_bias.as_ref().map(|role| parts.values(role, Part::Main)));
    let count = count?;
    if *top_k == 0 || *top_k > count {
        parts.fault(&format!("experts: {top_k} of {count} experts per token; expected 1 to {count}"));
        return None;
    }
    let groups = where_given(groups.map(|groups| group_selection(groups, count, parts)))?;
    let rule = RouterRule {
        score: match score {
            RouterScore::Softmax => model::RouterScore::Softmax,
            RouterScore::Sigmoid => model::RouterScore::Sigmoid,
            RouterScore::SoftmaxOfSelected => model::RouterScore::SoftmaxOfSelected,
            RouterScore::SqrtSoftplus => model::RouterScore::SqrtSoftplus,
        },
        select: match select {
            RouterSelect::Scores => model::SelectBy::Scores,
            RouterSelect::Logits => model::SelectBy::Logits,
        },
        select_bias: select_bias?,
        groups,
        weights: match weights {
            RouterWeights::SumToOne => model::RouterWeights::SumToOne,
            RouterWeights::AsScored => model::RouterWeights::AsScored,
        },
        scale: *scale,
        top_k: *top_k,
    };
    let input = match input {
        RouterInput::Branch => MoeInput::Branch,
        RouterInput::BlockInput => MoeInput::BlockInput,
    };
    let weighted = match apply {
        RouterApply::ToOutput => Weighted::Outputs,
        RouterApply::ToInput => Weighted::Inputs,
    };
    Some((rule, input, weighted))
}

fn group_selection(config: RouterGroups, experts: usize, parts: &mut dyn Parts) -> Option<GroupSelection> {
    let RouterGroups { count, keep, score } = config;
    if count == 0 || !experts.is_multiple_of(count) {
        parts.fault(&format!("experts: {experts} experts do not fall into {count} groups"));
        return None;
    }
    let score = match score {
        GroupScore::Best => model::GroupScore::Best,
        GroupScore::SumOfBestTwo => model::GroupScore::SumOfBestTwo,
    };
    Some(GroupSelection { count, keep, score })
}

// Biases are taken by the rule in the kind's table.
fn experts_of(config: &ExpertConfig, parts: &mut dyn Parts) -> Option<Experts> {
    let ExpertConfig { kind, activation: act, bias: _ } = *config;
    let (gate, up) = match kind {
        ExpertForm::Gated if parts.has("ffn_gate_up_exps", Part::Main) => {
            let halves = parts.split_experts("ffn_gate_up_exps");
            halves.map_or((None, None), |[gate, up]| (Some(Some(gate)), Some(up)))
        }
        ExpertForm::Gated => (parts.experts("ffn_gate_exps").map(Some), parts.experts("ffn_up_exps")),
        ExpertForm::Plain => (Some(None), parts.experts("ffn_up_exps")),
    };
    let down = parts.experts("ffn_down_exps");
    Some(Experts { gate: gate?, up: up?, down: down?, activation: activation(act) })
}

fn shared_expert(config: &SharedExpertConfig, parts: &mut dyn Parts) -> Option<SharedExpert> {
    let SharedExpertConfig { expert: ExpertConfig { kind, activation, bias: _ }, gate } = *config;
    let expert = match kind {
        ExpertForm::Gated => gated_of(&SHARED, activation, parts),
        ExpertForm::Plain => plain_of(&SHARED, activation, parts),
    };
    let gate = match gate {
        SharedGate::None => Some(None),
        SharedGate::Sigmoid => parts.linear("ffn_gate_inp_shexp").map(Some),
    };
    noted(parts, SharedExpert::new(expert?, gate?))
}
