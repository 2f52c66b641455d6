//! Norms, softmax, rotation, and activations with all functions built on the exponential.

use menagerie_kernels::*;
use menagerie_kernels_check::ordered::{functions, rows};
use menagerie_random::SplitMix64;

use super::{bits, compare, cpus};

/// Widths on both sides of a vector, of four vectors, and of a task.
const WIDTHS: [usize; 12] = [1, 7, 15, 16, 17, 63, 64, 65, 100, 576, 2049, 40_003];

fn noise(count: usize, random: &mut SplitMix64) -> Vec<f32> {
    (0..count).map(|_| random.signed() * 7.0).collect()
}

/// Compares rows with the expected ones: on every instruction set, all at once, in twos, in threes and alone.
fn rows_follow(
    what: &str,
    (x, width): (&[f32], usize),
    expected: &[f32],
    run: impl Fn(&Cpu, &[f32]) -> Vec<f32>,
    faults: &mut Vec<String>,
) {
    let expected = bits(expected);
    for cpu in &cpus(&[1, 2, 7]) {
        for n in [1, 2, 3, x.len() / width] {
            let found: Vec<u32> = x.chunks(n * width).flat_map(|x| bits(&run(cpu, x))).collect();
            let what = || format!("{what} {} width {width} in {n}s, {}", cpu.isa(), cpu.pool().threads());
            compare(&found, &expected, what, faults);
        }
    }
}

#[test]
fn norms_follow_the_order() {
    let (mut random, mut faults) = (SplitMix64::new(31), Vec::new());
    for width in WIDTHS {
        let (x, weight, bias) =
            (noise(6 * width, &mut random), noise(width, &mut random), noise(width, &mut random));
        for weight in [None, Some(weight.as_slice())] {
            let expected = rows::rms_norm(&x, weight, 1e-5, width, None);
            let run = |cpu: &Cpu, x: &[f32]| {
                let mut out = vec![0.0; x.len()];
                rms_norm(cpu, x, weight, 1e-5, width, &mut out).unwrap();
                out
            };
            rows_follow("rms norm", (&x, width), &expected, run, &mut faults);
        }
        let expected = rows::layer_norm(&x, (&weight, &bias), 1e-5, width, None);
        let norm = LayerNorm { weight: Some(&weight), bias: Some(&bias), eps: 1e-5 };
        let run = |cpu: &Cpu, x: &[f32]| {
            let mut out = vec![0.0; x.len()];
            layer_norm(cpu, &norm, x, width, &mut out).unwrap();
            out
        };
        rows_follow("layer norm", (&x, width), &expected, run, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn softmax_follows_the_order() {
    let (mut random, mut faults) = (SplitMix64::new(32), Vec::new());
    for width in WIDTHS {
        let mut x = noise(6 * width, &mut random);
        // Far below, masked, and rows in which something is NaN.
        x[0] = -300.0;
        x[width / 2] = f32::NEG_INFINITY;
        (x[4 * width], x[6 * width - 1]) = (f32::INFINITY, f32::NAN);
        let expected = rows::softmax_rows(&x, width, None);
        let run = |cpu: &Cpu, x: &[f32]| {
            let mut x = x.to_vec();
            softmax_rows(cpu, &mut x, width).unwrap();
            x
        };
        rows_follow("softmax", (&x, width), &expected, run, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn rotation_follows_the_order() {
    let (mut random, mut faults) = (SplitMix64::new(33), Vec::new());
    for (heads, head_dim, count) in
        [(1, 2, 1), (2, 8, 3), (3, 50, 25), (2, 80, 20), (4, 128, 64), (1, 96, 37)]
    {
        let inv_freq: Vec<f32> = (0..count).map(|i| libm::powf(1e4, -(i as f32) / count as f32)).collect();
        let positions: Vec<u32> = (0..9).map(|i| i * 9973 + i * i * 131).collect();
        let width = heads * head_dim;
        let x = noise(positions.len() * width, &mut random);
        for pairs in [RopePairs::Adjacent, RopePairs::Halves] {
            let turn = Rope { pairs, inv_freq: &inv_freq, magnitude: 1.1, head_dim };
            let mut expected = x.clone();
            rows::rope(&turn, &positions, &mut expected);
            for cpu in &cpus(&[1, 7]) {
                for n in [1, 2, 9] {
                    let parts = x.chunks(n * width).zip(positions.chunks(n));
                    let found: Vec<u32> = parts
                        .flat_map(|(x, positions)| {
                            let mut x = x.to_vec();
                            rope(cpu, &turn, positions, &mut x).unwrap();
                            bits(&x)
                        })
                        .collect();
                    let what = || format!("{pairs:?} {head_dim} {} in {n}s", cpu.isa());
                    compare(&found, &bits(&expected), what, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

const GATINGS: [Gating; 4] = [
    Gating::Plain(Activation::Silu),
    Gating::LimitedBefore { limit: 2.5 },
    Gating::LimitedAfter { limit: 1.5 },
    Gating::SwigluOai { alpha: 1.702, limit: 7.0 },
];

/// Numbers of every magnitude, some of them enough for several threads; NaN and infinities at the end.
fn spread(random: &mut SplitMix64) -> Vec<f32> {
    let wide = |random: &mut SplitMix64| f32::from_bits(random.bits() as u32);
    let finite = |v: f32| if v.is_finite() { v } else { 0.25 };
    let mut x: Vec<f32> = (0..20_000).map(|_| random.signed() * 20.0).collect();
    x.extend((0..5_000).map(|_| random.signed() * 200.0));
    x.extend((0..20_003).map(|_| finite(wide(random))));
    x.extend([0.0, -0.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    x
}

#[test]
fn activations_follow_the_order_wherever_an_element_is() {
    let (mut random, mut faults) = (SplitMix64::new(34), Vec::new());
    let x = spread(&mut random);
    let up = noise(x.len(), &mut random);
    for cpu in &cpus(&[1, 3]) {
        let mut check = |name: String, all: Vec<f32>, part: Vec<f32>, one: &dyn Fn(f32, f32) -> f32| {
            let expected: Vec<f32> = x.iter().zip(&up).map(|(x, up)| one(*x, *up)).collect();
            compare(&bits(&all), &bits(&expected), || name.clone(), &mut faults);
            compare(&bits(&part), &bits(&expected[11..36]), || format!("{name}, a part"), &mut faults);
        };
        for &a in Activation::ALL {
            let (mut all, mut part) = (x.clone(), x[11..36].to_vec());
            activate(cpu, a, &mut all).unwrap();
            activate(cpu, a, &mut part).unwrap();
            check(format!("{a:?} {}", cpu.isa()), all, part, &|x, _| functions::activate(a, x));
        }
        for gating in GATINGS {
            let (mut all, mut part) = (vec![0.0; x.len()], vec![0.0; 25]);
            gated(cpu, gating, &x, &up, &mut all).unwrap();
            gated(cpu, gating, &x[11..36], &up[11..36], &mut part).unwrap();
            check(format!("{gating:?} {}", cpu.isa()), all, part, &|x, up| functions::gated(gating, x, up));
        }
        let (mut all, mut part) = (x.clone(), x[11..36].to_vec());
        softcap(cpu, 30.0, &mut all).unwrap();
        softcap(cpu, 30.0, &mut part).unwrap();
        check(format!("softcap {}", cpu.isa()), all, part, &|x, _| functions::softcap(30.0, x));
        let (mut all, mut part) = (x.clone(), x[11..36].to_vec());
        sigmoid(cpu, &mut all).unwrap();
        sigmoid(cpu, &mut part).unwrap();
        check(format!("sigmoid {}", cpu.isa()), all, part, &|x, _| functions::sigmoid(x));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Products of low rank: one chain over the rank for every element, added to the value in the output.
#[test]
fn low_rank_sums_follow_the_order() {
    let (mut random, mut faults) = (SplitMix64::new(35), Vec::new());
    for (rank, width, tokens) in [(1, 5, 3), (8, 64, 1), (16, 777, 5), (3, 100, 70)] {
        let (y, narrow) = (noise(tokens * width, &mut random), noise(tokens * rank, &mut random));
        let up = noise(rank * width, &mut random);
        let expected: Vec<f32> = (0..y.len())
            .map(|i| {
                let (t, r) = (i / width, i % width);
                (0..rank).fold(y[i], |sum, k| narrow[t * rank + k].mul_add(up[k * width + r], sum))
            })
            .collect();
        let bytes: Vec<u8> = up.iter().flat_map(|v| v.to_le_bytes()).collect();
        for cpu in &cpus(&[1, 2, 7]) {
            for n in [1, 2, tokens] {
                let parts = y.chunks(n * width).zip(narrow.chunks(n * rank));
                let found: Vec<u32> = parts
                    .flat_map(|(y, narrow)| {
                        let mut y = y.to_vec();
                        let up = Matrix::new(BlockType::F32, rank, width, &bytes).unwrap();
                        let terms = vec![LowRankTerm { narrow, up, rows: None }];
                        add_low_rank(cpu, &mut [LowRankSum { y: &mut y, width, terms }]).unwrap();
                        bits(&y)
                    })
                    .collect();
                let what = || format!("rank {rank} width {width} {} in {n}s", cpu.isa());
                compare(&found, &bits(&expected), what, &mut faults);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The comparisons above can fail: another order gives other bits.
#[test]
fn a_planted_fault_is_seen() {
    let mut random = SplitMix64::new(36);
    let width = 1000;
    let (x, weight, bias) =
        (noise(40 * width, &mut random), noise(width, &mut random), noise(width, &mut random));
    for fault in rows::RowsFault::ALL {
        let differ = |run: &dyn Fn(Option<rows::RowsFault>) -> Vec<f32>| {
            let (found, expected) = (run(Some(fault)), run(None));
            found.iter().zip(&expected).filter(|(a, b)| a.to_bits() != b.to_bits()).count()
        };
        let counts = [
            differ(&|fault| rows::rms_norm(&x, Some(&weight), 1e-5, width, fault)),
            differ(&|fault| rows::layer_norm(&x, (&weight, &bias), 1e-5, width, fault)),
            differ(&|fault| rows::softmax_rows(&x, width, fault)),
        ];
        assert!(counts.iter().all(|count| *count > 1000), "{fault:?}: {counts:?}");
    }
}
