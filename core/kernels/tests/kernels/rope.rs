//! Rotation against the pairwise f64 form.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;

#[test]
fn both_pairings_match_on_odd_sizes() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for (rows, heads, head_dim, pairs) in [
            (1, 1, 2, 1),
            (3, 2, 8, 3),
            (2, 3, 64, 32),
            (5, 2, 80, 16),
            (4, 3, 96, 48),
            (1, 2, 50, 25),
            (150, 4, 128, 64),
        ] {
            let inv_freq: Vec<f32> = (0..pairs).map(|i| 10_000f32.powf(-(i as f32) / pairs as f32)).collect();
            let positions: Vec<u32> = (0..rows as u32).map(|i| i * 977 + 3).collect();
            let x: Vec<f32> = (0..rows * heads * head_dim).map(|i| (i * 31 % 17) as f32 - 8.0).collect();
            for pairs in [RopePairs::Adjacent, RopePairs::Halves] {
                let turn = Rope { pairs, inv_freq: &inv_freq, magnitude: 1.25, head_dim };
                let (mut wanted, mut got) = (x.clone(), x.clone());
                naive::rope::rope(&turn, &positions, &mut wanted);
                rope(&cpu, &turn, &positions, &mut got).unwrap();
                for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                    assert!((got - wanted).abs() <= 3e-6, "{isa} {pairs:?} {head_dim} {i}: {got} {wanted}");
                }
            }
        }
    }
}

#[test]
fn a_quarter_turn_is_exact_enough_and_the_rest_of_the_head_stays() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let turn = Rope {
        pairs: RopePairs::Halves,
        inv_freq: &[std::f32::consts::FRAC_PI_2],
        magnitude: 1.0,
        head_dim: 4,
    };
    let mut x = [1.0, 2.0, 7.0, 8.0];
    rope(&cpu, &turn, &[1], &mut x).unwrap();
    assert!((x[0] + 2.0).abs() < 1e-6 && (x[1] - 1.0).abs() < 1e-6, "{x:?}");
    assert_eq!(x[2..], [7.0, 8.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let turn = Rope { pairs: RopePairs::Adjacent, inv_freq: &[1.0; 3], magnitude: 1.0, head_dim: 4 };
    assert!(rope(&cpu, &turn, &[0], &mut [0.0; 4]).is_err());
    let turn = Rope { inv_freq: &[1.0; 2], ..turn };
    assert!(rope(&cpu, &turn, &[0, 1], &mut [0.0; 12]).is_err());
    assert!(rope(&cpu, &turn, &[0, 1, 2], &mut [0.0; 8]).is_err());
    assert!(rope(&cpu, &turn, &[], &mut []).is_ok());
}
