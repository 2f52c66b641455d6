//! The 8-bit forms against their definition.

use super::*;
use crate::Isa;

fn values(n: usize) -> Vec<f32> {
    let mut state = 7u32;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}

#[test]
fn rounding_is_nearest_per_group_and_sums_agree_on_every_isa() {
    let (rows, cols) = (11, 288);
    let x = values(rows * cols);
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for (rounding, group) in [(Rounding::Q8_0, 32), (Rounding::Q8_K, 256)] {
            let cache = ActivationCache::default();
            let a = Activations::new(&x, rows, cols, &cache).unwrap();
            let quantized = a.quantized(&cpu, rounding).unwrap();
            for row in 0..rows {
                for (at, &v) in a.row(row).iter().enumerate() {
                    let start = at / group * group;
                    let members = &a.row(row)[start..(start + group).min(cols)];
                    let d = members.iter().fold(0f32, |m, v| m.max(v.abs())) / 127.0;
                    let meta = quantized.meta(at / 256, row);
                    assert_eq!(meta.d[at % 256 / 32], d);
                    let q = quantized.values(at / 256, row)[at % 256];
                    assert!((f32::from(q) * d - v).abs() <= d * 0.5001, "{q} {d} {v}");
                }
                for panel in 0..2 {
                    let (q, meta) = (quantized.values(panel, row), quantized.meta(panel, row));
                    for (g, sixteen) in q.as_chunks::<16>().0.iter().enumerate() {
                        let sum: i32 = sixteen.iter().map(|&v| i32::from(v)).sum();
                        assert_eq!((i32::from(meta.sum16[g]), meta.neg16[g]), (sum, -128 * sum));
                    }
                }
            }
        }
    }
}

#[test]
fn zeros_stay_zero_and_nan_is_not_hidden() {
    let cpu = Cpu::with_isa(Some(1), Isa::detect()).unwrap();
    let mut x = vec![0f32; 64];
    x[40] = f32::NAN;
    let cache = ActivationCache::default();
    let a = Activations::new(&x, 1, 64, &cache).unwrap();
    let quantized = a.quantized(&cpu, Rounding::Q8_0).unwrap();
    assert_eq!(quantized.meta(0, 0).d[0], 0.0);
    assert!(quantized.meta(0, 0).d[1].is_nan());
    assert!(quantized.values(0, 0)[..32].iter().all(|&q| q == 0));
}

#[test]
fn a_cache_of_another_shape_is_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let (x, cache) = (values(128), ActivationCache::default());
    Activations::new(&x, 2, 64, &cache).unwrap().quantized(&cpu, Rounding::Q8_0).unwrap();
    let other = Activations::new(&x, 4, 32, &cache).unwrap();
    assert!(other.quantized(&cpu, Rounding::Q8_0).is_err());
    assert!(Activations::new(&x, 3, 64, &cache).is_err());
}

#[test]
fn every_isa_rounds_to_the_same_numbers() {
    let (rows, cols) = (3, 608);
    let mut x = values(rows * cols);
    x[5] = 0.0;
    x[300..340].fill(0.0);
    for rounding in [Rounding::Q8_0, Rounding::Q8_K] {
        let caches: Vec<_> =
            Isa::available().into_iter().map(|isa| (isa, ActivationCache::default())).collect();
        let forms: Vec<_> = caches
            .iter()
            .map(|(isa, cache)| {
                let cpu = Cpu::with_isa(Some(1), *isa).unwrap();
                Activations::new(&x, rows, cols, cache).unwrap().quantized(&cpu, rounding).unwrap()
            })
            .collect();
        for form in &forms[1..] {
            for row in 0..rows {
                for panel in 0..3 {
                    assert_eq!(form.values(panel, row), forms[0].values(panel, row));
                    let (a, b) = (form.meta(panel, row), forms[0].meta(panel, row));
                    assert_eq!((a.d, a.dsum, a.sum16, a.sum32), (b.d, b.dsum, b.sum16, b.sum32));
                    assert_eq!((a.neg16, a.neg32), (b.neg16, b.neg32));
                }
            }
        }
    }
}
