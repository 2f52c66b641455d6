//! Attention over pages of keys and values, step by step, against the whole row of scores in f64.

use crate::{backend, layout, noise};
use half::f16;
use menagerie_model::{
    AttentionBiases, AttentionShape, AttentionStates, Backend, KvType, Mask, ModelError, PoolOptions,
    SequenceId, StateId, StatePool, StateSpec, StateStep,
};

const STATES: AttentionStates = AttentionStates { keys: StateId(0), values: StateId(1) };

fn specs(shape: &AttentionShape) -> Vec<StateSpec> {
    let spec = |name: &str, head_dim: usize| StateSpec::PerToken {
        name: name.to_owned(),
        dtype: None,
        heads: shape.kv_heads,
        head_dim,
        window: shape.mask.window(),
    };
    vec![spec("k", shape.key_dim), spec("v", shape.value_dim)]
}

/// A sequence: all of its queries, keys and values.
struct Whole {
    id: SequenceId,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    done: usize,
}

impl Whole {
    fn new(pool: &mut StatePool, shape: &AttentionShape, seed: u64, tokens: usize) -> Self {
        Self {
            id: pool.create().unwrap(),
            query: noise(seed, tokens * shape.heads * shape.key_dim),
            key: noise(seed + 1, tokens * shape.kv_heads * shape.key_dim),
            value: noise(seed + 2, tokens * shape.kv_heads * shape.value_dim),
            done: 0,
        }
    }
}

fn sees(mask: Mask, query: usize, key: usize, total: usize) -> bool {
    match mask {
        Mask::Causal => key <= query,
        Mask::Sliding { size } => key <= query && query - key < size,
        Mask::Chunked { size } => key <= query && key / size == query / size,
        Mask::Bidirectional => key < total,
        Mask::Symmetric { size } => key < total && query.abs_diff(key) <= size / 2,
    }
}

fn stored(kind: KvType, value: f32) -> f64 {
    f64::from(if kind == KvType::F16 { f16::from_f32(value).to_f32() } else { value })
}

/// The slope of a head as in the paper's code: a geometric series if the number of heads is a power of two; otherwise
/// that of the power below, then every other one of the series of the power above (Press et al., 2021).
fn slope(max_bias: f64, heads: usize, head: usize) -> f64 {
    let series = |count: usize, index: usize| (-max_bias / count as f64).exp2().powi(index as i32 + 1);
    let below = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    if head < below { series(below, head) } else { series(2 * below, 2 * (head - below)) }
}

/// One head of one query of a sequence of `total` tokens.
fn one_head(
    shape: &AttentionShape,
    whole: &Whole,
    [query, head, total]: [usize; 3],
    kind: KvType,
    (sink, learned): (Option<f32>, Option<&[f32]>),
) -> Vec<f64> {
    let kv = head / (shape.heads / shape.kv_heads);
    let q = &whole.query[(query * shape.heads + head) * shape.key_dim..][..shape.key_dim];
    let shown: Vec<usize> = (0..total).filter(|&key| sees(shape.mask, query, key, total)).collect();
    let slope = shape.alibi.map_or(0.0, |bias| slope(f64::from(bias), shape.heads, head));
    let score = |key: &usize| {
        let k = &whole.key[(key * shape.kv_heads + kv) * shape.key_dim..][..shape.key_dim];
        let dot: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * stored(kind, *k)).sum();
        let score = dot * f64::from(shape.scale);
        let score = shape.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
        let learned = learned.map_or(0.0, |table| {
            let reach = (table.len() / shape.heads / 2) as isize;
            let distance = (*key as isize - query as isize).clamp(-reach, reach);
            f64::from(table[head * table.len() / shape.heads + (reach + distance) as usize])
        });
        score + learned - slope * query.abs_diff(*key) as f64
    };
    let scores: Vec<f64> = shown.iter().map(score).collect();
    let sink = sink.map_or(f64::NEG_INFINITY, f64::from);
    let most = scores.iter().copied().fold(sink, f64::max);
    let sum = scores.iter().map(|score| (score - most).exp()).sum::<f64>() + (sink - most).exp();
    let mut out = vec![0.0; shape.value_dim];
    for (key, score) in shown.iter().zip(&scores) {
        let v = &whole.value[(key * shape.kv_heads + kv) * shape.value_dim..][..shape.value_dim];
        for (out, v) in out.iter_mut().zip(v) {
            *out += (score - most).exp() / sum * stored(kind, *v);
        }
    }
    out
}

struct Case {
    shape: AttentionShape,
    kind: KvType,
    sinks: bool,
    /// The reach of the biases by distance, if there are any.
    reach: Option<usize>,
    page_len: usize,
}

impl Case {
    /// Runs steps of so many rows of each of two sequences and compares every output.
    fn run(&self, steps: &[[usize; 2]]) {
        let (backend, shape) = (backend(), &self.shape);
        let tokens = [0, 1].map(|s| steps.iter().map(|counts| counts[s]).sum::<usize>());
        let most = tokens[0].max(tokens[1]);
        let options = PoolOptions::sequences(self.kind, 2, most).with_page_len(self.page_len);
        let mut pool = StatePool::new(&backend, specs(shape), options).unwrap();
        let mut wholes: Vec<Whole> =
            (0..2).map(|s| Whole::new(&mut pool, shape, 10 * s as u64, tokens[s])).collect();
        let logits: Option<Vec<f32>> = self.sinks.then(|| noise(99, shape.heads));
        let learned = self.reach.map(|reach| noise(98, shape.heads * (2 * reach + 1)));
        let distances = learned.clone().map(|table| backend.vector("distances", table).unwrap());
        let sinks = logits.clone().map(|logits| backend.vector("sinks", logits).unwrap());
        for counts in steps {
            let parts: Vec<_> = (0..2).filter(|&s| counts[s] > 0).collect();
            let layout =
                layout(&parts.iter().map(|&s| (wholes[s].id, wholes[s].done, counts[s])).collect::<Vec<_>>());
            pool.prepare(&layout).unwrap();
            let cut = |values: fn(&Whole) -> &Vec<f32>, width: usize| {
                let part = |&s: &usize| {
                    let from = wholes[s].done * width;
                    values(&wholes[s])[from..from + counts[s] * width].to_vec()
                };
                backend.upload(parts.iter().flat_map(part).collect(), width).unwrap()
            };
            let query = cut(|whole| &whole.query, shape.heads * shape.key_dim);
            let key = cut(|whole| &whole.key, shape.kv_heads * shape.key_dim);
            let value = cut(|whole| &whole.value, shape.kv_heads * shape.value_dim);
            let step = StateStep { layout: &layout, states: &mut pool };
            let biases = AttentionBiases { sinks: sinks.as_ref(), distances: distances.as_ref() };
            let made = backend.attention(shape, STATES, [&query, &key, &value], biases, step).unwrap();
            let made = backend.read(&made).unwrap();
            let mut heads = made.chunks_exact(shape.value_dim);
            for &s in &parts {
                let (from, total) = (wholes[s].done, wholes[s].done + counts[s]);
                for row in from..total {
                    for head in 0..shape.heads {
                        let sink = logits.as_ref().map(|logits| logits[head]);
                        let biases = (sink, learned.as_deref());
                        let wanted = one_head(shape, &wholes[s], [row, head, total], self.kind, biases);
                        for (found, wanted) in heads.next().unwrap().iter().zip(wanted) {
                            let off = (f64::from(*found) - wanted).abs();
                            assert!(
                                off < 2e-6,
                                "{:?} sequence {s} row {row} head {head}: {found}, {wanted}",
                                shape.mask
                            );
                        }
                    }
                }
            }
            for s in 0..2 {
                wholes[s].done += counts[s];
                pool.advance(wholes[s].id, counts[s]).unwrap();
            }
        }
    }
}

fn shape(mask: Mask) -> AttentionShape {
    AttentionShape {
        heads: 6,
        kv_heads: 2,
        key_dim: 8,
        value_dim: 8,
        scale: 0.6,
        softcap: None,
        mask,
        alibi: None,
    }
}

const STEPS: &[[usize; 2]] = &[[7, 3], [1, 12], [1, 1], [0, 5], [9, 0], [2, 1], [1, 1]];

#[test]
fn masks_over_pages_of_both_types() {
    for mask in
        [Mask::Causal, Mask::Sliding { size: 5 }, Mask::Sliding { size: 1 }, Mask::Chunked { size: 6 }]
    {
        for kind in [KvType::F32, KvType::F16] {
            for page_len in [1, 4, 64] {
                Case { shape: shape(mask), kind, sinks: false, reach: None, page_len }.run(STEPS);
            }
        }
    }
}

#[test]
fn sequences_that_are_seen_whole() {
    for mask in [Mask::Bidirectional, Mask::Symmetric { size: 4 }, Mask::Symmetric { size: 7 }] {
        for reach in [None, Some(0), Some(3), Some(40)] {
            Case { shape: shape(mask), kind: KvType::F32, sinks: true, reach, page_len: 4 }.run(&[[9, 14]]);
        }
    }
}

#[test]
fn sinks_caps_and_heads_of_other_sizes() {
    for (heads, kv_heads) in [(4, 4), (4, 1), (6, 3)] {
        let shape = AttentionShape {
            heads,
            kv_heads,
            key_dim: 12,
            value_dim: 5,
            scale: 1.3,
            softcap: Some(1.5),
            mask: Mask::Sliding { size: 6 },
            alibi: None,
        };
        Case { shape, kind: KvType::F16, sinks: true, reach: Some(5), page_len: 4 }.run(STEPS);
        Case {
            shape: AttentionShape { softcap: None, alibi: Some(8.0), ..shape },
            kind: KvType::F32,
            sinks: true,
            reach: None,
            page_len: 4,
        }
        .run(STEPS);
    }
}

/// Pages of a fork are copied where they are written, and those of the first sequence stay unchanged.
#[test]
fn a_fork_writes_its_own_pages() {
    let (backend, shape) = (backend(), shape(Mask::Causal));
    let options = PoolOptions::sequences(KvType::F32, 2, 12).with_page_len(4);
    let mut pool = StatePool::new(&backend, specs(&shape), options).unwrap();
    let first = Whole::new(&mut pool, &shape, 1, 7);
    let step = |pool: &mut StatePool, whole: &Whole, id: SequenceId, from: usize, count: usize| {
        let layout = layout(&[(id, from, count)]);
        pool.prepare(&layout).unwrap();
        let cut = |values: &[f32], width: usize| {
            backend.upload(values[from * width..(from + count) * width].to_vec(), width).unwrap()
        };
        let rows = [cut(&whole.query, 48), cut(&whole.key, 16), cut(&whole.value, 16)];
        let step = StateStep { layout: &layout, states: &mut *pool };
        let made = backend
            .attention(&shape, STATES, [&rows[0], &rows[1], &rows[2]], AttentionBiases::default(), step)
            .unwrap();
        pool.advance(id, count).unwrap();
        backend.read(&made).unwrap().into_owned()
    };
    step(&mut pool, &first, first.id, 0, 6);
    let twin = pool.fork(first.id).unwrap();
    let mut second = Whole {
        id: twin,
        ..Whole::new(&mut StatePool::new(&backend, specs(&shape), options).unwrap(), &shape, 50, 7)
    };
    for (own, other) in
        [(&mut second.query, &first.query), (&mut second.key, &first.key), (&mut second.value, &first.value)]
    {
        let shared = own.len() / 7 * 6;
        own[..shared].copy_from_slice(&other[..shared]);
    }
    for whole in [&second, &first] {
        let found = step(&mut pool, whole, whole.id, 6, 1);
        for head in 0..6 {
            let wanted = one_head(&shape, whole, [6, head, 7], KvType::F32, (None, None));
            for (found, wanted) in found[head * 8..].iter().zip(wanted) {
                assert!((f64::from(*found) - wanted).abs() < 2e-6, "{found} instead of {wanted}");
            }
        }
    }
}

#[test]
fn a_quantized_cache_is_refused_by_name() {
    let shape = AttentionShape { key_dim: 32, value_dim: 32, ..shape(Mask::Causal) };
    let options = PoolOptions::one_sequence(KvType::Q8_0, 64);
    let error = StatePool::new(&backend(), specs(&shape), options).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, ModelError::Unsupported(_)) && text.contains("q8_0") && text.contains("f16"),
        "{text}"
    );
}

#[test]
fn snapshots_read_and_write_blocks() {
    let backend = backend();
    let spec = StateSpec::PerSequence { name: "s".to_owned(), shape: vec![3] };
    let options = PoolOptions::sequences(KvType::F32, 2, 8);
    let mut pool = StatePool::new(&backend, vec![spec], options).unwrap();
    let sequence = pool.create().unwrap();
    let kernel = backend.vector("kernel", vec![0.0, 0.0, 0.0, 1.0]).unwrap();
    let step = |pool: &mut StatePool, at: usize, value: f32| {
        let layout = layout(&[(sequence, at, 1)]);
        pool.prepare(&layout).unwrap();
        let x = backend.upload(vec![value], 1).unwrap();
        let kernel = if value == 0.0 {
            backend.vector("kernel", vec![1.0, 10.0, 100.0, 0.0]).unwrap()
        } else {
            kernel.clone()
        };
        let y =
            backend.short_conv(&x, &kernel, StateId(0), StateStep { layout: &layout, states: &mut *pool });
        pool.advance(sequence, 1).unwrap();
        backend.read(&y.unwrap()).unwrap()[0]
    };
    for at in 0..3 {
        step(&mut pool, at, at as f32 + 1.0);
    }
    let snapshot = pool.snapshot(sequence).unwrap();
    assert_eq!(step(&mut pool, 3, 0.0), 321.0);
    pool.restore(sequence, &snapshot).unwrap();
    assert_eq!(step(&mut pool, 3, 0.0), 321.0);
    pool.truncate(sequence, 0).unwrap();
    assert_eq!(step(&mut pool, 0, 0.0), 0.0);
}
