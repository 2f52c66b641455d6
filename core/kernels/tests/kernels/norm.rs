//! Norms against f64 on odd widths, every instruction set, one and several threads.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;

fn noise(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 * 0.01 - 9.7).collect()
}

fn assert_near(got: &[f32], wanted: &[f32], what: &str) {
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        assert!((got - wanted).abs() <= 2e-6 * (1.0 + wanted.abs()), "{what} at {i}: {got} {wanted}");
    }
}

#[test]
fn rms_norm_matches_f64() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for (rows, width) in [(1, 1), (3, 7), (2, 16), (1, 63), (5, 64), (2, 65), (1, 576), (40, 2049)] {
            let (x, weight) = (noise(rows * width, 1), noise(width, 2));
            for weight in [None, Some(weight.as_slice())] {
                let (mut wanted, mut got) = (vec![0.0; x.len()], vec![0.0; x.len()]);
                naive::norm::rms_norm(&x, weight, 1e-5, width, &mut wanted);
                rms_norm(&cpu, &x, weight, 1e-5, width, &mut got).unwrap();
                assert_near(&got, &wanted, &format!("{isa} {rows}x{width}"));
            }
        }
    }
}

#[test]
fn layer_norm_matches_f64_and_keeps_its_digits_far_from_zero() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for (rows, width) in [(1, 2), (3, 7), (2, 16), (1, 65), (5, 100), (40, 2050)] {
            let x: Vec<f32> = noise(rows * width, 3).iter().map(|v| v + 50.0).collect();
            let (weight, bias) = (noise(width, 4), noise(width, 5));
            for (weight, bias) in
                [(None, None), (Some(weight.as_slice()), None), (Some(&weight), Some(&bias))]
            {
                let bias = bias.map(Vec::as_slice);
                let (mut wanted, mut got) = (vec![0.0; x.len()], vec![0.0; x.len()]);
                naive::norm::layer_norm(&x, weight, bias, 1e-5, width, &mut wanted);
                layer_norm(&cpu, &LayerNorm { weight, bias, eps: 1e-5 }, &x, width, &mut got).unwrap();
                for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                    // The input itself carries 4e-6 of rounding at 50.
                    assert!(
                        (got - wanted).abs() <= 2e-5 * (1.0 + wanted.abs()),
                        "{isa} {width} {i}: {got} {wanted}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_row_does_not_depend_on_threads_or_other_rows() {
    let (width, rows) = (577, 120);
    let (x, weight) = (noise(rows * width, 6), noise(width, 7));
    let mut all = vec![0.0; x.len()];
    rms_norm(&Cpu::new(Some(3)).unwrap(), &x, Some(&weight), 1e-6, width, &mut all).unwrap();
    let mut one = vec![0.0; width];
    for row in [0, 57, 119] {
        let range = row * width..(row + 1) * width;
        rms_norm(&Cpu::new(Some(1)).unwrap(), &x[range.clone()], Some(&weight), 1e-6, width, &mut one)
            .unwrap();
        assert_eq!(one, all[range]);
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let mut out = [0.0; 6];
    assert!(rms_norm(&cpu, &[1.0; 6], Some(&[1.0; 2]), 1e-5, 3, &mut out).is_err());
    assert!(rms_norm(&cpu, &[1.0; 5], None, 1e-5, 3, &mut out).is_err());
    assert!(rms_norm(&cpu, &[1.0; 6], None, 1e-5, 0, &mut out).is_err());
    let norm = LayerNorm { weight: None, bias: Some(&[1.0; 4]), eps: 1e-5 };
    assert!(layer_norm(&cpu, &norm, &[1.0; 6], 3, &mut out).is_err());
}
