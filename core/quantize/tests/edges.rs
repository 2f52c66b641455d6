//! Weights that are odd, and what is refused.
#![allow(missing_docs, clippy::unwrap_used)] // a test fails by panicking

use gguf_file::GgmlType;
use menagerie_kernels::{BlockType, Cpu, dequantize};
use menagerie_quantize::{Encoder, QuantizeError};
use proptest::prelude::*;

fn cpu() -> Cpu {
    Cpu::new(Some(1)).unwrap()
}

fn encode(kind: GgmlType, values: &[f32], importance: Option<&[f32]>) -> Result<Vec<u8>, QuantizeError> {
    let encoder = Encoder::new(kind, &cpu())?;
    let mut out = vec![0xaa; encoder.bytes(1, values.len())?];
    encoder.encode(values, values.len(), importance, &mut out)?;
    Ok(out)
}

fn there_and_back(kind: GgmlType, values: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let flat = vec![1.0; values.len()];
    let needed = Encoder::new(kind, &cpu()).unwrap().needs_importance().then_some(flat.as_slice());
    let bytes = encode(kind, values, importance.or(needed)).unwrap();
    let mut out = vec![0.0; values.len()];
    dequantize(BlockType::from_ggml_id(kind.id()).unwrap(), &bytes, &mut out).unwrap();
    out
}

fn square(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|v| f64::from(v).powi(2)).sum()
}

fn off(values: &[f32], found: &[f32]) -> f64 {
    square(values.iter().zip(found).map(|(x, y)| x - y)).sqrt()
}

#[test]
fn zeros_stay_zeros() {
    for kind in Encoder::kinds() {
        for zero in [0.0, -0.0] {
            assert!(there_and_back(kind, &[zero; 512], None).iter().all(|v| *v == 0.0), "{kind}");
        }
    }
}

#[test]
fn a_constant_is_kept() {
    for kind in Encoder::kinds() {
        // To a step of the scale: three bits of mantissa in NVFP4, powers of two in MXFP4 (ggml's: the same), else f16.
        let worst = match kind {
            GgmlType::NVFP4 => 0.041,
            GgmlType::MXFP4 => 0.15,
            _ => 0.01,
        };
        for value in [1.0f32, -0.75, 0.25, 300.0] {
            let values = [value; 512];
            let found = there_and_back(kind, &values, None);
            let relative = off(&values, &found) / square(values.into_iter()).sqrt();
            assert!(relative < worst, "{kind} {value}: {relative}");
        }
    }
}

#[test]
fn one_outlier_does_not_take_its_block_along() {
    for kind in Encoder::kinds() {
        let mut values: Vec<f32> = (0..512).map(|i| ((i * 37 % 101) as f32 - 50.0) / 500.0).collect();
        values[300] = 60.0;
        let found = there_and_back(kind, &values, None);
        assert!(found.iter().all(|v| v.is_finite()), "{kind}");
        // Books have no zero: the outlier pulls its neighbors along, in IQ2_XXS to 0.948 (ggml's encoder: 1.069).
        let relative = off(&values, &found) / square(values.iter().copied()).sqrt();
        assert!(relative < 0.96, "{kind}: {relative}");
        let quiet = off(&values[..256], &found[..256]) / square(values[..256].iter().copied()).sqrt();
        assert!(quiet < 0.6, "{kind}: {quiet}");
    }
}

#[test]
fn very_small_and_very_large_weights_stay_finite() {
    for kind in Encoder::kinds() {
        for scale in
            [f32::MIN_POSITIVE / 8.0, f32::MIN_POSITIVE, 1e-30, 1e-12, 1e-8, 1e-6, 2600.0, 65504.0, 1e30]
        {
            let values: Vec<f32> = (0..256).map(|i| scale * ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
            let largest = values.iter().fold(0f32, |a, v| a.max(v.abs()));
            match encode(kind, &values, Some(&[1.0; 256])) {
                Err(QuantizeError::TooLarge { largest: most, .. }) => {
                    assert!(largest > most, "{kind} {scale}")
                }
                Err(error) => panic!("{kind} {scale}: {error}"),
                Ok(_) => {
                    let found = there_and_back(kind, &values, Some(&[1.0; 256]));
                    assert!(found.iter().all(|v| v.is_finite()), "{kind} {scale}");
                    // Scales of f16 end near 6e-8: below, weights become zeros, never more than they were.
                    let [off, all] = [off(&values, &found), square(values.iter().copied()).sqrt()];
                    assert!(off <= 1.05 * all + 1e-6, "{kind} {scale}: {off} of {all}");
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_is_refused_by_row_and_column() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for kind in Encoder::kinds() {
            let encoder = Encoder::new(kind, &cpu()).unwrap();
            let mut values = vec![0.5; 4 * 256];
            values[2 * 256 + 17] = bad;
            values[3 * 256] = bad;
            let mut out = vec![0; encoder.bytes(4, 256).unwrap()];
            let error = encoder.encode(&values, 256, Some(&[1.0; 256]), &mut out).unwrap_err();
            assert!(matches!(error, QuantizeError::NotFinite { row: 2, column: 17, .. }), "{kind}: {error}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let encoder = Encoder::new(GgmlType::Q4_K, &cpu()).unwrap();
    assert!(matches!(encoder.bytes(3, 300), Err(QuantizeError::Blocks { cols: 300, block: 256, .. })));
    let mut out = vec![0; 144];
    let refused = |values: &[f32], cols, importance: Option<&[f32]>, out: &mut [u8]| {
        encoder.encode(values, cols, importance, out).unwrap_err().to_string()
    };
    assert_eq!(refused(&[0.0; 257], 256, None, &mut out), "values: expected whole rows of 256, found 257");
    assert_eq!(refused(&[0.0; 256], 0, None, &mut out), "values: expected whole rows of 0, found 256");
    assert_eq!(refused(&[0.0; 512], 256, None, &mut out), "output: expected 288 bytes, found 144");
    let short = refused(&[0.0; 256], 256, Some(&[1.0; 255]), &mut out);
    assert_eq!(short, "importance: expected one for each of 256 columns, found 255");
    for bad in [-1.0, f32::NAN, f32::INFINITY] {
        let mut importance = [1.0; 256];
        importance[9] = bad;
        assert!(refused(&[0.0; 256], 256, Some(&importance), &mut out).contains("column 9"));
    }
    let large = refused(&[70000.0; 256], 256, None, &mut out);
    assert!(large.contains("70000") && large.contains("65504"), "{large}");
    assert!(encode(GgmlType::BF16, &[1e38; 32], None).is_ok());
}

#[test]
fn types_without_an_encoder_and_types_that_need_importance_say_so() {
    for kind in [GgmlType::Q8_K, GgmlType::Q8_1, GgmlType::I32, GgmlType::F64, GgmlType::from_id(31)] {
        let error = Encoder::new(kind, &cpu()).unwrap_err().to_string();
        assert!(error.contains("Q4_K, Q5_K"), "{error}");
    }
    let needing: Vec<_> =
        Encoder::kinds().filter(|kind| Encoder::new(*kind, &cpu()).unwrap().needs_importance()).collect();
    assert_eq!(needing, [GgmlType::IQ2_XXS, GgmlType::IQ2_XS, GgmlType::IQ1_S]);
    for kind in needing {
        let error = encode(kind, &[0.5; 256], None).unwrap_err().to_string();
        assert!(error.contains(kind.name()) && error.contains("imatrix"), "{error}");
    }
}

/// Weights of all magnitudes and signs, many of them zero or equal.
fn odd_weight() -> impl Strategy<Value = f32> {
    prop_oneof![
        3 => -1.0f32..1.0,
        1 => Just(0.0),
        1 => Just(1.0),
        1 => -2000.0f32..2000.0,
        1 => (-60i32..11, any::<bool>()).prop_map(|(n, minus)| if minus { -(2f32.powi(n)) } else { 2f32.powi(n) }),
    ]
}

/// Importance likewise.
fn odd_importance() -> impl Strategy<Value = f32> {
    prop_oneof![2 => 0.0f32..1.0, 1 => Just(0.0), 1 => (-100i32..100).prop_map(|n| 2f32.powi(n))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever comes, blocks are numbers, and no worse than writing nothing at all.
    #[test]
    fn odd_weights_become_sound_blocks(
        values in proptest::collection::vec(odd_weight(), 256),
        importance in proptest::collection::vec(odd_importance(), 256),
    ) {
        for kind in Encoder::kinds() {
            let plain = there_and_back(kind, &values, None);
            prop_assert!(plain.iter().all(|v| v.is_finite()), "{kind}");
            let [off, all] = [off(&values, &plain), square(values.iter().copied()).sqrt()];
            prop_assert!(off <= 1.02 * all + 1e-6, "{kind}: {off} of {all}");
            let weighted = there_and_back(kind, &values, Some(&importance));
            prop_assert!(weighted.iter().all(|v| v.is_finite()), "{kind}");
        }
    }
}
