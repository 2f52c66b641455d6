//! Routers.

use menagerie_model::{GroupSelection, RouterRule, Routing, route};
use menagerie_testkit::SplitMix64;

use crate::bits;
use crate::ordered::{self, Fault};
use menagerie_formulas::{GroupScore, RouterScore, RouterSelect, RouterWeights};

const ROWS: usize = 70;

/// Experts, experts per token, groups and groups kept: odd ones, and those of published models.
const SHAPES: [[usize; 4]; 9] = [
    [1, 1, 1, 1],
    [4, 2, 1, 1],
    [7, 7, 1, 1],
    [16, 2, 1, 1],
    [24, 3, 24, 5],
    [60, 4, 6, 3],
    [128, 8, 1, 1],
    [256, 8, 8, 4],
    [257, 6, 1, 1],
];

/// Logits `[ROWS, experts]`: rows of all kinds, some in steps of a quarter, so that many are equal, and some broken.
fn logits(experts: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(3 + experts as u64);
    let mut all = random.values(ROWS * experts, 0.0, 4.0);
    for (index, row) in all.chunks_exact_mut(experts).enumerate() {
        match index % 5 {
            0 => row.iter_mut().for_each(|x| *x = (*x * 4.0).round() / 4.0),
            1 => row.iter_mut().for_each(|x| *x *= 30.0),
            2 => row.iter_mut().for_each(|x| *x *= 1e-3),
            _ => {}
        }
    }
    all[9 * experts..10 * experts].fill(0.0);
    all[9 * experts] = -0.0;
    all[11 * experts + experts / 2] = f32::NAN;
    all[13 * experts] = f32::INFINITY;
    all[17 * experts + experts - 1] = f32::NEG_INFINITY;
    all
}

/// Every rule over a shape.
fn rules([experts, top_k, count, keep]: [usize; 4]) -> Vec<RouterRule> {
    let bias = SplitMix64::new(90).values(experts, 0.0, 0.5);
    let mut rules = Vec::new();
    for &score in RouterScore::ALL {
        for (select, select_bias) in [
            (RouterSelect::Scores, None),
            (RouterSelect::Logits, None),
            (RouterSelect::Scores, Some(&bias)),
            (RouterSelect::Logits, Some(&bias)),
        ] {
            for (weights, scale) in [
                (RouterWeights::SumToOne, 1.0),
                (RouterWeights::SumToOne, 2.446),
                (RouterWeights::AsScored, 16.3),
            ] {
                let by = [GroupScore::Best, GroupScore::SumOfBestTwo];
                let groups = by.map(|score| (count > 1).then_some(GroupSelection { count, keep, score }));
                let select_bias = select_bias.cloned();
                let made = groups.map(|groups| RouterRule {
                    score,
                    select,
                    select_bias: select_bias.clone(),
                    groups,
                    weights,
                    scale,
                    top_k,
                });
                rules.extend(made.into_iter().take(if count > 1 { 2 } else { 1 }));
            }
        }
    }
    rules
}

/// Every row for itself, in the order that `ordered` defines.
fn in_order(logits: &[f32], experts: usize, rule: &RouterRule, fault: Option<Fault>) -> Routing {
    let rows = logits.chunks_exact(experts).map(|row| ordered::route(row, rule, fault));
    let (experts, weights): (Vec<Vec<u32>>, Vec<Vec<f32>>) = rows.unzip();
    Routing { top_k: rule.top_k, experts: experts.concat(), weights: weights.concat() }
}

/// Whether two routings are the same, bit for bit.
fn same(a: &Routing, b: &Routing) -> bool {
    a.experts == b.experts && bits(&a.weights) == bits(&b.weights)
}

#[test]
fn every_rule_follows_the_order_in_any_company() {
    for shape in SHAPES {
        let experts = shape[0];
        let logits = logits(experts);
        for rule in rules(shape) {
            let expected = in_order(&logits, experts, &rule, None);
            for n in [1, 3, 69, 70] {
                let mut found = Routing { top_k: rule.top_k, experts: Vec::new(), weights: Vec::new() };
                for part in logits.chunks(n * experts) {
                    let part = route(part, experts, &rule).unwrap();
                    found.experts.extend(part.experts);
                    found.weights.extend(part.weights);
                }
                assert!(same(&found, &expected), "{shape:?} in {n}s: {rule:?}");
            }
        }
    }
}

/// The comparison above can fail: every wrong order gives other experts or other weights, under some rule.
#[test]
fn a_planted_fault_is_seen() {
    let shape = [60, 4, 6, 3];
    let logits = logits(60);
    for fault in Fault::OF_ROUTERS {
        let mut seen = 0;
        for rule in rules(shape) {
            let found = route(&logits, 60, &rule).unwrap();
            seen += usize::from(!same(&found, &in_order(&logits, 60, &rule, Some(fault))));
            assert!(same(&found, &in_order(&logits, 60, &rule, None)));
        }
        assert!(seen > 5, "{fault:?} is seen under {seen} rules");
    }
}
