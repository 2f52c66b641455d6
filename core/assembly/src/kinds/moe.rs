//! The feed-forward `moe`.

use super::dense::{DenseRoles, gated_of, plain_of};
use super::names::{activation, gating};
use menagerie_model::components::{self, Experts, LatentExperts, MoeFeedForward, Router, SharedExpert};
use menagerie_model::{FeedForward, GroupSelection, Linear, RouterRule};
use menagerie_registry::{Part, Parts, component, noted, where_given};
use menagerie_spec::config::{
    ExpertConfig, ExpertForm, ExpertWidth, MoeConfig, RouterConfig, RouterGroups, SharedExpertConfig,
    SharedGate,
};

component!(feed_forward MoeConfig, moe);

/// Roles of the expert that every token takes.
const SHARED: DenseRoles = DenseRoles { gate: "ffn_gate_shexp", up: "ffn_up_shexp", down: "ffn_down_shexp" };

fn moe(config: &MoeConfig, parts: &mut dyn Parts) -> Option<Box<dyn FeedForward>> {
    let MoeConfig { experts, shared, width, router: rule } = config;
    let product = parts.linear("ffn_gate_inp");
    let routing = router(rule, product, parts);
    let latent = match width {
        ExpertWidth::Model => Some(None),
        ExpertWidth::Latent => latent_experts(parts).map(Some),
    };
    let experts = experts_of(experts, parts);
    let shared = where_given(shared.as_ref().map(|shared| shared_expert(shared, parts)));
    let router = routing?;
    let experts = Experts { latent: latent?, ..experts? };
    Some(Box::new(MoeFeedForward { router, experts, apply: rule.apply, shared: shared? }))
}

/// The router.
fn router(config: &RouterConfig, product: Option<Box<dyn Linear>>, parts: &mut dyn Parts) -> Option<Router> {
    let norm = where_given(config.norm.as_ref().map(|norm| {
        let width = parts.width();
        parts.norm("ffn_gate_inp.scale", norm, width)
    }));
    let rule = router_rule(config, product.as_ref().map(|product| product.out_features()), parts);
    let (product, rule, norm) = (product?, rule?, norm?);
    let RouterConfig { input, input_scale, .. } = *config;
    Some(Router { product, input, norm, input_scale, rule })
}

/// From logits to experts and weights.
fn router_rule(config: &RouterConfig, count: Option<usize>, parts: &mut dyn Parts) -> Option<RouterRule> {
    let RouterConfig {
        score,
        bias: _,
        input: _,
        norm: _,
        input_scale: _,
        select,
        select_bias,
        groups,
        weights,
        scale,
        apply: _,
        top_k,
    } = config;
    let select_bias = where_given(select_bias.as_ref().map(|role| parts.values(role, Part::Main)));
    let count = count?;
    if *top_k == 0 || *top_k > count {
        parts.fault(&format!("experts: {top_k} of {count} experts per token; expected 1 to {count}"));
        return None;
    }
    let groups = where_given(groups.map(|groups| group_selection(groups, count, parts)))?;
    Some(RouterRule {
        score: *score,
        select: *select,
        select_bias: select_bias?,
        groups,
        weights: *weights,
        scale: *scale,
        top_k: *top_k,
    })
}

fn group_selection(config: RouterGroups, experts: usize, parts: &mut dyn Parts) -> Option<GroupSelection> {
    let RouterGroups { count, keep, score } = config;
    if count == 0 || !experts.is_multiple_of(count) {
        parts.fault(&format!("experts: {experts} experts do not fall into {count} groups"));
        return None;
    }
    Some(GroupSelection { count, keep, score })
}

// Biases are taken by the rule in the kind's table.
fn experts_of(config: &ExpertConfig, parts: &mut dyn Parts) -> Option<Experts> {
    let ExpertConfig { kind, activation: own, bias: _, limit } = config;
    let (gate, up) = match kind {
        ExpertForm::Gated if parts.has("ffn_gate_up_exps", Part::Main) => {
            let halves = parts.split_experts("ffn_gate_up_exps");
            halves.map_or((None, None), |[gate, up]| (Some(gate), Some(up)))
        }
        ExpertForm::Gated => (parts.experts("ffn_gate_exps"), parts.experts("ffn_up_exps")),
        ExpertForm::Plain => (None, parts.experts("ffn_up_exps")),
    };
    let down = parts.experts("ffn_down_exps");
    let form = match kind {
        ExpertForm::Gated => {
            let gating = gating(own, *limit, parts);
            components::ExpertForm::Gated { gate: gate?, gating: gating? }
        }
        ExpertForm::Plain => components::ExpertForm::Plain(activation(own, parts)?),
    };
    Some(Experts { up: up?, down: down?, form, latent: None })
}

/// The products around experts of a width of their own; their shapes say which it is.
fn latent_experts(parts: &mut dyn Parts) -> Option<LatentExperts> {
    let down = parts.linear("ffn_latent_down");
    let up = parts.linear("ffn_latent_up");
    Some(LatentExperts { down: down?, up: up? })
}

fn shared_expert(config: &SharedExpertConfig, parts: &mut dyn Parts) -> Option<SharedExpert> {
    let SharedExpertConfig { expert: ExpertConfig { kind, activation, bias: _, limit }, gate } = config;
    let expert = match kind {
        ExpertForm::Gated => gated_of(&SHARED, activation, *limit, None, parts),
        ExpertForm::Plain => plain_of(&SHARED, activation, None, parts),
    };
    let gate = match gate {
        SharedGate::None => Some(None),
        SharedGate::Sigmoid => parts.linear("ffn_gate_inp_shexp").map(Some),
    };
    noted(parts, SharedExpert::new(expert?, gate?))
}
