//! Plans of small models by hand, and compared with trying everything.

use super::super::inputs::ShapeLayer;
use super::*;
use proptest::prelude::*;

fn model(layers: &[u64], embedding_bytes: u64, head_bytes: u64) -> LayerSizes {
    let layer = |&weight_bytes: &u64| ShapeLayer { weight_bytes, state_bytes: 0, may_begin_stage: true };
    LayerSizes { layers: layers.iter().map(layer).collect(), embedding_bytes, head_bytes }
}

fn nodes(list: &[(u64, f64)]) -> Vec<NodeMeasure> {
    let node = |(index, &(memory_bytes, ms_per_layer)): (usize, &(u64, f64))| NodeMeasure {
        name: format!("n{index}"),
        memory_bytes,
        ms_per_layer,
    };
    list.iter().enumerate().map(node).collect()
}

fn ranges(plan: &ClusterPlan) -> Vec<(&str, Range<usize>)> {
    plan.stages.iter().map(|stage| (stage.node.as_str(), stage.layers.clone())).collect()
}

#[test]
fn equal_machines_get_equal_shares() {
    let plan = plan_layers(&model(&[10; 8], 0, 0), &nodes(&[(1000, 1.0); 4])).unwrap();
    assert_eq!(plan.stages.iter().map(|stage| stage.layers.len()).collect::<Vec<_>>(), [2; 4]);
    assert!(plan.stages.iter().all(|stage| stage.ms_per_token == 2.0 && stage.bytes == 20));
}

#[test]
fn a_machine_twice_as_fast_gets_twice_as_many_layers() {
    let plan = plan_layers(&model(&[10; 9], 0, 0), &nodes(&[(1000, 2.0), (1000, 1.0)])).unwrap();
    let of = |name: &str| plan.stages.iter().find(|stage| stage.node == name).unwrap().layers.len();
    assert_eq!((of("n0"), of("n1")), (3, 6));
}

#[test]
fn memory_limits_a_fast_machine_and_a_slow_one_takes_the_rest() {
    let plan = plan_layers(&model(&[10; 9], 0, 0), &nodes(&[(1000, 2.0), (40, 1.0)])).unwrap();
    let of = |name: &str| plan.stages.iter().find(|stage| stage.node == name).unwrap();
    assert_eq!((of("n0").layers.len(), of("n1").layers.len()), (5, 4));
    assert_eq!((of("n0").ms_per_token, of("n1").ms_per_token), (10.0, 4.0));
}

#[test]
fn the_head_takes_time_and_the_embedding_memory() {
    // The head is as large as two layers: 10 units of work for two machines, and the layers are divided unevenly.
    let plan = plan_layers(&model(&[10; 8], 20, 20), &nodes(&[(1000, 1.0); 2])).unwrap();
    assert_eq!(plan.stages.iter().map(|stage| stage.layers.clone()).collect::<Vec<_>>(), [0..5, 5..8]);
    assert_eq!(plan.stages.iter().map(|stage| stage.bytes).collect::<Vec<_>>(), [70, 50]);
    // Only the second machine has room for the embedding, so it is first.
    let plan = plan_layers(&model(&[10; 4], 500, 0), &nodes(&[(100, 1.0), (600, 1.0)])).unwrap();
    assert_eq!(ranges(&plan), [("n1", 0..2), ("n0", 2..4)]);
}

#[test]
fn a_machine_that_would_slow_the_others_down_has_no_stage() {
    let plan = plan_layers(&model(&[10; 2], 0, 0), &nodes(&[(1000, 1.0), (1000, 9.0)])).unwrap();
    assert_eq!(ranges(&plan), [("n0", 0..2)]);
}

#[test]
fn layers_that_share_keys_stay_together() {
    let mut shape = model(&[10; 6], 0, 0);
    shape.layers[3].may_begin_stage = false;
    shape.layers[4].may_begin_stage = false;
    let plan = plan_layers(&shape, &nodes(&[(1000, 1.0); 2])).unwrap();
    assert!([2, 5].contains(&plan.stages[0].layers.end), "{plan:?}");
}

#[test]
fn a_model_that_does_not_fit_says_how_much_is_missing() {
    let said = plan_layers(&model(&[10; 4], 0, 0), &nodes(&[(15, 1.0); 2])).unwrap_err().to_string();
    assert!(said.contains("needs 40 bytes") && said.contains("have 30 bytes"), "{said}");
    let said = plan_layers(&model(&[10; 4], 0, 0), &nodes(&[(9, 1.0); 8])).unwrap_err().to_string();
    assert!(said.contains("largest has 10 bytes"), "{said}");
    assert!(plan_layers(&model(&[], 0, 0), &nodes(&[(9, 1.0)])).is_err());
    assert!(plan_layers(&model(&[1], 0, 0), &[]).is_err());
}

#[test]
fn many_machines_keep_their_order() {
    let plan = plan_layers(&model(&[10; 96], 40, 40), &nodes(&[(1000, 1.0); 16])).unwrap();
    let (mut next, mut expected) = (0, Vec::new());
    for stage in &plan.stages {
        expected.push(stage.layers.start == next);
        next = stage.layers.end;
    }
    assert!(next == 96 && expected.iter().all(|good| *good) && plan.stages.len() == 15, "{plan:?}");
    // 96 layers and a head of four: 100 units of work for 16 machines, and whole layers. Fifteen are as fast.
    let slowest = plan.stages.iter().map(|stage| stage.ms_per_token).fold(0.0, f64::max);
    assert_eq!(slowest, 7.0);
}

/// The time of the slowest stage by trying everything: each order of each set of nodes, and each division.
fn by_trying(model: &LayerSizes, nodes: &[NodeMeasure], used: &mut Vec<usize>, first: usize) -> Option<f64> {
    let sums = LayerSums::new(model);
    if first == sums.layers() {
        return Some(0.0);
    }
    let mut best: Option<f64> = None;
    for node in 0..nodes.len() {
        if used.contains(&node) {
            continue;
        }
        for end in first + 1..=sums.layers() {
            let starts = end == sums.layers() || model.layers[end].may_begin_stage;
            if !starts || sums.bytes(&(first..end)) > nodes[node].memory_bytes {
                continue;
            }
            used.push(node);
            let rest = by_trying(model, nodes, used, end);
            used.pop();
            if let Some(rest) = rest {
                let slowest = rest.max(sums.milliseconds(&(first..end), &nodes[node]));
                best = Some(best.map_or(slowest, |best| best.min(slowest)));
            }
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn plans_are_as_good_as_trying_everything(
        weights in proptest::collection::vec((1u64..20, any::<bool>()), 1..6),
        machines in proptest::collection::vec((0u64..80, 1u32..9), 1..5),
        embedding_bytes in 0u64..20,
        head_bytes in 0u64..20,
    ) {
        let layers = weights.iter().map(|&(weight_bytes, may_begin_stage)| ShapeLayer { weight_bytes, state_bytes: 1, may_begin_stage });
        let model = LayerSizes { layers: layers.collect(), embedding_bytes, head_bytes };
        let list: Vec<(u64, f64)> = machines.iter().map(|&(memory, ms)| (memory, f64::from(ms))).collect();
        let nodes = nodes(&list);
        let expected = by_trying(&model, &nodes, &mut Vec::new(), 0);
        match plan_layers(&model, &nodes) {
            Ok(plan) => {
                let slowest = plan.stages.iter().map(|stage| stage.ms_per_token).fold(0.0, f64::max);
                prop_assert!((slowest - expected.unwrap()).abs() < 1e-9, "{slowest} {expected:?} {plan:?}");
                let mut next = 0;
                for stage in &plan.stages {
                    prop_assert_eq!(stage.layers.start, next);
                    prop_assert!(stage.bytes <= stage.memory_bytes);
                    next = stage.layers.end;
                }
                prop_assert_eq!(next, model.layers.len());
            }
            Err(error) => prop_assert!(expected.is_none(), "{error}"),
        }
    }
}
