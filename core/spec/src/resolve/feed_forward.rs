//! Feed-forwards of one layer: gated, plain, moe.

use super::Resolver;
use crate::config::{
    Activation, BiasRule, ExpertConfig, FeedForwardConfig, MoeConfig, RouterConfig, RouterGroups,
    RouterInput, SharedExpertConfig,
};
use crate::names::{
    ActivationName, ExpertForm, GroupScore, NameSet, RouterApply, RouterSelect, RouterWeights, SharedGate,
};
use crate::written::{Dense, Expert, FeedForward, Moe, Name, Router};

/// Role of a bias that is added for the selection of experts only.
const SELECT_BIAS: &str = "exp_probs_b.bias";

impl Resolver<'_> {
    pub(super) fn feed_forward(&mut self, layer: usize) -> Option<FeedForwardConfig> {
        let spec = self.spec;
        match self.case(&spec.body.feed_forward, layer)? {
            Some(FeedForward::Gated(dense)) => {
                let (activation, bias) = self.dense(dense, layer)?;
                Some(FeedForwardConfig::Gated { activation, bias })
            }
            Some(FeedForward::Plain(dense)) => {
                let (activation, bias) = self.dense(dense, layer)?;
                Some(FeedForwardConfig::Plain { activation, bias })
            }
            Some(FeedForward::Moe(moe)) => {
                self.moe(moe, layer).map(|found| FeedForwardConfig::Moe(Box::new(found)))
            }
            Some(FeedForward::None) | None => Some(FeedForwardConfig::None),
        }
    }

    fn dense(&mut self, dense: &Dense, layer: usize) -> Option<(Activation, BiasRule)> {
        for fault in &dense.not_built_in {
            let mut fault = fault.clone();
            fault.layers.insert(layer);
            self.faults.push(fault);
        }
        let activation = self.activation(&dense.activation, layer);
        let bias = self.name_or(dense.bias.as_ref(), Some(layer), BiasRule::None);
        Some((activation?, bias?))
    }

    fn activation(&mut self, name: &Name<ActivationName>, layer: usize) -> Option<Activation> {
        match self.name(name, Some(layer))? {
            ActivationName::BuiltIn(activation) => Some(activation),
            ActivationName::NotBuiltIn(kind) => {
                let names: Vec<&str> = ActivationName::NAMES
                    .iter()
                    .filter(|(_, value)| matches!(value, ActivationName::BuiltIn(_)))
                    .map(|(name, _)| *name)
                    .collect();
                let message =
                    format!("activation `{kind}` is not built in; built in are: {}", names.join(", "));
                self.fault(&name.place, &name.path, Some(layer), message);
                None
            }
        }
    }

    fn moe(&mut self, moe: &Moe, layer: usize) -> Option<MoeConfig> {
        let experts = self.expert(&moe.experts, layer);
        let shared = self.shared(moe, layer);
        let router = self.router(&moe.router, layer);
        Some(MoeConfig { experts: experts?, shared: shared?, router: router? })
    }

    fn expert(&mut self, expert: &Expert, layer: usize) -> Option<ExpertConfig> {
        let form = self.name(&expert.form, Some(layer));
        let activation = self.activation(&expert.activation, layer);
        let bias = self.name_or(expert.bias.as_ref(), Some(layer), BiasRule::None);
        Some(ExpertConfig { gated: form? == ExpertForm::Gated, activation: activation?, bias: bias? })
    }

    fn shared(&mut self, moe: &Moe, layer: usize) -> Option<Option<SharedExpertConfig>> {
        let Some(cases) = &moe.shared else { return Some(None) };
        let Some(shared) = self.case(cases, layer)? else { return Some(None) };
        let expert = self.expert(&shared.expert, layer);
        let gate = self.name_or(shared.gate.as_ref(), Some(layer), SharedGate::None);
        Some(Some(SharedExpertConfig { expert: expert?, sigmoid_gate: gate? == SharedGate::Sigmoid }))
    }

    fn router(&mut self, router: &Router, layer: usize) -> Option<RouterConfig> {
        let at = Some(layer);
        let score = self.name(&router.score, at);
        let bias = self.name_or(router.bias.as_ref(), at, BiasRule::None);
        let input = self.name_or(router.input.as_ref(), at, RouterInput::Branch);
        let select = self.name_or(router.select.as_ref(), at, RouterSelect::Scores);
        let select_bias = self.select_bias(router, layer);
        let groups = self.groups(router, layer);
        let weights = self.name_or(router.weights.as_ref(), at, RouterWeights::AsScored);
        if router.apply.is_none() {
            self.record_default(&router.path, "apply", at, "to-output");
        }
        let apply = self.name_or(router.apply.as_ref(), at, RouterApply::ToOutput);
        let scale = self.real_or(router.scale.as_ref(), at, 1.0);
        let top_k = self.count_or_key(
            router.top_k.as_ref(),
            &format!("{}.top_k", router.path),
            "expert_used_count",
            at,
        );
        let (scale, top_k) = (scale?, top_k?);
        if scale == 0.0 {
            self.fault(&router.place, &format!("{}.scale", router.path), at, "0 would silence the experts");
            return None;
        }
        if top_k == 0 {
            self.fault(&router.place, &format!("{}.top_k", router.path), at, "0 experts per token");
            return None;
        }
        Some(RouterConfig {
            score: score?,
            bias: bias?,
            input: input?,
            select_by_logits: select? == RouterSelect::Logits,
            select_bias: select_bias?,
            groups: groups?,
            sum_to_one: weights? == RouterWeights::SumToOne,
            scale,
            apply_to_input: apply? == RouterApply::ToInput,
            top_k,
        })
    }

    fn select_bias(&mut self, router: &Router, layer: usize) -> Option<Option<String>> {
        let rule = self.name_or(router.select_bias.as_ref(), Some(layer), BiasRule::None)?;
        // Some converters write it without the suffix.
        let stored =
            [SELECT_BIAS, "exp_probs_b"].into_iter().find(|role| self.input.roles.has(role, Some(layer)));
        Some(match rule {
            BiasRule::None => None,
            BiasRule::Required => Some(stored.unwrap_or(SELECT_BIAS).to_string()),
            BiasRule::IfPresent => stored.map(str::to_string),
        })
    }

    fn groups(&mut self, router: &Router, layer: usize) -> Option<Option<RouterGroups>> {
        let Some(groups) = &router.groups else { return Some(None) };
        let at = Some(layer);
        let count = self.count(&groups.count, at)?;
        if count <= 1 {
            return Some(None);
        }
        let keep = self.count(&groups.keep, at);
        let score = self.name(&groups.score, at);
        let (keep, score) = (keep?, score?);
        if keep == 0 || keep > count {
            let message = format!("{keep} of {count} groups are kept; at least 1 and at most all are wanted");
            self.fault(&groups.keep.place, &groups.keep.path, at, message);
            return None;
        }
        Some(Some(RouterGroups { count, keep, sum_of_best_two: score == GroupScore::SumOfBestTwo }))
    }
}
