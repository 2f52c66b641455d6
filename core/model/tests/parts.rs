//! Parts of blocks against plain loops: routers, experts, head norms, rope regimes, shared norms.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie_formulas::{GroupScore, RouterInput, RouterScore, RouterSelect, RouterWeights};
use menagerie_model::components::{
    Attention, AttentionLinears, ExpertForm, Experts, GatedFeedForward, HeadNorm, LayerNorm, MoeFeedForward,
    QkNorm, QkNormPlace, RmsNorm, Rope, RopeDeclarations, Router, SharedExpert, Temperature,
};
use menagerie_model::{
    Activation, Arithmetic, AttentionShape, Branch, BranchInput, Compute, DenseExperts, DenseLinear,
    ExpertLinear, FeedForward, Gating, GroupSelection, InferenceStep, KvType, Layer, Linear, Mask, Norm,
    Param, PoolOptions, PreNorm, Raw, Result, RopePairs, RopeRegime, RouterApply, RouterRule, Rows,
    SequenceLayout, SequenceMixer, SequenceRows, StateDeclarations, StatePool, StateSpec, StepInput,
    TransformContext, TransformerBlock, Weight, WeightShape,
};
use menagerie_testkit::{SplitMix64, assert_close, assert_equal_bits, cpu_backend};

const D: usize = 12;
const F: usize = 10;
const E: usize = 6;

fn compute() -> Compute {
    Compute::new(cpu_backend(2).unwrap(), Arithmetic::Exact)
}

fn rows(values: &[f32], cols: usize) -> Rows {
    compute().backend.upload(values.to_vec(), cols).unwrap()
}

fn values(rows: &Rows) -> Vec<f32> {
    compute().backend.read(rows).unwrap().into_owned()
}

fn vector(values: &[f32]) -> Param {
    compute().backend.vector("test", values.to_vec()).unwrap()
}

fn pool(states: Vec<StateSpec>) -> StatePool {
    StatePool::new(&*compute().backend, states, PoolOptions::sequences(KvType::F32, 4, 64)).unwrap()
}

fn rule(score: RouterScore, top_k: usize) -> RouterRule {
    RouterRule {
        score,
        select: RouterSelect::Scores,
        select_bias: None,
        groups: None,
        weights: RouterWeights::AsScored,
        scale: 1.0,
        top_k,
    }
}

fn route(logits: &[f32], rule: &RouterRule) -> (Vec<u32>, Vec<f32>) {
    let routing = menagerie_model::route(logits, logits.len(), rule).unwrap();
    (routing.experts, routing.weights)
}

#[test]
fn scores_and_weights_of_every_router() {
    let logits = [0.0, 2f32.ln(), 4f32.ln(), 1f32.ln()];
    // Softmax: 1, 2, 4, 1 over 8.
    let (experts, weights) = route(&logits, &rule(RouterScore::Softmax, 2));
    assert_eq!(experts, [2, 1]);
    assert_close("softmax", &weights, &[0.5, 0.25], 1e-6);
    let summed = RouterRule { weights: RouterWeights::SumToOne, scale: 3.0, ..rule(RouterScore::Softmax, 2) };
    assert_close("sum to one", &route(&logits, &summed).1, &[2.0, 1.0], 1e-6);
    assert_close(
        "of selected",
        &route(&logits, &rule(RouterScore::SoftmaxOfSelected, 2)).1,
        &[2.0 / 3.0, 1.0 / 3.0],
        1e-6,
    );
    // sigmoid(ln 4) = 4/5, sigmoid(ln 2) = 2/3.
    assert_close("sigmoid", &route(&logits, &rule(RouterScore::Sigmoid, 2)).1, &[0.8, 2.0 / 3.0], 1e-6);
    // softplus(ln 4) = ln 5, softplus(ln 2) = ln 3.
    let expected = [5f32.ln().sqrt(), 3f32.ln().sqrt()];
    assert_close("sqrt softplus", &route(&logits, &rule(RouterScore::SqrtSoftplus, 2)).1, &expected, 1e-6);
    assert!(menagerie_model::route(&[0.0; 4], 4, &rule(RouterScore::Softmax, 5)).is_err());
}

#[test]
fn a_selection_bias_chooses_but_does_not_weigh() {
    let logits = [0.0, 2f32.ln(), 4f32.ln(), 0.0];
    let biased = RouterRule { select_bias: Some(vec![5.0, 0.0, 0.0, 0.0]), ..rule(RouterScore::Sigmoid, 2) };
    let (experts, weights) = route(&logits, &biased);
    assert_eq!(experts, [0, 2]);
    assert_close("weights", &weights, &[0.5, 0.8], 1e-6);
    // Equal scores: the lower index first.
    assert_eq!(route(&[1.0; 4], &rule(RouterScore::Softmax, 3)).0, [0, 1, 2]);
}

#[test]
fn groups_are_chosen_first() {
    // Sigmoid scores in thirds of three groups; best: 2 (group 1), sums of two: group 0 wins.
    let logits = [1.0, 0.9, 1.2, -3.0, 0.0, 0.1];
    let groups = |score| Some(GroupSelection { count: 3, keep: 1, score });
    let by_sum = RouterRule { groups: groups(GroupScore::SumOfBestTwo), ..rule(RouterScore::Sigmoid, 2) };
    assert_eq!(route(&logits, &by_sum).0, [0, 1]);
    let by_best = RouterRule { groups: groups(GroupScore::Best), ..rule(RouterScore::Sigmoid, 2) };
    assert_eq!(route(&logits, &by_best).0, [2, 3]);
}

struct MoeWeights {
    router: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    down: Vec<f32>,
    down_bias: Vec<f32>,
    shared: [Vec<f32>; 3],
    shared_gate: Vec<f32>,
}

fn moe_weights() -> MoeWeights {
    let mut random = SplitMix64::new(3);
    MoeWeights {
        router: random.values(E * D, 0.0, 0.5),
        gate: random.values(E * F * D, 0.0, 0.5),
        up: random.values(E * F * D, 0.0, 0.5),
        down: random.values(E * D * F, 0.0, 0.5),
        down_bias: random.values(E * D, 0.0, 0.5),
        shared: [
            random.values(F * D, 0.0, 0.5),
            random.values(F * D, 0.0, 0.5),
            random.values(D * F, 0.0, 0.5),
        ],
        shared_gate: random.values(D, 0.0, 0.5),
    }
}

fn linear(values: &[f32], rows: usize, cols: usize) -> Box<dyn Linear> {
    Box::new(DenseLinear::new(matrices(values, WeightShape { count: 1, rows, cols }), None).unwrap())
}

fn matrices(values: &[f32], shape: WeightShape) -> Param {
    let weight = Weight::from_f32("test", values, shape).unwrap();
    compute().backend.matrix(&weight, Arithmetic::Exact).unwrap()
}

fn stack(values: &[f32], rows: usize, cols: usize, bias: Option<&[f32]>) -> Box<dyn ExpertLinear> {
    let weight = matrices(values, WeightShape { count: E, rows, cols });
    Box::new(DenseExperts::new(weight, bias.map(vector)).unwrap())
}

fn moe(weights: &MoeWeights, apply: RouterApply) -> MoeFeedForward {
    let [gate, up, down] = &weights.shared;
    let shared = GatedFeedForward {
        gate: linear(gate, F, D),
        up: linear(up, F, D),
        down: linear(down, D, F),
        gating: Gating::Plain(Activation::Silu).into(),
        inner_norm: None,
    };
    let router = Router {
        product: linear(&weights.router, E, D),
        input: RouterInput::Branch,
        norm: None,
        input_scale: 1.0,
        rule: RouterRule { weights: RouterWeights::SumToOne, ..rule(RouterScore::Softmax, 2) },
    };
    MoeFeedForward {
        router,
        experts: Experts {
            up: stack(&weights.up, F, D, None),
            down: stack(&weights.down, D, F, Some(&weights.down_bias)),
            form: ExpertForm::Gated {
                gate: stack(&weights.gate, F, D, None),
                gating: Gating::Plain(Activation::Silu).into(),
            },
            latent: None,
        },
        apply,
        shared: Some(SharedExpert::new(Box::new(shared), Some(linear(&weights.shared_gate, 1, D))).unwrap()),
    }
}

fn product(weight: &[f32], x: &[f64]) -> Vec<f64> {
    weight.chunks_exact(x.len()).map(|w| w.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

fn gated(gate: &[f32], up: &[f32], down: &[f32], x: &[f64]) -> Vec<f64> {
    let inner: Vec<f64> =
        product(gate, x).iter().zip(product(up, x)).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
    product(down, &inner)
}

fn naive_moe(w: &MoeWeights, x: &[f32], apply: RouterApply) -> Vec<f32> {
    let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let logits = product(&w.router, &x);
    let mut order: Vec<usize> = (0..E).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    let chosen = &order[..2];
    let sum: f64 = chosen.iter().map(|e| logits[*e].exp()).sum();
    let mut out = gated(&w.shared[0], &w.shared[1], &w.shared[2], &x);
    let gate = 1.0 / (1.0 + (-product(&w.shared_gate, &x)[0]).exp());
    out.iter_mut().for_each(|y| *y *= gate);
    for &e in chosen {
        let weight = logits[e].exp() / sum;
        let part = |values: &'_ [f32]| values[e * F * D..(e + 1) * F * D].to_vec();
        let (inside, outside) = match apply {
            RouterApply::ToInput => (weight, 1.0),
            RouterApply::ToOutput => (1.0, weight),
        };
        let input: Vec<f64> = x.iter().map(|x| x * inside).collect();
        let y = gated(&part(&w.gate), &part(&w.up), &part(&w.down), &input);
        for (column, out) in out.iter_mut().enumerate() {
            *out += outside * (y[column] + f64::from(w.down_bias[e * D + column]));
        }
    }
    out.iter().map(|y| *y as f32).collect()
}

/// A layout of one sequence, without state.
fn layout(rows: usize) -> (SequenceLayout, StatePool) {
    let mut states = pool(Vec::new());
    let rows = SequenceRows {
        sequence: states.create().unwrap(),
        rows: 0..rows,
        first_position: 0,
        step: InferenceStep::Decode { current_position: 0 },
        regime: RopeRegime::Short,
        logits: 0..0,
        adapters: None,
    };
    (SequenceLayout::new(vec![rows]).unwrap(), states)
}

fn run_moe(moe: &MoeFeedForward, x: &[f32]) -> Vec<f32> {
    let (layout, mut states) = layout(x.len() / D);
    let compute = compute();
    let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), &mut states);
    let x = rows(x, D);
    values(&moe.forward(&x, Raw { stream: &x, block: &x }, &mut context).unwrap())
}

#[test]
fn a_mixture_is_the_sum_of_its_experts() {
    let weights = moe_weights();
    let x = SplitMix64::new(4).values(41 * D, 0.0, 1.0);
    for apply in [RouterApply::ToOutput, RouterApply::ToInput] {
        let moe = moe(&weights, apply);
        let expected: Vec<f32> = x.chunks_exact(D).flat_map(|row| naive_moe(&weights, row, apply)).collect();
        assert_close("many rows", &run_moe(&moe, &x), &expected, 1e-5);
        assert_close("one row", &run_moe(&moe, &x[..D]), &expected[..D], 1e-5);
    }
}

/// A row's result does not depend on the other rows of a step of its class.
#[test]
fn a_mixtures_rows_do_not_see_each_other() {
    let moe = moe(&moe_weights(), RouterApply::ToOutput);
    let x = SplitMix64::new(5).values(9 * D, 0.0, 1.0);
    let all = run_moe(&moe, &x);
    for start in [0, 3, 7] {
        let pair = run_moe(&moe, &x[start * D..(start + 2) * D]);
        assert_equal_bits("a pair alone", &pair, &all[start * D..(start + 2) * D]);
    }
}

#[test]
fn head_norms_take_shared_and_separate_weights() {
    let compute = compute();
    let (layout, mut states) = layout(1);
    let context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), &mut states);
    let run = |norm: HeadNorm| values(&norm.forward(rows(&[3.0, 4.0, 6.0, 8.0], 4), &context).unwrap());
    let rms = |weight: Option<&[f32]>| Box::new(RmsNorm { weight: weight.map(vector), eps: 0.0 });
    let shared =
        |width, weight: &[f32]| HeadNorm { norm: rms(Some(weight)), width, row_weight: None, row_bias: None };
    // rms(3, 4) = sqrt(12.5), rms(6, 8) = 2 sqrt(12.5), rms of all = sqrt(31.25).
    let (a, b, all) = (12.5f32.sqrt(), 50f32.sqrt(), 31.25f32.sqrt());
    assert_close("shared", &run(shared(2, &[1.0, 2.0])), &[3.0 / a, 8.0 / a, 6.0 / b, 16.0 / b], 1e-6);
    let own = Some(vector(&[1.0, 2.0, 3.0, 4.0]));
    let separate = run(HeadNorm { norm: rms(None), width: 2, row_weight: own, row_bias: None });
    assert_close("one per head", &separate, &[3.0 / a, 8.0 / a, 18.0 / b, 32.0 / b], 1e-6);
    let whole = run(shared(4, &[1.0, 2.0, 3.0, 4.0]));
    assert_close("all heads", &whole, &[3.0 / all, 8.0 / all, 18.0 / all, 32.0 / all], 1e-6);
    let layer = Box::new(LayerNorm { weight: None, bias: None, eps: 0.0 });
    let bias = Some(vector(&[0.0, 1.0, 2.0, 3.0]));
    let layer = HeadNorm { norm: layer, width: 2, row_weight: None, row_bias: bias };
    assert_close("layer norm", &run(layer), &[-1.0, 2.0, 1.0, 4.0], 1e-6);
}

#[test]
fn temperature_steps_with_the_position() {
    let temperature = Temperature { scale: 0.5, length: 4.0, offset: 1.0 };
    assert_eq!(temperature.factors(&[0, 1, 2]), None);
    let expected = [1.0, 1.0 + 0.5 * 2f32.ln(), 1.0 + 0.5 * 3f32.ln()];
    assert_close("factors", &temperature.factors(&[2, 3, 7]).unwrap(), &expected, 1e-6);
}

fn attention(long: Option<Vec<f32>>, states: &mut StateDeclarations) -> Attention {
    let mut random = SplitMix64::new(8);
    let mut square = || linear(&random.values(D * D, 0.0, 0.5), D, D);
    let linears = AttentionLinears {
        query: square(),
        key: square(),
        value: Some(square()),
        output: square(),
        gate: None,
    };
    let shape = AttentionShape {
        heads: 2,
        kv_heads: 2,
        key_dim: 6,
        value_dim: 6,
        scale: 0.4,
        softcap: None,
        mask: Mask::Causal,
        alibi: None,
    };
    let rope = Rope {
        pairs: RopePairs::Halves,
        frequencies: vec![1.0, 0.5],
        long_frequencies: long,
        magnitude: 1.0,
    };
    Attention::new(["blk.0.k", "blk.0.v"], linears, shape, states)
        .unwrap()
        .with_rope(rope, &mut RopeDeclarations::default())
}

/// Runs sequences `(regime, rows)` in one step over an attention.
fn run_attention(long: Option<Vec<f32>>, parts: &[(RopeRegime, &[f32])]) -> Vec<Vec<f32>> {
    let mut declarations = StateDeclarations::default();
    let attention = attention(long, &mut declarations);
    let mut states = pool(declarations.into_specs());
    let mut start = 0;
    let mut parts_of_step = Vec::new();
    for (regime, x) in parts {
        let count = x.len() / D;
        parts_of_step.push(SequenceRows {
            sequence: states.create().unwrap(),
            rows: start..start + count,
            first_position: 0,
            step: InferenceStep::Decode { current_position: 0 },
            regime: *regime,
            logits: 0..0,
            adapters: None,
        });
        start += count;
    }
    let layout = SequenceLayout::new(parts_of_step).unwrap();
    states.prepare(&layout).unwrap();
    let compute = compute();
    let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), &mut states);
    let x: Vec<f32> = parts.iter().flat_map(|(_, x)| x.to_vec()).collect();
    let out = values(&attention.forward(&rows(&x, D), &mut context).unwrap());
    let mut rest = out.as_slice();
    let split = parts.iter().map(|(_, x)| {
        let (part, after) = rest.split_at(x.len());
        rest = after;
        part.to_vec()
    });
    split.collect()
}

#[test]
fn sequences_of_different_rope_regimes_share_a_step() {
    let mut random = SplitMix64::new(9);
    let (a, b, c) =
        (random.values(3 * D, 0.0, 1.0), random.values(2 * D, 0.0, 1.0), random.values(4 * D, 0.0, 1.0));
    let long = vec![0.2, 0.1];
    use RopeRegime::{Long, Short};
    let mixed = run_attention(Some(long.clone()), &[(Short, &a), (Long, &b), (Long, &c)]);
    let alone = |regime, x: &[f32]| run_attention(Some(long.clone()), &[(regime, x)]).remove(0);
    assert_equal_bits("short", &mixed[0], &alone(Short, &a));
    assert_equal_bits("long", &mixed[1], &alone(Long, &b));
    assert_equal_bits("long too", &mixed[2], &alone(Long, &c));
    assert!(menagerie_testkit::max_difference(&alone(Short, &b), &mixed[1]) > 1e-3);
    // Without long frequencies the regime changes nothing.
    let plain = run_attention(None, &[(Long, &a)]).remove(0);
    assert_equal_bits("one regime", &plain, &mixed[0]);
}

/// Counts how often it is called.
struct Counted(std::sync::atomic::AtomicUsize);

impl Norm for &Counted {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        context.compute.backend.copy(x)
    }
}

/// A mixer or feed-forward that multiplies by a number.
struct Times(f32);

impl Times {
    fn times(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        backend.scale(backend.copy(x)?, self.0)
    }
}

impl SequenceMixer for Times {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        self.times(x, context)
    }
}

impl FeedForward for Times {
    fn forward(&self, x: &Rows, _raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        self.times(x, context)
    }
}

fn run_layer(layer: &dyn Layer, x: f32) -> f32 {
    let (layout, mut states) = layout(1);
    let compute = compute();
    let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), &mut states);
    values(&layer.forward(rows(&[x], 1), &mut context).unwrap())[0]
}

#[test]
fn branches_add_up_as_their_fields_say() {
    let norm = Counted(0.into());
    let branch = |factor: f32, reads: BranchInput, scale: f32| Branch {
        pre: Some(&norm),
        part: Times(factor),
        post: None,
        after: None,
        again: None,
        reads,
        scale,
    };
    // Sequential: 2 + 3*2 = 8, 8 + 10*8 = 88.
    let block = TransformerBlock::new(
        Some(branch(3.0, BranchInput::Stream, 1.0)),
        Some(branch(10.0, BranchInput::Stream, 1.0)),
    );
    assert_eq!(run_layer(&block, 2.0), 88.0);
    // Parallel, the second branch halved: 2 + 6 + 0.5 * 20 = 18.
    let block = TransformerBlock::new(
        Some(branch(3.0, BranchInput::Stream, 1.0)),
        Some(branch(10.0, BranchInput::BlockInput, 0.5)),
    );
    norm.0.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(run_layer(&block, 2.0), 18.0);
    assert_eq!(norm.0.load(std::sync::atomic::Ordering::Relaxed), 2);
    let mut shared = TransformerBlock::new(
        Some(branch(3.0, BranchInput::Stream, 1.0)),
        Some(branch(10.0, BranchInput::BlockInput, 0.5)),
    );
    shared.pre = PreNorm::Shared;
    norm.0.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(run_layer(&shared, 2.0), 18.0);
    assert_eq!(norm.0.load(std::sync::atomic::Ordering::Relaxed), 1);
    // Without a mixer: 2 + 10*2.
    let lone =
        TransformerBlock::<&Counted, Times, Times>::new(None, Some(branch(10.0, BranchInput::Stream, 1.0)));
    assert_eq!(run_layer(&lone, 2.0), 22.0);
}

#[test]
fn a_norm_after_rope_differs_from_one_before() {
    let mut declarations = StateDeclarations::default();
    let head = |seed| {
        let weight = Some(vector(&SplitMix64::new(seed).values(6, 1.0, 0.5)));
        HeadNorm { norm: Box::new(RmsNorm { weight, eps: 1e-6 }), width: 6, row_weight: None, row_bias: None }
    };
    let run = |place, declarations: &mut StateDeclarations| {
        let norm = QkNorm { query: head(1), key: head(2), place };
        let mut attention = attention(None, declarations);
        attention.qk_norm = Some(norm);
        let mut states = pool(std::mem::take(declarations).into_specs());
        let part = SequenceRows {
            sequence: states.create().unwrap(),
            rows: 0..3,
            first_position: 0,
            step: InferenceStep::Decode { current_position: 0 },
            regime: RopeRegime::Short,
            logits: 0..0,
            adapters: None,
        };
        let layout = SequenceLayout::new(vec![part]).unwrap();
        states.prepare(&layout).unwrap();
        let compute = compute();
        let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), &mut states);
        let x = rows(&SplitMix64::new(3).values(3 * D, 0.0, 1.0), D);
        values(&attention.forward(&x, &mut context).unwrap())
    };
    let before = run(QkNormPlace::BeforeRope, &mut declarations);
    let after = run(QkNormPlace::AfterRope, &mut StateDeclarations::default());
    // Position 0 does not rotate, later ones do.
    assert_close("position 0", &before[..D], &after[..D], 1e-6);
    assert!(menagerie_testkit::max_difference(&before[D..], &after[D..]) > 1e-4);
}
