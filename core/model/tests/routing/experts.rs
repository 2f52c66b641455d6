//! The sum over experts, and a whole feed-forward of experts.

use gguf_file::GgmlType;
use menagerie_cpu::CpuBackend;
use menagerie_kernels::{BlockType, Cpu, Isa, Matrix};
use menagerie_kernels_check::ordered::{float_product, functions, product};
use menagerie_kernels_check::weights::random_blocks;
use menagerie_model::components::{ExpertForm, Experts, MoeFeedForward, Router};
use menagerie_model::{
    Activation, Arithmetic, Backend, Compute, DenseExperts, DenseLinear, ExpertPlan, FeedForward, GateForm,
    Gating, InferenceStep, KvType, Param, PoolOptions, Raw, RopeRegime, RouterApply, RouterRule, Routing,
    SequenceLayout, SequenceRows, StateDeclarations, StatePool, StepInput, TransformContext, Weight,
    WeightBytes, WeightShape,
};
use menagerie_testkit::SplitMix64;
use std::sync::Arc;

use crate::bits;
use crate::ordered::{self, Fault};
use menagerie_formulas::{RouterInput, RouterScore, RouterSelect, RouterWeights};

/// Rows that are computed.
const ROWS: usize = 70;
const EXPERTS: usize = 6;
const TOP_K: usize = 3;
/// Width of the model, and of an expert: whole blocks of all types.
const D: usize = 256;
const F: usize = 256;

/// Every instruction set of this machine on some numbers of threads.
fn backends() -> Vec<(String, Arc<dyn Backend>)> {
    let with = |isa: Isa| {
        [1, 2, 7].map(|threads| {
            let backend = CpuBackend::new(Cpu::with_isa(Some(threads), isa).unwrap());
            (format!("{isa}, {threads} threads"), Arc::new(backend) as Arc<dyn Backend>)
        })
    };
    Isa::available().into_iter().flat_map(with).collect()
}

/// A routing of `tokens` rows in which neighbors take other experts, and some weights are negative or 0.
fn routing(tokens: usize, top_k: usize) -> Routing {
    let weights = SplitMix64::new(6).values(tokens * top_k, 0.2, 0.7);
    let experts = (0..tokens * top_k).map(|i| ((i / top_k * 5 + i % top_k * 7) % 9) as u32).collect();
    Routing { top_k, experts, weights }
}

/// The result of `combine` for rows of experts that are packed by expert.
fn combined(backend: &dyn Backend, routing: &Routing, outputs: &[Vec<f32>], apply: RouterApply) -> Vec<f32> {
    let plan = ExpertPlan::new(routing, 9).unwrap();
    let mut packed = vec![Vec::new(); outputs.len()];
    for (choice, &slot) in plan.slots().iter().enumerate() {
        packed[slot as usize] = outputs[choice].clone();
    }
    let rows = backend.upload(packed.concat(), outputs[0].len()).unwrap();
    backend.read(&backend.combine(&rows, &plan, apply).unwrap()).unwrap().into_owned()
}

/// Every row in the order that `ordered` defines.
fn in_order(routing: &Routing, outputs: &[Vec<f32>], apply: RouterApply, fault: Option<Fault>) -> Vec<f32> {
    let k = routing.top_k;
    let row = |at: usize| {
        let own = at * k..(at + 1) * k;
        let choices = (&routing.experts[own.clone()], &routing.weights[own.clone()]);
        ordered::combine(&outputs[own], choices, apply, fault)
    };
    (0..routing.experts.len() / k).flat_map(row).collect()
}

#[test]
fn the_sum_over_experts_follows_the_order_in_any_company() {
    for (width, top_k) in [(1, 1), (7, 2), (33, 8), (260, 4)] {
        let routing = routing(ROWS, top_k);
        let values = SplitMix64::new(7).values(ROWS * top_k * width, 0.0, 3.0);
        let outputs: Vec<Vec<f32>> = values.chunks_exact(width).map(<[f32]>::to_vec).collect();
        for apply in [RouterApply::ToOutput, RouterApply::ToInput] {
            let expected = in_order(&routing, &outputs, apply, None);
            for (name, backend) in backends() {
                for n in [1, 2, 3, 5, 16, 17, 33, 70] {
                    let mut found = Vec::new();
                    for first in (0..ROWS).step_by(n) {
                        let own = first * top_k..(first + n).min(ROWS) * top_k;
                        let part = Routing {
                            top_k,
                            experts: routing.experts[own.clone()].to_vec(),
                            weights: routing.weights[own.clone()].to_vec(),
                        };
                        found.extend(combined(&*backend, &part, &outputs[own], apply));
                    }
                    assert_eq!(bits(&found), bits(&expected), "{name}: {width} {top_k} {apply:?} in {n}s");
                }
            }
            for fault in Fault::OF_SUMS {
                let differs = bits(&in_order(&routing, &outputs, apply, Some(fault))) != bits(&expected);
                // One expert has no order, the sum of two has none, and a product with 1 is exact.
                let concerns = match fault {
                    Fault::Fused => apply == RouterApply::ToOutput && top_k > 1,
                    _ => top_k > 2,
                };
                assert_eq!(differs, concerns, "{fault:?} {width} {top_k} {apply:?}");
            }
        }
    }
}

/// Stacks of matrices of a type, and the router's.
struct Weights {
    block: BlockType,
    file: GgmlType,
    router: Vec<u8>,
    gate: Vec<u8>,
    up: Vec<u8>,
    down: Vec<u8>,
}

impl Weights {
    fn new(block: BlockType, file: GgmlType) -> Weights {
        let mut random = SplitMix64::new(41);
        let router = SplitMix64::new(42).values(EXPERTS * D, 0.0, 0.1);
        let mut stack = |values: usize| random_blocks(block, EXPERTS * values, &mut random);
        let (gate, up, down) = (stack(F * D), stack(F * D), stack(D * F));
        let router = router.iter().flat_map(|v| v.to_le_bytes()).collect();
        Weights { block, file, router, gate, up, down }
    }

    /// A product with one matrix of a stack, in the order that `ordered` defines.
    fn product(&self, stack: &[u8], expert: usize, [rows, cols]: [usize; 2], x: &[f32]) -> Vec<f32> {
        let one = stack.len() / EXPERTS;
        let w = Matrix::new(self.block, rows, cols, &stack[expert * one..(expert + 1) * one]).unwrap();
        match self.block {
            BlockType::Float(_) => float_product::product(&w, x, float_product::FactorForm::Plain).unwrap(),
            BlockType::Quant(_) => product::product(&w, x).unwrap(),
        }
    }

    /// One row through the router and its experts.
    fn row(&self, x: &[f32], rule: &RouterRule, apply: RouterApply) -> Vec<f32> {
        let router = Matrix::new(BlockType::F32, EXPERTS, D, &self.router).unwrap();
        let logits = float_product::product(&router, x, float_product::FactorForm::Plain).unwrap();
        let (experts, weights) = ordered::route(&logits, rule, None);
        let outputs: Vec<Vec<f32>> = experts
            .iter()
            .zip(&weights)
            .map(|(&expert, &weight)| {
                let factor = if apply == RouterApply::ToInput { weight } else { 1.0 };
                let x: Vec<f32> = x.iter().map(|x| x * factor).collect();
                let [gate, up] = [&self.gate, &self.up].map(|w| self.product(w, expert as usize, [F, D], &x));
                let gating = menagerie_kernels::Gating::Plain(menagerie_kernels::Activation::Silu);
                let both = gate.iter().zip(&up);
                let inner: Vec<f32> = both.map(|(g, u)| functions::gated(gating, *g, *u)).collect();
                self.product(&self.down, expert as usize, [D, F], &inner)
            })
            .collect();
        ordered::combine(&outputs, (&experts, &weights), apply, None)
    }

    fn feed_forward(&self, compute: &Compute, rule: &RouterRule, apply: RouterApply) -> MoeFeedForward {
        let taken = |bytes: &[u8], file: GgmlType, shape: WeightShape| -> Param {
            let bytes = WeightBytes::Owned(Arc::new(bytes.to_vec()));
            let weight = Weight::new("test", bytes, file, shape).unwrap();
            compute.backend.matrix(&weight, compute.arithmetic).unwrap()
        };
        let stack = |bytes: &[u8], rows: usize, cols: usize| {
            let weight = taken(bytes, self.file, WeightShape { count: EXPERTS, rows, cols });
            Box::new(DenseExperts::new(weight, None).unwrap())
        };
        let router = taken(&self.router, GgmlType::F32, WeightShape { count: 1, rows: EXPERTS, cols: D });
        MoeFeedForward {
            router: Router {
                product: Box::new(DenseLinear::new(router, None).unwrap()),
                input: RouterInput::Branch,
                norm: None,
                input_scale: 1.0,
                rule: rule.clone(),
            },
            experts: Experts {
                up: stack(&self.up, F, D),
                down: stack(&self.down, D, F),
                form: ExpertForm::Gated {
                    gate: stack(&self.gate, F, D),
                    gating: GateForm::Formula(Gating::Plain(Activation::Silu)),
                },
                latent: None,
            },
            apply,
            shared: None,
        }
    }
}

/// The result of a feed-forward for the rows of one step.
fn step(compute: &Compute, part: &MoeFeedForward, x: &[f32]) -> Vec<f32> {
    let options = PoolOptions::sequences(KvType::F32, 1, 2 * ROWS);
    let specs = StateDeclarations::default().into_specs();
    let mut states = StatePool::new(&*compute.backend, specs, options).unwrap();
    let layout = SequenceLayout::new(vec![SequenceRows {
        sequence: states.create().unwrap(),
        rows: 0..x.len() / D,
        first_position: 0,
        step: InferenceStep::Decode { current_position: 0 },
        regime: RopeRegime::Short,
        logits: 0..0,
        adapters: None,
    }]);
    let layout = layout.unwrap();
    states.prepare(&layout).unwrap();
    let mut context = TransformContext::new(compute, &layout, StepInput::Tokens(&[]), &mut states);
    let rows = compute.backend.upload(x.to_vec(), D).unwrap();
    let out = part.forward(&rows, Raw { stream: &rows, block: &rows }, &mut context).unwrap();
    compute.backend.read(&out).unwrap().into_owned()
}

#[test]
fn a_feed_forward_of_experts_follows_the_order_in_any_company() {
    let rule = RouterRule {
        score: RouterScore::Softmax,
        select: RouterSelect::Scores,
        select_bias: None,
        groups: None,
        weights: RouterWeights::SumToOne,
        scale: 1.7,
        top_k: TOP_K,
    };
    let x = SplitMix64::new(43).values(ROWS * D, 0.0, 1.0);
    for (block, file) in [
        (BlockType::F32, GgmlType::F32),
        (BlockType::Q8_0, GgmlType::Q8_0),
        (BlockType::Q4_K, GgmlType::Q4_K),
    ] {
        let weights = Weights::new(block, file);
        for apply in [RouterApply::ToOutput, RouterApply::ToInput] {
            let rows = x.chunks_exact(D).flat_map(|x| weights.row(x, &rule, apply));
            let expected = bits(&rows.collect::<Vec<f32>>());
            for (name, backend) in backends() {
                let compute = Compute::new(backend, Arithmetic::Fast);
                let part = weights.feed_forward(&compute, &rule, apply);
                for n in [1, 2, 3, 17, 70] {
                    let found: Vec<f32> = x.chunks(n * D).flat_map(|x| step(&compute, &part, x)).collect();
                    assert!(bits(&found) == expected, "{} {apply:?} {name} in {n}s", block.name());
                }
            }
        }
    }
}
