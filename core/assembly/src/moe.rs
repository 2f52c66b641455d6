//! Mixture-of-experts configs to [`MoeFeedForward`].

use crate::assembler::{Assembler, Site, boxed};
use crate::dims::Dim;
use crate::feed_forward::{FeedForwardRoles, kernel_activation};
use crate::source::Part;
use menagerie_model::FeedForward;
use menagerie_model::components::{Experts, MoeFeedForward, MoeInput, SharedExpert};
use menagerie_model::ops::{self, ExpertWeights, GroupSelection, RouterRule};
use menagerie_spec::config::{
    BiasRule, ExpertConfig, MoeConfig, RouterConfig, RouterInput, RouterScore, SharedExpertConfig,
};

/// Roles of the expert that every token takes.
const SHARED: FeedForwardRoles =
    FeedForwardRoles { gate: "ffn_gate_shexp", up: "ffn_up_shexp", down: "ffn_down_shexp" };

impl Assembler<'_> {
    /// A mixture of experts of block `layer`.
    pub(crate) fn moe(&mut self, config: &MoeConfig, layer: usize) -> Option<Box<dyn FeedForward>> {
        let at = Some(layer);
        let count = self.dims("ffn_gate_inp", at).and_then(|dims| usize::try_from(*dims.get(1)?).ok());
        let count_dim = count.map_or(Dim::free("E"), |count| Dim::of("E", count));
        let router_dims = [Dim::of("D", self.width()), count_dim];
        let router = self.linear(Site { role: "ffn_gate_inp", layer: at }, router_dims, config.router.bias);
        let rule = self.router_rule(&config.router, count, layer);
        let experts = self.experts(&config.experts, count_dim, layer);
        let shared = config.shared.as_ref().map(|shared| self.shared_expert(shared, layer));
        let shared = match shared {
            Some(shared) => Some(shared?),
            None => None,
        };
        let input = match config.router.input {
            RouterInput::Branch => MoeInput::Branch,
            RouterInput::BlockInput => MoeInput::BlockInput,
        };
        let apply_to_input = config.router.apply_to_input;
        let (router, rule, experts) = (boxed(router?), rule?, experts?);
        Some(Box::new(MoeFeedForward { router, rule, input, experts, apply_to_input, shared }))
    }

    fn router_rule(
        &mut self,
        config: &RouterConfig,
        count: Option<usize>,
        layer: usize,
    ) -> Option<RouterRule> {
        let select_bias = config.select_bias.as_ref().map(|role| {
            let dim = count.map_or(Dim::free("E"), |count| Dim::of("E", count));
            self.values(Site { role, layer: Some(layer) }, Part::Main, &[dim])
        });
        let select_bias = match select_bias {
            Some(bias) => Some(bias?),
            None => None,
        };
        let groups = config.groups.map(|groups| GroupSelection {
            count: groups.count,
            keep: groups.keep,
            sum_of_best_two: groups.sum_of_best_two,
        });
        let count = count?;
        if config.top_k == 0 || config.top_k > count {
            let text =
                format!("experts: {} of {count} experts per token; expected 1 to {count}", config.top_k);
            self.fault(Some(layer), &text);
            return None;
        }
        if let Some(groups) = groups.filter(|groups| groups.count == 0 || count % groups.count != 0) {
            let text = format!("experts: {count} experts do not fall into {} groups", groups.count);
            self.fault(Some(layer), &text);
            return None;
        }
        let score = match config.score {
            RouterScore::Softmax => ops::RouterScore::Softmax,
            RouterScore::Sigmoid => ops::RouterScore::Sigmoid,
            RouterScore::SoftmaxOfSelected => ops::RouterScore::SoftmaxOfSelected,
            RouterScore::SqrtSoftplus => ops::RouterScore::SqrtSoftplus,
        };
        let RouterConfig { select_by_logits, sum_to_one, scale, top_k, .. } = *config;
        Some(RouterRule { score, select_by_logits, select_bias, groups, sum_to_one, scale, top_k })
    }

    fn experts(&mut self, config: &ExpertConfig, count: Dim, layer: usize) -> Option<Experts> {
        let at = Some(layer);
        let inner = self.dims("ffn_down_exps", at).and_then(|dims| usize::try_from(*dims.first()?).ok());
        let inner = inner.map_or(Dim::free("F"), |inner| Dim::of("F", inner));
        let width = Dim::of("D", self.width());
        let (gate, up) = if config.gated && self.has("ffn_gate_up_exps", at) {
            self.fused_experts(config.bias, count, layer).unzip()
        } else {
            let gate = config
                .gated
                .then(|| self.expert_stack("ffn_gate_exps", [width, inner, count], config.bias, at));
            let up = self.expert_stack("ffn_up_exps", [width, inner, count], config.bias, at);
            (gate.flatten(), up)
        };
        let down = self.expert_stack("ffn_down_exps", [inner, width, count], config.bias, at);
        if config.gated && gate.is_none() {
            return None;
        }
        Some(Experts { gate, up: up?, down: down?, activation: kernel_activation(config.activation) })
    }

    fn expert_stack(
        &mut self,
        role: &'static str,
        dims: [Dim; 3],
        rule: BiasRule,
        layer: Option<usize>,
    ) -> Option<ExpertWeights> {
        let site = Site { role, layer };
        let weight = self.weight(site, &dims);
        let bias = self.bias(site, rule, &dims[1..]);
        Some(ExpertWeights { weight: weight?, bias: bias? })
    }

    /// `ffn_gate_up_exps`: per expert gate rows, then up rows.
    fn fused_experts(
        &mut self,
        rule: BiasRule,
        count: Dim,
        layer: usize,
    ) -> Option<(ExpertWeights, ExpertWeights)> {
        let at = Some(layer);
        let dims = [Dim::of("D", self.width()), Dim::free("2F"), count];
        let ExpertWeights { weight, bias } = self.expert_stack("ffn_gate_up_exps", dims, rule, at)?;
        let rows = weight.rows();
        if rows % 2 != 0 {
            self.fault(
                at,
                &format!("tensor \"{}\": {rows} rows are not gate and up of equal width", weight.name()),
            );
            return None;
        }
        let mut half = |range: std::ops::Range<usize>| {
            let part = weight.row_range(range.clone());
            let weight = self.ok(at, part)?;
            let bias = bias.as_ref().map(|bias| {
                bias.chunks_exact(rows).flat_map(|expert| expert[range.clone()].iter().copied()).collect()
            });
            Some(ExpertWeights { weight, bias })
        };
        let gate = half(0..rows / 2);
        let up = half(rows / 2..rows);
        gate.zip(up)
    }

    fn shared_expert(&mut self, config: &SharedExpertConfig, layer: usize) -> Option<SharedExpert> {
        let ExpertConfig { gated, activation, bias } = config.expert;
        let expert = if gated {
            self.gated(SHARED, activation, bias, layer)
        } else {
            self.plain(SHARED, activation, bias, layer)
        };
        let gate = config.sigmoid_gate.then(|| {
            let dims = [Dim::of("D", self.width()), Dim::of("1", 1)];
            self.linear(Site { role: "ffn_gate_inp_shexp", layer: Some(layer) }, dims, BiasRule::None)
        });
        let gate = match gate {
            Some(gate) => Some(boxed(gate?)),
            None => None,
        };
        Some(SharedExpert { expert: expert?, gate })
    }
}
