//! Softmax against f64 on odd widths.

use menagerie_kernels::*;
use menagerie_kernels_check::naive::pointwise;

#[test]
fn rows_of_odd_widths_match_f64_on_every_instruction_set() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for width in [1, 2, 15, 16, 17, 64, 100, 1031] {
            let mut x: Vec<f32> =
                (0..width * 40).map(|i| ((i * 7919 % 1009) as f32 - 500.0) * 0.05).collect();
            x[0] = f32::NEG_INFINITY;
            x[width - 1] = 3.0;
            let mut wanted = x.clone();
            pointwise::softmax_rows(&mut wanted, width);
            softmax_rows(&cpu, &mut x, width).unwrap();
            for (i, (got, wanted)) in x.iter().zip(&wanted).enumerate() {
                assert!((got - wanted).abs() <= 1e-6 * wanted + 1e-30, "{isa} {width} {i}: {got} {wanted}");
            }
        }
    }
}

#[test]
fn broken_rows_are_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    assert!(softmax_rows(&cpu, &mut [1.0; 7], 3).is_err());
    assert!(softmax_rows(&cpu, &mut [1.0; 7], 0).is_err());
}
