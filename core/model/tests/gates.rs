//! The operations around an attention's products: gates, inner norms, scales.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie_model::components::{
    Attention, AttentionGate, AttentionLinears, GateSource, GatedFeedForward, RmsNorm,
};
use menagerie_model::{
    Activation, Arithmetic, AttentionShape, Compute, DenseExperts, DenseLinear, ExpertLinear, ExpertPlan,
    FeedForward, Gating, InferenceStep, KvType, Linear, LinearInput, Mask, Norm, Packing, Param, PoolOptions,
    Raw, RopeRegime, Routing, RowOrigins, Rows, SequenceLayout, SequenceMixer, SequenceRows,
    StateDeclarations, StatePool, StepInput, TransformContext, Weight, WeightShape,
};
use menagerie_testkit::{SplitMix64, assert_close, cpu_backend};

const D: usize = 12;
const HEADS: usize = 2;
const DIM: usize = 6;
const T: usize = 5;

fn compute() -> Compute {
    Compute::new(cpu_backend(2).unwrap(), Arithmetic::Exact)
}

fn vector(values: &[f32]) -> Param {
    compute().backend.vector("test", values.to_vec()).unwrap()
}

fn stack(values: &[f32], shape: WeightShape) -> Param {
    let weight = Weight::from_f32("test", values, shape).unwrap();
    compute().backend.matrix(&weight, Arithmetic::Exact).unwrap()
}

fn dense(values: &[f32], bias: Option<&[f32]>) -> DenseLinear {
    let rows = values.len() / D;
    let weight = stack(values, WeightShape { count: 1, rows, cols: D });
    DenseLinear::new(weight, bias.map(vector)).unwrap()
}

fn linear(values: &[f32]) -> Box<dyn Linear> {
    Box::new(dense(values, None))
}

/// Runs `job` in a step of one sequence of `T` rows.
fn in_a_step(
    states: StateDeclarations,
    job: impl FnOnce(&Rows, &mut TransformContext) -> menagerie_model::Result<Rows>,
) -> Vec<f32> {
    let compute = compute();
    let options = PoolOptions::sequences(KvType::F32, 4, 64);
    let mut states = StatePool::new(&*compute.backend, states.into_specs(), options).unwrap();
    let layout = SequenceLayout::new(vec![SequenceRows {
        sequence: states.create().unwrap(),
        rows: 0..T,
        first_position: 0,
        step: InferenceStep::Decode { current_position: 0 },
        regime: RopeRegime::Short,
        logits: 0..0,
        adapters: None,
    }]);
    let layout = layout.unwrap();
    states.prepare(&layout).unwrap();
    let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), &mut states);
    let x = compute.backend.upload(SplitMix64::new(4).values(T * D, 0.0, 1.0), D).unwrap();
    let out = job(&x, &mut context).unwrap();
    compute.backend.read(&out).unwrap().into_owned()
}

/// The weights of an attention: query, key, value, output, gate.
fn weights() -> [Vec<f32>; 5] {
    let mut random = SplitMix64::new(8);
    std::array::from_fn(|_| random.values(D * D, 0.0, 0.5))
}

/// An attention whose output product is the identity, so that its result is the gated rows.
fn attend(gate: Option<AttentionGate>, query: &[f32], norm: Option<RmsNorm>) -> Vec<f32> {
    let [_, key, value, ..] = weights();
    let identity: Vec<f32> = (0..D * D).map(|i| if i % (D + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let linears = AttentionLinears {
        query: linear(query),
        key: linear(&key),
        value: Some(linear(&value)),
        output: linear(&identity),
        gate,
    };
    let shape = AttentionShape {
        heads: HEADS,
        kv_heads: HEADS,
        key_dim: DIM,
        value_dim: DIM,
        scale: 0.4,
        softcap: None,
        mask: Mask::Causal,
        alibi: None,
    };
    let mut declarations = StateDeclarations::default();
    let mut attention = Attention::new(["k", "v"], linears, shape, &mut declarations).unwrap();
    attention.inner_norm = norm.map(|norm| Box::new(norm) as Box<dyn Norm>);
    in_a_step(declarations, |x, context| attention.forward(x, context))
}

fn product(weight: &[f32]) -> Vec<f32> {
    let x = SplitMix64::new(4).values(T * D, 0.0, 1.0);
    let row = |x: &[f32]| {
        weight.chunks_exact(D).map(|w| w.iter().zip(x).map(|(w, x)| w * x).sum()).collect::<Vec<f32>>()
    };
    x.chunks_exact(D).flat_map(row).collect()
}

#[test]
fn a_gate_multiplies_elements_or_heads() {
    let [query, .., gate] = weights();
    let plain = attend(None, &query, None);
    let by_element = |values: &[f32], f: fn(f32) -> f32| {
        plain.iter().zip(values).map(|(x, gate)| x * f(*gate)).collect::<Vec<f32>>()
    };
    let own = |weight: &[f32], activation| {
        Some(AttentionGate { source: GateSource::Own(linear(weight)), activation })
    };
    let sigmoid: fn(f32) -> f32 = |x| 1.0 / (1.0 + (-x).exp());
    let softplus: fn(f32) -> f32 = |x| x.exp().ln_1p();
    let found = attend(own(&gate, Activation::Sigmoid), &query, None);
    assert_close("per element", &found, &by_element(&product(&gate), sigmoid), 1e-5);
    let per_head: Vec<f32> = product(&gate[..HEADS * D]).iter().flat_map(|gate| [*gate; DIM]).collect();
    let found = attend(own(&gate[..HEADS * D], Activation::Softplus), &query, None);
    assert_close("per head", &found, &by_element(&per_head, softplus), 1e-5);
}

#[test]
fn a_gate_among_the_queries_is_one_of_its_own() {
    let [query, .., gate] = weights();
    let heads = query.chunks_exact(DIM * D).zip(gate.chunks_exact(DIM * D));
    let mixed: Vec<f32> = heads.flat_map(|(query, gate)| [query, gate].concat()).collect();
    let activation = Activation::Sigmoid;
    let own = AttentionGate { source: GateSource::Own(linear(&gate)), activation };
    let among = AttentionGate { source: GateSource::BesideQueries, activation };
    let expected = attend(Some(own), &query, None);
    assert_close("interleaved", &attend(Some(among), &mixed, None), &expected, 1e-6);
}

#[test]
fn a_gate_of_another_width_is_refused() {
    let [query, key, value, output, gate] = weights();
    let gate =
        AttentionGate { source: GateSource::Own(linear(&gate[..3 * D])), activation: Activation::Sigmoid };
    let [query, key, value, output] = [query, key, value, output].map(|weight| linear(&weight));
    let linears = AttentionLinears { query, key, value: Some(value), output, gate: Some(gate) };
    let shape = AttentionShape {
        heads: HEADS,
        kv_heads: HEADS,
        key_dim: DIM,
        value_dim: DIM,
        scale: 1.0,
        softcap: None,
        mask: Mask::Causal,
        alibi: None,
    };
    let made = Attention::new(["k", "v"], linears, shape, &mut StateDeclarations::default());
    let text = made.map(drop).unwrap_err().to_string();
    assert!(text.contains("gate product") && text.contains("2 (one per head) or 12"), "{text}");
}

fn normed(rows: &[f32], weight: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let mean = row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32;
        let scale = 1.0 / (mean + 1e-6).sqrt();
        row.iter().zip(weight).map(|(x, w)| x * scale * w).collect::<Vec<f32>>()
    };
    rows.chunks_exact(weight.len()).flat_map(row).collect()
}

#[test]
fn inner_norms_stand_before_the_last_product() {
    let [query, up, down, gate, _] = weights();
    let weight: Vec<f32> = (0..D).map(|i| 1.0 + 0.1 * i as f32).collect();
    let norm = || RmsNorm { weight: Some(vector(&weight)), eps: 1e-6 };
    let expected = normed(&attend(None, &query, None), &weight);
    assert_close("attention", &attend(None, &query, Some(norm())), &expected, 1e-5);

    let part = GatedFeedForward {
        gate: linear(&gate),
        up: linear(&up),
        down: linear(&down),
        gating: Gating::Plain(Activation::Silu).into(),
        inner_norm: Some(Box::new(norm())),
    };
    let found = in_a_step(StateDeclarations::default(), |x, context| {
        part.forward(x, Raw { stream: x, block: x }, context)
    });
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let inner: Vec<f32> =
        product(&gate).iter().zip(product(&up)).map(|(gate, up)| silu(*gate) * up).collect();
    let inner = normed(&inner, &weight);
    let row = |x: &[f32]| {
        down.chunks_exact(D).map(|w| w.iter().zip(x).map(|(w, x)| w * x).sum()).collect::<Vec<f32>>()
    };
    let expected: Vec<f32> = inner.chunks_exact(D).flat_map(row).collect();
    assert_close("feed-forward", &found, &expected, 1e-4);
}

#[test]
fn a_scale_multiplies_the_product_and_not_the_bias() {
    let [weight, ..] = weights();
    let bias: Vec<f32> = (0..D).map(|i| i as f32).collect();
    let scaled = dense(&weight, Some(&bias)).with_scale(0.25);
    let found = in_a_step(StateDeclarations::default(), |x, context| {
        // A scaled product is not fused with others.
        assert!(scaled.terms(RowOrigins::of_step(T), context).is_none());
        scaled.forward(&LinearInput::new(x), context)
    });
    let expected: Vec<f32> =
        product(&weight).iter().enumerate().map(|(i, x)| 0.25 * x + bias[i % D]).collect();
    assert_close("scaled", &found, &expected, 1e-5);
}

#[test]
fn every_expert_has_a_scale_of_its_own() {
    let mut random = SplitMix64::new(2);
    let values = random.values(3 * D * D, 0.0, 0.5);
    let shape = WeightShape { count: 3, rows: D, cols: D };
    let scales = [0.5, 2.0, -1.0];
    let plain = DenseExperts::new(stack(&values, shape), None).unwrap();
    let scaled = plain.clone().with_scales(scales.to_vec()).unwrap();
    assert!(plain.clone().with_scales(vec![1.0; 2]).is_err() && scaled.plain().is_none());
    let biased = DenseExperts::new(stack(&values, shape), Some(stack_bias())).unwrap();
    assert!(biased.with_scales(scales.to_vec()).is_err());
    let routing = Routing { top_k: 1, experts: vec![2, 0, 1, 2, 0], weights: vec![1.0; T] };
    let plan = ExpertPlan::new(&routing, 3).unwrap();
    let run = |experts: &DenseExperts| {
        in_a_step(StateDeclarations::default(), |x, context| {
            experts.forward(&LinearInput::new(x), &plan, Packing::Tokens, context)
        })
    };
    let order = [0, 0, 1, 2, 2];
    let expected: Vec<f32> = run(&plain).iter().enumerate().map(|(i, x)| x * scales[order[i / D]]).collect();
    assert_close("scaled experts", &run(&scaled), &expected, 1e-6);
}

fn stack_bias() -> Param {
    vector(&[0.0; 3 * D])
}
