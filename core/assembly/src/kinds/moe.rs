//! The feed-forward `moe`.

use super::dense::{DenseRoles, gated_of, plain_of};
use super::names::{activation, gating};
use menagerie_model::components::{self, Experts, LatentExperts, MoeFeedForward, Router, SharedExpert};
use menagerie_model::{FeedForward, GroupSelection, Linear, RouterRule};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::{
    ExpertConfig, ExpertForm, ExpertWidth, MoeConfig, RouterConfig, RouterGroups, SharedExpertConfig,
    SharedGate,
};

component!(feed_forward MoeConfig, moe);

/// Roles of the shared expert.
const SHARED: DenseRoles = DenseRoles { gate: "ffn_gate_shexp", up: "ffn_up_shexp", down: "ffn_down_shexp" };

fn moe(config: &MoeConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn FeedForward>> {
    let MoeConfig { experts, shared, width, router: rule } = config;
    let product = parts.linear("ffn_gate_inp");
    let routing = router(rule, product, parts);
    let latent = match width {
        ExpertWidth::Model => Ok(None),
        ExpertWidth::Latent => latent_experts(parts).map(Some),
    };
    let experts = experts_of(experts, parts);
    let shared = shared.as_ref().map(|shared| shared_expert(shared, parts)).transpose();
    let router = routing?;
    let experts = Experts { latent: latent?, ..experts? };
    Ok(Box::new(MoeFeedForward { router, experts, apply: rule.apply, shared: shared? }))
}

/// The router.
fn router(
    config: &RouterConfig,
    product: BuildResult<Box<dyn Linear>>,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Router> {
    let norm = config
        .norm
        .as_ref()
        .map(|norm| {
            let width = parts.width();
            parts.norm("ffn_gate_inp.scale", norm, width)
        })
        .transpose();
    let count = product.as_ref().map(|product| product.out_features()).map_err(|fault| *fault);
    let rule = router_rule(config, count, parts);
    let (product, rule, norm) = (product?, rule?, norm?);
    let RouterConfig { input, input_scale, .. } = *config;
    Ok(Router { product, input, norm, input_scale, rule })
}

/// How experts and weights are chosen from logits.
fn router_rule(
    config: &RouterConfig,
    count: BuildResult<usize>,
    parts: &mut dyn ComponentParts,
) -> BuildResult<RouterRule> {
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
    let select_bias = select_bias.as_ref().map(|role| parts.values(role, TensorPart::Main)).transpose();
    let count = count?;
    if *top_k == 0 || *top_k > count {
        return Err(parts.fault(&format!("experts: expected 1 to {count} experts per token, found {top_k}")));
    }
    let groups = groups.map(|groups| group_selection(groups, count, parts)).transpose()?;
    Ok(RouterRule {
        score: *score,
        select: *select,
        select_bias: select_bias?,
        groups,
        weights: *weights,
        scale: *scale,
        top_k: *top_k,
    })
}

fn group_selection(
    config: RouterGroups,
    experts: usize,
    parts: &mut dyn ComponentParts,
) -> BuildResult<GroupSelection> {
    let RouterGroups { count, keep, score } = config;
    if count == 0 || !experts.is_multiple_of(count) {
        return Err(parts.fault(&format!(
            "experts: expected groups of equal size, found {experts} experts in {count} groups"
        )));
    }
    Ok(GroupSelection { count, keep, score })
}

// The kind's table says whether there are biases.
fn experts_of(config: &ExpertConfig, parts: &mut dyn ComponentParts) -> BuildResult<Experts> {
    let ExpertConfig { kind, activation: own, bias: _, limit } = config;
    match kind {
        ExpertForm::Gated => {
            let gate_and_up = if parts.has("ffn_gate_up_exps", TensorPart::Main) {
                parts.split_experts("ffn_gate_up_exps")
            } else {
                let [gate, up] = ["ffn_gate_exps", "ffn_up_exps"].map(|role| parts.experts(role));
                gate.and_then(|gate| Ok([gate, up?]))
            };
            let (down, gating) = (parts.experts("ffn_down_exps"), gating(own, *limit, parts));
            let [gate, up] = gate_and_up?;
            let form = components::ExpertForm::Gated { gate, gating: gating? };
            Ok(Experts { up, down: down?, form, latent: None })
        }
        ExpertForm::Plain => {
            let (up, down) = (parts.experts("ffn_up_exps"), parts.experts("ffn_down_exps"));
            let form = components::ExpertForm::Plain(activation(own, parts)?);
            Ok(Experts { up: up?, down: down?, form, latent: None })
        }
    }
}

/// The projections around experts whose width differs from the model's; their shapes state it.
fn latent_experts(parts: &mut dyn ComponentParts) -> BuildResult<LatentExperts> {
    let down = parts.linear("ffn_latent_down");
    let up = parts.linear("ffn_latent_up");
    Ok(LatentExperts { down: down?, up: up? })
}

fn shared_expert(config: &SharedExpertConfig, parts: &mut dyn ComponentParts) -> BuildResult<SharedExpert> {
    let SharedExpertConfig { expert: ExpertConfig { kind, activation, bias: _, limit }, gate } = config;
    let expert = match kind {
        ExpertForm::Gated => gated_of(&SHARED, activation, *limit, None, parts),
        ExpertForm::Plain => plain_of(&SHARED, activation, None, parts),
    };
    let gate = match gate {
        SharedGate::None => Ok(None),
        SharedGate::Sigmoid => parts.linear("ffn_gate_inp_shexp").map(Some),
    };
    or_fault(parts, SharedExpert::new(expert?, gate?))
}
