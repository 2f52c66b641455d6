//! How much encoding costs, type by type, against ggml's own quantization of the same weights.
#![allow(missing_docs, clippy::unwrap_used)] // a test fails by panicking

use gguf_file::GgmlType;
use menagerie_kernels::{BlockType, Cpu, Isa, dequantize};
use menagerie_quantize::Encoder;

const ROWS: usize = 8;
const COLS: usize = 1024;

/// Root of the mean square error over that of the weights, without and with importance, of `ggml_quantize_chunk` of
/// llama.cpp's `libggml-base.so` of October 2025, as `tests/reference/quantize_errors.py` prints them.
const GGML: [(GgmlType, Option<f64>, f64); 23] = [
    (GgmlType::Q4_0, Some(0.09348), 0.08083),
    (GgmlType::Q4_1, Some(0.08667), 0.06628),
    (GgmlType::Q5_0, Some(0.04696), 0.04195),
    (GgmlType::Q5_1, Some(0.04218), 0.03298),
    (GgmlType::Q8_0, Some(0.00611), 0.00609),
    (GgmlType::Q2_K, Some(0.33037), 0.22333),
    (GgmlType::Q3_K, Some(0.15778), 0.12937),
    (GgmlType::Q4_K, Some(0.07896), 0.06770),
    (GgmlType::Q5_K, Some(0.03993), 0.03587),
    (GgmlType::Q6_K, Some(0.01966), 0.01751),
    (GgmlType::IQ2_XXS, None, 0.30572),
    (GgmlType::IQ2_XS, None, 0.27174),
    (GgmlType::IQ3_XXS, Some(0.25556), 0.14970),
    (GgmlType::IQ1_S, None, 0.42794),
    (GgmlType::IQ4_NL, Some(0.08105), 0.07280),
    (GgmlType::IQ3_S, Some(0.20157), 0.12603),
    (GgmlType::IQ2_S, Some(0.32905), 0.25393),
    (GgmlType::IQ4_XS, Some(0.08166), 0.07369),
    (GgmlType::IQ1_M, Some(0.56013), 0.35097),
    (GgmlType::TQ1_0, Some(0.77021), 0.77655),
    (GgmlType::TQ2_0, Some(0.77021), 0.77655),
    (GgmlType::MXFP4, Some(0.12065), 0.12010),
    (GgmlType::NVFP4, Some(0.09463), 0.09589),
];

fn splitmix(i: u64) -> u64 {
    let z = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The weights of the script: about normal, then with heavy tails.
fn weights() -> Vec<f32> {
    let value = |i: usize| {
        let z = splitmix(i as u64);
        let total: u64 = [0, 16, 32, 48].iter().map(|shift| z >> shift & 0xffff).sum();
        let value = (total as f32 - 131_070.0) / 65536.0;
        if i < ROWS * COLS / 2 { value } else { value * value.abs() }
    };
    (0..ROWS * COLS).map(value).collect()
}

fn importance() -> Vec<f32> {
    (0..COLS).map(|i| 2f32.powi((splitmix(1_000_000 + i as u64) % 8) as i32 - 4)).collect()
}

fn encoded(kind: GgmlType, cpu: &Cpu, values: &[f32], cols: usize, importance: Option<&[f32]>) -> Vec<u8> {
    let encoder = Encoder::new(kind, cpu).unwrap();
    let mut out = vec![0xaa; encoder.bytes(values.len() / cols, cols).unwrap()];
    encoder.encode(values, cols, importance, &mut out).unwrap();
    out
}

fn decoded(kind: GgmlType, bytes: &[u8], count: usize) -> Vec<f32> {
    let mut out = vec![0.0; count];
    dequantize(BlockType::from_ggml_id(kind.id()).unwrap(), bytes, &mut out).unwrap();
    out
}

/// Relative to the weights, columns counted by importance.
fn error(values: &[f32], found: &[f32], importance: Option<&[f32]>) -> f64 {
    let (mut off, mut all) = (0.0, 0.0);
    for (i, (x, y)) in values.iter().zip(found).enumerate() {
        let weight = importance.map_or(1.0, |w| f64::from(w[i % COLS]));
        off += weight * (f64::from(*x) - f64::from(*y)).powi(2);
        all += weight * f64::from(*x).powi(2);
    }
    (off / all).sqrt()
}

fn one_thread() -> Cpu {
    Cpu::new(Some(1)).unwrap()
}

#[test]
fn no_type_errs_more_than_ggml_does() {
    let (cpu, values, importance) = (one_thread(), weights(), importance());
    let mut worse = Vec::new();
    for (kind, plain, weighted) in GGML {
        for (theirs, importance) in [(plain, None), (Some(weighted), Some(importance.as_slice()))] {
            let Some(theirs) = theirs else { continue };
            let bytes = encoded(kind, &cpu, &values, COLS, importance);
            let ours = error(&values, &decoded(kind, &bytes, values.len()), importance);
            let with = if importance.is_some() { "with" } else { "without" };
            println!("{kind} {with} importance: {ours:.5}, ggml {theirs:.5}, {:.3}", ours / theirs);
            // The last digit of what is written down.
            if ours > theirs + 0.000_005 {
                worse.push(format!("{kind} {with} importance: {ours:.5}, ggml has {theirs:.5}"));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}

#[test]
fn floats_are_rounded_to_nearest() {
    let (cpu, values) = (one_thread(), weights());
    assert_eq!(
        decoded(GgmlType::F32, &encoded(GgmlType::F32, &cpu, &values, COLS, None), values.len()),
        values
    );
    for (kind, bits) in [(GgmlType::F16, 11), (GgmlType::BF16, 8)] {
        let found = decoded(kind, &encoded(kind, &cpu, &values, COLS, None), values.len());
        for (x, y) in values.iter().zip(&found) {
            // Half of the last place; what is below the normal numbers of F16 has steps of 2^-24.
            assert!((x - y).abs() <= (x.abs() * 0.5f32.powi(bits)).max(0.5f32.powi(25)), "{kind}: {x} {y}");
        }
    }
}

#[test]
fn importance_moves_the_error_to_columns_that_matter_less() {
    let (cpu, values) = (one_thread(), weights());
    // The first half of every sixteen columns matters a hundred times as much.
    let importance: Vec<f32> = (0..COLS).map(|i| if i % 16 < 8 { 100.0 } else { 1.0 }).collect();
    let halves = |found: &[f32]| {
        let mut off = [0.0; 2];
        for (i, (x, y)) in values.iter().zip(found).enumerate() {
            off[i % 16 / 8] += f64::from(x - y).powi(2);
        }
        off
    };
    for (kind, plain, _) in GGML {
        // One scale for 256 values, or the largest of 32: there is nothing to move, or hardly.
        if plain.is_none()
            || [GgmlType::Q8_0, GgmlType::MXFP4, GgmlType::TQ1_0, GgmlType::TQ2_0].contains(&kind)
        {
            continue;
        }
        let without = halves(&decoded(kind, &encoded(kind, &cpu, &values, COLS, None), values.len()));
        let with =
            halves(&decoded(kind, &encoded(kind, &cpu, &values, COLS, Some(&importance)), values.len()));
        assert!(with[0] < without[0] && with[1] > without[1], "{kind}: {without:?} {with:?}");
    }
}

#[test]
fn every_instruction_set_and_number_of_threads_writes_the_same_bytes() {
    let (values, importance) = (weights(), importance());
    for kind in Encoder::kinds() {
        let first =
            encoded(kind, &Cpu::with_isa(Some(1), Isa::Portable).unwrap(), &values, COLS, Some(&importance));
        for isa in Isa::available() {
            for threads in [1, 3] {
                let cpu = Cpu::with_isa(Some(threads), isa).unwrap();
                let bytes = encoded(kind, &cpu, &values, COLS, Some(&importance));
                assert!(bytes == first, "{kind}, {isa}, {threads} threads");
            }
        }
    }
}

#[test]
fn rows_do_not_know_of_each_other() {
    let (cpu, values) = (one_thread(), weights());
    let importance = importance();
    for kind in Encoder::kinds() {
        let encoder = Encoder::new(kind, &cpu).unwrap();
        // Rows of 768 end in the middle of what is encoded at once.
        let (cols, weights) = (768, &values[..768 * 4]);
        let together = encoded(kind, &cpu, weights, cols, Some(&importance[..cols]));
        let row = encoder.bytes(1, cols).unwrap();
        for (n, values) in weights.chunks_exact(cols).enumerate() {
            let alone = encoded(kind, &cpu, values, cols, Some(&importance[..cols]));
            assert!(alone == together[n * row..][..row], "{kind}, row {n}");
        }
    }
}

#[test]
fn what_was_decoded_is_encoded_as_it_was() {
    let (cpu, values) = (one_thread(), weights());
    for (kind, tolerance) in [
        (GgmlType::F16, 0.0),
        (GgmlType::BF16, 0.0),
        (GgmlType::Q8_0, 0.0),
        (GgmlType::MXFP4, 0.0),
        (GgmlType::NVFP4, 0.0),
        (GgmlType::TQ1_0, 0.0),
        (GgmlType::TQ2_0, 0.0),
        (GgmlType::IQ4_NL, 0.0),
        (GgmlType::Q4_0, 0.0),
        (GgmlType::Q5_0, 0.0),
    ] {
        let once = decoded(kind, &encoded(kind, &cpu, &values, COLS, None), values.len());
        let twice = decoded(kind, &encoded(kind, &cpu, &once, COLS, None), values.len());
        let off = error(&once, &twice, None);
        assert!(off <= tolerance, "{kind}: {off}");
    }
}

#[test]
fn ternary_weights_are_kept_bit_for_bit() {
    let values: Vec<f32> = (0..512).map(|i| [-0.0625, 0.0, 0.0625][splitmix(i) as usize % 3]).collect();
    for kind in [GgmlType::TQ1_0, GgmlType::TQ2_0, GgmlType::MXFP4, GgmlType::Q4_0, GgmlType::Q4_K] {
        let found = decoded(kind, &encoded(kind, &one_thread(), &values, 256, None), 512);
        if [GgmlType::Q4_0, GgmlType::Q4_K].contains(&kind) {
            // Their scales are a seventh or a fifteenth of the weights, in f16.
            assert!(error(&values, &found, None) < 2e-3, "{kind}");
        } else {
            assert_eq!(found, values, "{kind}");
        }
    }
}

/// Zero weights count for nothing, and where nothing counts everything counts the same.
#[test]
fn importance_of_zero_is_as_none() {
    let (cpu, values) = (one_thread(), weights());
    let zeros = vec![0.0; COLS];
    for kind in Encoder::kinds() {
        let with = encoded(kind, &cpu, &values, COLS, Some(&zeros));
        let found = decoded(kind, &with, values.len());
        assert!(error(&values, &found, None) < 0.9, "{kind}");
        if !Encoder::new(kind, &cpu).unwrap().needs_importance() {
            assert!(with == encoded(kind, &cpu, &values, COLS, None), "{kind}");
        }
    }
}
