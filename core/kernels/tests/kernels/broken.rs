//! NaN and infinite values are visible in every result that depends on them: no broken result may look valid.

use menagerie_kernels::*;
use menagerie_kernels_check::weights::random_blocks;
use menagerie_random::SplitMix64;

/// Lengths with whole vectors and odd ends.
const LENGTHS: [usize; 4] = [7, 16, 33, 96];

fn each_cpu(test: impl Fn(&Cpu)) {
    for isa in Isa::available() {
        test(&Cpu::with_isa(Some(2), isa).unwrap());
    }
}

fn noise(count: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(count as u64 + 1);
    (0..count).map(|_| random.signed()).collect()
}

/// Calls `test` with rows of every length in which one place, first, last or in between, is NaN.
fn with_a_nan(test: impl Fn(&Cpu, &[f32], usize)) {
    each_cpu(|cpu| {
        for length in LENGTHS {
            for place in [0, length / 2, length - 1] {
                let mut x = noise(length);
                x[place] = f32::NAN;
                test(cpu, &x, place);
            }
        }
    });
}

#[test]
fn elementwise_operations_keep_it() {
    with_a_nan(|cpu, x, place| {
        let check = |what: &str, out: &[f32]| assert!(out[place].is_nan(), "{what} {} {place}", cpu.isa());
        let in_place = |what: &str, change: &dyn Fn(&mut [f32])| {
            let mut out = x.to_vec();
            change(&mut out);
            check(what, &out);
        };
        for a in [
            Activation::Silu,
            Activation::GeluTanh,
            Activation::GeluErf,
            Activation::Relu,
            Activation::ReluSquared,
        ] {
            in_place(&format!("{a:?}"), &|out| activate(cpu, a, out).unwrap());
            let (other, mut out) = (noise(x.len()), vec![0.0; x.len()]);
            gated(cpu, Gating::Plain(a), x, &other, &mut out).unwrap();
            check("gate", &out);
            gated(cpu, Gating::Plain(a), &other, x, &mut out).unwrap();
            check("up", &out);
        }
        in_place("sigmoid", &|out| sigmoid(cpu, out).unwrap());
        in_place("softcap", &|out| softcap(cpu, 30.0, out).unwrap());
        in_place("scale", &|out| scale(cpu, out, 0.0).unwrap());
        in_place("short_conv", &|out| {
            let width = out.len();
            short_conv(cpu, &noise(3 * width), 3, x, &mut vec![0.0; 2 * width], out).unwrap();
        });
    });
}

#[test]
fn a_row_with_it_is_none() {
    with_a_nan(|cpu, x, place| {
        let (width, all) = (x.len(), |out: &[f32]| out.iter().all(|v| v.is_nan()));
        let mut out = vec![0.0; width];
        rms_norm(cpu, x, Some(&noise(width)), 1e-5, width, &mut out).unwrap();
        assert!(all(&out), "rms_norm {} {place}", cpu.isa());
        layer_norm(cpu, &LayerNorm { weight: None, bias: None, eps: 1e-5 }, x, width, &mut out).unwrap();
        assert!(all(&out), "layer_norm {} {place}", cpu.isa());
        out.copy_from_slice(x);
        softmax_rows(cpu, &mut out, width).unwrap();
        assert!(all(&out), "softmax {} {place}", cpu.isa());
    });
}

/// Of a block's own numbers only factors can be broken; a row of weights with a broken factor gives NaN.
#[test]
fn weights_with_it_give_it() {
    let mut random = SplitMix64::new(3);
    for &block in BlockType::ALL {
        let (rows, cols) = (20, 512);
        let bytes = random_blocks(block, rows * cols, &mut random);
        let mut values = vec![0.0; rows * cols];
        // Some pattern in the first block of the fifth row is a factor that is NaN, if the type has such patterns.
        let row = bytes.len() / rows;
        let broken = (0..block.block_bytes().saturating_sub(1)).find_map(|at| {
            let mut broken = bytes.clone();
            match block {
                BlockType::F32 => broken[5 * row..][..4].copy_from_slice(&f32::NAN.to_le_bytes()),
                BlockType::BF16 => broken[5 * row..][..2].copy_from_slice(&[0xc0, 0x7f]),
                _ => broken[5 * row + at..][..2].copy_from_slice(&[0x00, 0x7e]),
            }
            dequantize(block, &broken, &mut values).unwrap();
            values.iter().any(|v| v.is_nan()).then_some(broken)
        });
        let Some(broken) = broken else {
            assert!(["MXFP4", "NVFP4", "IQ1_M"].contains(&block.name()), "{}", block.name());
            continue;
        };
        let w = Matrix::new(block, rows, cols, &broken).unwrap();
        for (tokens, arithmetic) in
            [(1, Arithmetic::Exact), (1, Arithmetic::Fast), (5, Arithmetic::Exact), (5, Arithmetic::Fast)]
        {
            each_cpu(|cpu| {
                let (x, cache) = (noise(tokens * cols), ActivationCache::default());
                let x = Activations::new(&x, tokens, cols, &cache).unwrap();
                let mut y = vec![0.0; tokens * rows];
                matmul(cpu, arithmetic, &w, &x, &mut y).unwrap();
                for (at, y) in y.iter().enumerate() {
                    assert_eq!(
                        y.is_nan(),
                        at % rows == 5,
                        "{} {} {tokens} {arithmetic:?} {at}",
                        block.name(),
                        cpu.isa()
                    );
                }
            });
        }
    }
}

/// What a cache reads back as, by attention over a single key: the softmax of one score is 1, so the result is the
/// value.
fn read_back(cpu: &Cpu, kind: KvType, key: &[f32], value: &[f32]) -> Vec<f32> {
    let dim = key.len();
    let stored = |values: &[f32]| {
        let mut bytes = vec![0; kind.row_bytes(dim).unwrap()];
        store_rows(kind, values, &mut bytes).unwrap();
        bytes
    };
    let (keys, values) = (stored(key), stored(value));
    let rows =
        |bytes| KvRows { kind, heads: 1, head_dim: dim, bytes, page_len: 1, pages: &[0], first_page: 0 };
    let sequence = AttentionSequence {
        first_row: 0,
        row_count: 1,
        first_position: 0,
        keys: rows(&keys),
        values: rows(&values),
    };
    let shape = AttentionShape {
        heads: 1,
        kv_heads: 1,
        key_dim: dim,
        value_dim: dim,
        scale: 1.0,
        softcap: None,
        mask: Mask::Causal,
        alibi: None,
    };
    let mut out = vec![0.0; dim];
    attention(cpu, &shape, &[sequence], &noise(dim), AttentionBiases::default(), &mut out).unwrap();
    out
}

#[test]
fn caches_keep_it() {
    each_cpu(|cpu| {
        for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
            let whole = noise(64);
            assert!(read_back(cpu, kind, &whole, &whole).iter().all(|v| v.is_finite()));
            for place in 0..64 {
                let mut broken = whole.clone();
                broken[place] = f32::NAN;
                let out = read_back(cpu, kind, &broken, &whole);
                assert!(out.iter().all(|v| v.is_nan()), "{} key {kind:?} {place}", cpu.isa());
                let out = read_back(cpu, kind, &whole, &broken);
                assert!(out[place].is_nan(), "{} value {kind:?} {place}", cpu.isa());
                // Past the largest f16, and past the scale of its blocks of 8 bits.
                for large in [f32::INFINITY, 1e8] {
                    broken[place] = large;
                    let out = read_back(cpu, kind, &whole, &broken);
                    assert!(
                        kind == KvType::F32 && large.is_finite() || !out[place].is_finite(),
                        "{kind:?} {place}"
                    );
                }
            }
        }
    });
}

/// Among many keys, for one row and for several, in the first part and in the last.
#[test]
fn attention_does_not_pass_over_a_key() {
    let (dim, total) = (32, 700);
    each_cpu(|cpu| {
        for (rows, place) in [(1, 3), (1, 640), (5, 3), (5, 640)] {
            let mut keys = noise(total * dim);
            keys[place * dim + 9] = f32::NAN;
            let mut bytes = vec![0; total * dim * 4];
            store_rows(KvType::F32, &keys, &mut bytes).unwrap();
            let cache = KvRows {
                kind: KvType::F32,
                heads: 1,
                head_dim: dim,
                bytes: &bytes,
                page_len: total,
                pages: &[0],
                first_page: 0,
            };
            let sequence = AttentionSequence {
                first_row: 0,
                row_count: rows,
                first_position: total - rows,
                keys: cache,
                values: KvRows { bytes: &bytes, ..cache },
            };
            for softcap in [None, Some(50.0)] {
                let shape = AttentionShape {
                    heads: 2,
                    kv_heads: 1,
                    key_dim: dim,
                    value_dim: dim,
                    scale: 0.2,
                    softcap,
                    mask: Mask::Causal,
                    alibi: None,
                };
                let mut out = vec![0.0; rows * 2 * dim];
                attention(
                    cpu,
                    &shape,
                    &[sequence],
                    &noise(rows * 2 * dim),
                    AttentionBiases::default(),
                    &mut out,
                )
                .unwrap();
                assert!(out.iter().all(|v| v.is_nan()), "{} {rows} {place} {softcap:?}", cpu.isa());
            }
        }
    });
}
