//! Elementwise operations and activations on odd lengths, every instruction set, both sides of the threshold.

use menagerie_kernels::*;
use menagerie_kernels_check::naive::pointwise;

/// More than enough elements for several threads.
const PARALLEL: usize = 64 * 1024;

fn each_cpu(test: impl Fn(&Cpu)) {
    for isa in Isa::available() {
        test(&Cpu::with_isa(Some(2), isa).unwrap());
    }
}

fn spread(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 4001) as f32 - 2000.0) * 0.006).collect()
}

#[test]
fn sums_and_products() {
    each_cpu(|cpu| {
        for count in [0, 1, 15, 16, 33, PARALLEL + 17] {
            let (x, y) = (spread(count), spread(2 * count)[count..].to_vec());
            let mut out = x.clone();
            add(cpu, &mut out, &y).unwrap();
            assert!(out.iter().zip(x.iter().zip(&y)).all(|(o, (x, y))| *o == x + y));
            let mut out = x.clone();
            multiply(cpu, &mut out, &y).unwrap();
            assert!(out.iter().zip(x.iter().zip(&y)).all(|(o, (x, y))| *o == x * y));
            let mut out = x.clone();
            scale(cpu, &mut out, 1.7).unwrap();
            assert!(out.iter().zip(&x).all(|(o, x)| *o == x * 1.7));
        }
    });
}

#[test]
fn rows_get_their_bias_and_factor() {
    each_cpu(|cpu| {
        for (rows, width) in [(1, 1), (3, 5), (4, 16), (900, 41)] {
            let (x, bias, factors) = (spread(rows * width), spread(width), spread(rows));
            let mut out = x.clone();
            add_bias(cpu, &mut out, &bias).unwrap();
            assert!((0..x.len()).all(|i| out[i] == x[i] + bias[i % width]));
            let mut out = x.clone();
            scale_rows(cpu, &mut out, &factors, width).unwrap();
            assert!((0..x.len()).all(|i| out[i] == x[i] * factors[i / width]));
        }
    });
}

/// The largest distance of a kernel's result from `exact`, its value in f64.
fn bound(activation: Activation, x: f32, exact: f32) -> f32 {
    let bound = 1e-6_f32.min(4e-6 * exact.abs() + 1e-9) + 4e-7 * exact.abs();
    match activation {
        // Its parts are as large as x, and can cancel.
        Activation::Xielu(_) => bound + 2e-7 * x.abs(),
        _ => bound,
    }
}

#[test]
fn activations_match_f64() {
    each_cpu(|cpu| {
        for &a in Activation::ALL {
            for count in [1, 16, 100, PARALLEL + 5] {
                let x = spread(count);
                let mut out = x.clone();
                activate(cpu, a, &mut out).unwrap();
                for (x, got) in x.iter().zip(&out) {
                    let exact = pointwise::activate(a, *x);
                    let distance = (got - exact).abs();
                    assert!(distance <= bound(a, *x, exact), "{} {a:?} {x}: {got} {exact}", cpu.isa());
                }
            }
        }
    });
}

/// Far from zero, where exponentials overflow or underflow, the results are those of f64, infinite where f64 exceeds
/// f32.
#[test]
fn extreme_values_match_f64() {
    const EXTREME: [f32; 10] = [-1e30, -1e15, -1000.0, -100.0, -0.0, 0.0, 100.0, 1000.0, 1e15, 1e30];
    each_cpu(|cpu| {
        for &a in Activation::ALL {
            let mut out = EXTREME;
            activate(cpu, a, &mut out).unwrap();
            for (x, got) in EXTREME.iter().zip(out) {
                let exact = pointwise::activate(a, *x);
                let near = (got - exact).abs() <= bound(a, *x, exact);
                assert!(got == exact || exact.is_finite() && near, "{} {a:?} {x}: {got} {exact}", cpu.isa());
            }
            let mut out = [f32::NAN];
            activate(cpu, a, &mut out).unwrap();
            assert!(out[0].is_nan(), "{} {a:?}", cpu.isa());
        }
    });
}

#[test]
fn gates_multiply() {
    each_cpu(|cpu| {
        for &a in Activation::ALL {
            for count in [3, 32, 500, 36_000] {
                let both = spread(2 * count);
                let (gate, up) = both.split_at(count);
                let mut one = vec![0.0; count];
                gated(cpu, Gating::Plain(a), gate, up, &mut one).unwrap();
                let mut alone = gate.to_vec();
                activate(cpu, a, &mut alone).unwrap();
                assert!((0..count).all(|i| one[i] == alone[i] * up[i]));
            }
        }
    });
}

#[test]
fn limited_gates_match_f64() {
    const LIMITED: [Gating; 3] = [
        Gating::LimitedBefore { limit: 2.5 },
        Gating::LimitedAfter { limit: 1.5 },
        Gating::SwigluOai { alpha: 1.702, limit: 7.0 },
    ];
    each_cpu(|cpu| {
        for gating in LIMITED {
            for count in [1, 16, 100, 36_001] {
                let (gate, up) = (spread(count), spread(2 * count)[count..].to_vec());
                let mut out = vec![0.0; count];
                gated(cpu, gating, &gate, &up, &mut out).unwrap();
                for (index, got) in out.iter().enumerate() {
                    let wanted = pointwise::gated(gating, gate[index], up[index]);
                    let bound = 4e-6 * wanted.abs() + 1e-9;
                    assert!((got - wanted).abs() <= bound, "{} {gating:?}: {got} {wanted}", cpu.isa());
                }
            }
            for (gate, up) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
                let mut out = [0.0];
                gated(cpu, gating, &[gate], &[up], &mut out).unwrap();
                assert!(out[0].is_nan(), "{} {gating:?}", cpu.isa());
            }
        }
    });
}

#[test]
fn caps_and_sigmoids() {
    each_cpu(|cpu| {
        let x: Vec<f32> = spread(1001).iter().map(|v| v * 20.0).chain([1e-4, -1e-6, 1e9, -1e9]).collect();
        let (mut wanted, mut got) = (x.clone(), x.clone());
        pointwise::softcap(30.0, &mut wanted);
        softcap(cpu, 30.0, &mut got).unwrap();
        for (got, wanted) in got.iter().zip(&wanted) {
            assert!((got - wanted).abs() <= 6e-7 * wanted.abs(), "{}: {got} {wanted}", cpu.isa());
        }
        let mut got = x.clone();
        sigmoid(cpu, &mut got).unwrap();
        for (got, x) in got.iter().zip(&x) {
            let wanted = (1.0 / (1.0 + (-f64::from(*x)).exp())) as f32;
            assert!((got - wanted).abs() <= 1e-6 * wanted + 1e-37, "{}: {got} {wanted}", cpu.isa());
        }
    });
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let x = &mut [0.0; 6];
    assert!(add(&cpu, x, &[0.0; 5]).is_err());
    assert!(add_bias(&cpu, x, &[0.0; 4]).is_err());
    assert!(add_bias(&cpu, x, &[]).is_err());
    assert!(scale_rows(&cpu, x, &[0.0; 2], 2).is_err());
    assert!(softcap(&cpu, 0.0, x).is_err());
    assert!(gated(&cpu, Gating::Plain(Activation::Silu), &[0.0; 6], &[0.0; 5], x).is_err());
}
