//! Latent attention against plain loops; and a row has the same bits in whole prompts, in chunks, alone and next to
//! others.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie_model::components::{
    LatentAttention, LatentLinears, LatentSizes, QueryLatent, RmsNorm, Rope, RopeDeclarations,
};
use menagerie_model::{
    Arithmetic, Compute, DenseExperts, DenseLinear, ExpertLinear, InferenceStep, KvType, Linear, PoolOptions,
    RopePairs, RopeRegime, SequenceId, SequenceLayout, SequenceMixer, SequenceRows, StateDeclarations,
    StatePool, StepInput, TransformContext, Weight, WeightShape,
};
use menagerie_testkit::{SplitMix64, assert_close, assert_equal_bits, cpu_backend};

const D: usize = 24;
const QUERY: usize = 10;
const SIZES: LatentSizes = LatentSizes { heads: 6, plain: 8, rotated: 4, value: 5, latent: 16, scale: 0.35 };
const EPS: f32 = 1e-6;
const FREQUENCIES: [f32; 2] = [1.0, 0.3];

/// Every weight, row after row.
struct Weights {
    down: Vec<f32>,
    query: Vec<f32>,
    latent: Vec<f32>,
    rotated: Vec<f32>,
    /// `[heads, plain, latent]`.
    keys: Vec<f32>,
    /// `[heads, value, latent]`.
    values: Vec<f32>,
    output: Vec<f32>,
}

fn weights() -> Weights {
    let LatentSizes { heads, plain, rotated, value, latent, .. } = SIZES;
    let mut random = SplitMix64::new(31);
    let mut matrix = |rows: usize, cols: usize| random.values(rows * cols, 0.0, 0.6);
    Weights {
        down: matrix(QUERY, D),
        query: matrix(heads * (plain + rotated), QUERY),
        latent: matrix(latent, D),
        rotated: matrix(rotated, D),
        keys: matrix(heads * plain, latent),
        values: matrix(heads * value, latent),
        output: matrix(D, heads * value),
    }
}

fn compute() -> Compute {
    Compute::new(cpu_backend(2).unwrap(), Arithmetic::Exact)
}

fn weight(values: &[f32], rows: usize, cols: usize) -> Weight {
    Weight::from_f32("test", values, WeightShape { count: 1, rows, cols }).unwrap()
}

fn linear(weight: &Weight) -> Box<dyn Linear> {
    let param = compute().backend.matrix(weight, Arithmetic::Exact).unwrap();
    Box::new(DenseLinear::new(param, None).unwrap())
}

fn stack(weight: &Weight) -> Box<dyn ExpertLinear> {
    let param = compute().backend.matrix(weight, Arithmetic::Exact).unwrap();
    Box::new(DenseExperts::new(param, None).unwrap())
}

fn attention() -> (LatentAttention, StatePool) {
    let LatentSizes { heads, plain, rotated, value, latent, .. } = SIZES;
    let w = weights();
    let keys = weight(&w.keys, heads * plain, latent).as_stack(heads).unwrap();
    let turned = keys.turned(&w.keys).unwrap();
    let values = weight(&w.values, heads * value, latent);
    let linears = LatentLinears {
        query: linear(&weight(&w.query, heads * (plain + rotated), QUERY)),
        query_latent: Some(QueryLatent {
            down: linear(&weight(&w.down, QUERY, D)),
            norm: Box::new(RmsNorm { weight: None, eps: EPS }),
        }),
        latent: linear(&weight(&w.latent, latent, D)),
        rotated_key: linear(&weight(&w.rotated, rotated, D)),
        absorb_key: stack(&turned),
        absorb_value: stack(&values.as_stack(heads).unwrap()),
        output: linear(&weight(&w.output, D, heads * value)),
    };
    let mut states = StateDeclarations::default();
    let norm = Box::new(RmsNorm { weight: None, eps: EPS });
    let rope = Rope {
        pairs: RopePairs::Adjacent,
        frequencies: FREQUENCIES.to_vec(),
        long_frequencies: None,
        magnitude: 1.0,
    };
    let built = LatentAttention::new("blk.0.latent", linears, SIZES, norm, &mut states).unwrap();
    let built = built.with_rope(rope, &mut RopeDeclarations::default());
    let options = PoolOptions::sequences(KvType::F32, 10, 128).with_page_len(16);
    (built, StatePool::new(&*compute().backend, states.into_specs(), options).unwrap())
}

/// One step: the next rows of some sequences; their outputs, one after the other.
fn step(
    attention: &LatentAttention,
    states: &mut StatePool,
    parts: &[(SequenceId, &[f32])],
) -> Vec<Vec<f32>> {
    let (mut start, mut sequences) = (0, Vec::new());
    for (sequence, x) in parts {
        let count = x.len() / D;
        sequences.push(SequenceRows {
            sequence: *sequence,
            rows: start..start + count,
            first_position: states.len(*sequence).unwrap(),
            step: InferenceStep::Decode { current_position: 0 },
            regime: RopeRegime::Short,
            logits: 0..0,
            adapters: None,
        });
        start += count;
    }
    let layout = SequenceLayout::new(sequences).unwrap();
    states.prepare(&layout).unwrap();
    let compute = compute();
    let x: Vec<f32> = parts.iter().flat_map(|(_, x)| x.to_vec()).collect();
    let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), states);
    let x = compute.backend.upload(x, D).unwrap();
    let out = attention.forward(&x, &mut context).unwrap();
    let out = compute.backend.read(&out).unwrap().into_owned();
    let mut rest = out.as_slice();
    let mut outputs = Vec::new();
    for (sequence, x) in parts {
        let (part, after) = rest.split_at(x.len());
        rest = after;
        outputs.push(part.to_vec());
        states.advance(*sequence, x.len() / D).unwrap();
    }
    outputs
}

fn product(weight: &[f32], x: &[f64]) -> Vec<f64> {
    weight.chunks_exact(x.len()).map(|w| w.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

fn normed(x: Vec<f64>) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let root = (mean + f64::from(EPS)).sqrt();
    x.into_iter().map(|x| x / root).collect()
}

fn turn(x: &[f64], position: usize) -> Vec<f64> {
    let pairs = x.chunks_exact(2).zip(FREQUENCIES);
    let turned = pairs.flat_map(|(pair, frequency)| {
        let angle = position as f64 * f64::from(frequency);
        [pair[0] * angle.cos() - pair[1] * angle.sin(), pair[0] * angle.sin() + pair[1] * angle.cos()]
    });
    turned.collect()
}

/// DeepSeek-V2's formulas with explicit keys and values (the paper's section 2.1), in f64.
fn naive(x: &[f32]) -> Vec<f32> {
    let LatentSizes { heads, plain, rotated, value, latent, scale } = SIZES;
    let w = weights();
    let rows: Vec<Vec<f64>> =
        x.chunks_exact(D).map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect();
    let latents: Vec<Vec<f64>> = rows.iter().map(|row| normed(product(&w.latent, row))).collect();
    let shared: Vec<Vec<f64>> =
        rows.iter().enumerate().map(|(at, row)| turn(&product(&w.rotated, row), at)).collect();
    let mut out = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let query = product(&w.query, &normed(product(&w.down, row)));
        let mut mixed = Vec::new();
        for head in 0..heads {
            let own = &query[head * (plain + rotated)..(head + 1) * (plain + rotated)];
            let own = [own[..plain].to_vec(), turn(&own[plain..], at)].concat();
            let keys = &w.keys[head * plain * latent..(head + 1) * plain * latent];
            let values = &w.values[head * value * latent..(head + 1) * value * latent];
            let scores: Vec<f64> = (0..=at)
                .map(|key| {
                    let key = [product(keys, &latents[key]), shared[key].clone()].concat();
                    let dot: f64 = key.iter().zip(&own).map(|(k, q)| k * q).sum();
                    (dot * f64::from(scale)).exp()
                })
                .collect();
            let sum: f64 = scores.iter().sum();
            let mut result = vec![0.0; value];
            for (key, score) in scores.iter().enumerate() {
                let from = product(values, &latents[key]);
                result.iter_mut().zip(from).for_each(|(to, from)| *to += score / sum * from);
            }
            mixed.extend(result);
        }
        out.extend(product(&w.output, &mixed).into_iter().map(|y| y as f32));
    }
    out
}

fn input(seed: u64, rows: usize) -> Vec<f32> {
    SplitMix64::new(seed).values(rows * D, 0.0, 1.0)
}

#[test]
fn however_a_prompt_is_cut_it_is_the_papers_formula() {
    let x = input(3, 60);
    let expected = naive(&x);
    let mut whole = Vec::new();
    for chunk in [60, 23, 2, 1] {
        let (attention, mut states) = attention();
        let sequence = states.create().unwrap();
        let chunks = x.chunks(chunk * D);
        let out: Vec<f32> =
            chunks.flat_map(|part| step(&attention, &mut states, &[(sequence, part)]).concat()).collect();
        assert_close(&format!("chunks of {chunk}"), &out, &expected, 2e-5);
        if whole.is_empty() {
            whole.clone_from(&out);
        }
        assert_equal_bits(&format!("chunks of {chunk}"), &out, &whole);
    }
}

#[test]
fn sequences_of_a_step_do_not_see_each_other() {
    let (long, short, one) = (input(4, 40), input(5, 30), input(6, 9));
    let ways: [&[usize]; 3] = [&[0, 1, 2], &[2, 0, 1], &[1, 2]];
    let alone: Vec<Vec<f32>> = [&long, &short, &one]
        .into_iter()
        .map(|x| {
            let (attention, mut states) = attention();
            let sequence = states.create().unwrap();
            // The last row comes in a separate step.
            let (before, last) = x.split_at(x.len() - D);
            step(&attention, &mut states, &[(sequence, before)]);
            let last = step(&attention, &mut states, &[(sequence, last)]).concat();
            assert_close("decoded", &last, &naive(x)[x.len() - D..], 2e-5);
            last
        })
        .collect();
    for order in ways {
        let (attention, mut states) = attention();
        let x = [&long, &short, &one];
        let sequences: Vec<SequenceId> = order.iter().map(|_| states.create().unwrap()).collect();
        // A prompt next to single rows, in every place.
        let parts: Vec<(SequenceId, &[f32])> =
            sequences.iter().zip(order).map(|(id, at)| (*id, &x[*at][..x[*at].len() - D])).collect();
        step(&attention, &mut states, &parts);
        let fresh = states.create().unwrap();
        let prompt = input(7, 33);
        for place in 0..=order.len() {
            let mut forked = Vec::new();
            let mut parts: Vec<(SequenceId, &[f32])> = Vec::new();
            for (id, at) in sequences.iter().zip(order) {
                let fork = states.fork(*id).unwrap();
                forked.push(fork);
                parts.push((fork, &x[*at][x[*at].len() - D..]));
            }
            let id = states.fork(fresh).unwrap();
            forked.push(id);
            parts.insert(place, (id, &prompt));
            let mut outputs = step(&attention, &mut states, &parts);
            assert_close("prompt beside rows", &outputs.remove(place), &naive(&prompt), 2e-5);
            for (output, at) in outputs.iter().zip(order) {
                assert_equal_bits("row beside a prompt", output, &alone[*at]);
            }
            forked.into_iter().for_each(|id| states.free(id).unwrap());
        }
    }
}

/// A prompt's bits are the same next to any other sequence.
#[test]
fn a_prompt_is_the_same_bits_beside_others() {
    let (x, other) = (input(8, 21), input(9, 17));
    let (attention, mut states) = attention();
    let (a, b, c) = (states.create().unwrap(), states.create().unwrap(), states.create().unwrap());
    let alone = step(&attention, &mut states, &[(a, &x)]).concat();
    let both = step(&attention, &mut states, &[(b, &other), (c, &x)]);
    assert_equal_bits("beside another", &both[1], &alone);
}
