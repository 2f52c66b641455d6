//! Products and rows of every block type, exact and fast; refusals.

use crate::blocks::{types, weight};
use crate::{backend, expect, matrix, noise, one, product, rows};
use gguf_file::GgmlType;
use menagerie_model::{Arithmetic, Backend, LinearInput, ModelError, Param, Product, Weight, WeightBytes};
use std::sync::Arc;

fn plain(weight: &Param) -> Product<'_> {
    Product { weight, bias: None }
}

fn rms(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}

/// Largest difference, in parts of the outputs' RMS.
fn off(found: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let worst = found.iter().zip(wanted).map(|(f, w)| (f64::from(*f) - w).abs()).fold(0.0, f64::max);
    worst / rms(wanted)
}

#[test]
fn every_block_type_multiplies_and_is_looked_up() {
    const ROWS: usize = 48;
    const COLS: usize = 256;
    for block in types() {
        let (weight, values) = weight(11, block, one(ROWS, COLS));
        // Activations are rounded to 8 bits: 1.7e-2 at most when this was measured, except for the ternary type, all of
        // whose weights have the same magnitude (2.03e-2 on a processor with AVX2 alone).
        let fast = if block == GgmlType::TQ2_0 { 2.5e-2 } else { 2e-2 };
        for (arithmetic, tolerance) in [(Arithmetic::Exact, 1e-5), (Arithmetic::Fast, fast)] {
            let backend = backend();
            let param = backend.matrix(&weight, arithmetic).unwrap();
            assert_eq!(backend.values(&weight).unwrap(), values);
            for tokens in [1, 2, 11] {
                let (x, inputs) = rows(5, tokens, COLS);
                let made = backend.products(&[plain(&param)], &LinearInput::new(&x), arithmetic).unwrap();
                let found = off(&backend.read(&made[0]).unwrap(), &product(&values, &inputs, COLS));
                assert!(found <= tolerance, "{block} {arithmetic:?} {tokens}: {found:e} of the RMS");
            }
            let picked = backend.lookup(&param, &[47, 0, 47, 3]).unwrap();
            let row = |i: usize| &values[i * COLS..(i + 1) * COLS];
            let wanted: Vec<f64> = [47, 0, 47, 3].into_iter().flat_map(row).map(|x| f64::from(*x)).collect();
            let rounded = block == GgmlType::IQ4_XS
                || block.name().starts_with("IQ2")
                || block.name().starts_with("IQ3");
            let tolerance = if rounded && arithmetic == Arithmetic::Fast { 2f64.powi(-11) } else { 0.0 };
            expect(&picked, &wanted, COLS, tolerance);
        }
    }
}

#[test]
fn what_has_no_form_is_noted_with_what_it_became() {
    let notes_of = |block: GgmlType, cols: usize, arithmetic| {
        let backend = backend();
        backend.matrix(&weight(3, block, one(32, cols)).0, arithmetic).unwrap();
        backend.notes().join("\n")
    };
    let notes = |block, arithmetic| notes_of(block, 256, arithmetic);
    for block in [GgmlType::IQ4_NL, GgmlType::MXFP4, GgmlType::TQ1_0, GgmlType::TQ2_0] {
        let note = notes(block, Arithmetic::Fast);
        assert!(note.contains(block.name()) && note.contains("as Q8_0 with the same values"), "{note}");
    }
    for block in [GgmlType::IQ4_XS, GgmlType::IQ2_XXS, GgmlType::IQ3_S] {
        let note = notes(block, Arithmetic::Fast);
        assert!(note.contains(block.name()) && note.contains("dequantized to f16"), "{note}");
    }
    for block in [GgmlType::Q4_K, GgmlType::F16, GgmlType::BF16, GgmlType::F32] {
        assert_eq!(notes(block, Arithmetic::Fast), "");
    }
    assert_eq!(notes(GgmlType::IQ4_XS, Arithmetic::Exact), "");
    for block in [GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1] {
        let note = notes_of(block, 96, Arithmetic::Fast);
        assert!(note.contains(block.name()) && note.contains("odd number of its blocks"), "{note}");
        assert_eq!(notes(block, Arithmetic::Fast), "");
    }
    assert_eq!(notes_of(GgmlType::Q4_0, 96, Arithmetic::Fast), "");
}

/// candle's CPU products assert in debug builds that some types come in pairs of blocks.
#[test]
fn rows_of_one_and_of_three_blocks_multiply() {
    for block in types().filter(|block| block.block_len() == Some(32)) {
        for cols in [32, 96] {
            let backend = backend();
            let (weight, values) = weight(11, block, one(32, cols));
            let param = backend.matrix(&weight, Arithmetic::Fast).unwrap();
            let (x, inputs) = rows(5, 3, cols);
            let made = backend.products(&[plain(&param)], &LinearInput::new(&x), Arithmetic::Fast).unwrap();
            let found = off(&backend.read(&made[0]).unwrap(), &product(&values, &inputs, cols));
            assert!(found <= 2e-2, "{block} {cols}: {found:e} of the RMS");
        }
    }
}

/// A row range of a fused matrix is a separate weight.
#[test]
fn parts_of_a_fused_matrix_are_its_rows() {
    for block in [GgmlType::F32, GgmlType::F16, GgmlType::Q4_K, GgmlType::Q8_0] {
        let backend = backend();
        let (fused, values) = weight(7, block, one(64, 256));
        let (x, inputs) = rows(5, 3, 256);
        let part = backend.matrix(&fused.row_range(16..48).unwrap(), Arithmetic::Exact).unwrap();
        let made = backend.products(&[plain(&part)], &LinearInput::new(&x), Arithmetic::Exact).unwrap();
        expect(&made[0], &product(&values[16 * 256..48 * 256], &inputs, 256), 32, 1e-4);
    }
}

/// Activations of real models are larger than f16 can represent, and smaller.
#[test]
fn activations_outside_the_range_of_f16_go_through_f16_weights() {
    for block in [GgmlType::F16, GgmlType::BF16] {
        let backend = backend();
        let (weight, values) = weight(9, block, one(16, 64));
        let param = backend.matrix(&weight, Arithmetic::Fast).unwrap();
        for factor in [1e6, 1e-7, 0.0] {
            let inputs: Vec<f32> = noise(3, 4 * 64).iter().map(|x| x * factor).collect();
            let x = backend.upload(inputs.clone(), 64).unwrap();
            let made = backend.products(&[plain(&param)], &LinearInput::new(&x), Arithmetic::Fast).unwrap();
            let (found, wanted) = (backend.read(&made[0]).unwrap(), product(&values, &inputs, 64));
            assert!(found.iter().all(|y| y.is_finite()));
            let limit = 2e-2 * rms(&wanted);
            assert!(
                found.iter().zip(&wanted).all(|(f, w)| (f64::from(*f) - w).abs() <= limit),
                "{block} {factor}"
            );
        }
    }
}

#[test]
fn several_products_share_their_rows_and_have_biases() {
    let backend = backend();
    let (x, inputs) = rows(5, 4, 32);
    let ((a, a_values), (b, b_values)) = (matrix(1, one(6, 32)), matrix(2, one(9, 32)));
    let [a, b] = [a, b].map(|weight| backend.matrix(&weight, Arithmetic::Fast).unwrap());
    let bias = backend.vector("bias", noise(4, 9)).unwrap();
    let products = [plain(&a), Product { weight: &b, bias: Some(&bias) }];
    let made = backend.products(&products, &LinearInput::new(&x), Arithmetic::Fast).unwrap();
    expect(&made[0], &product(&a_values, &inputs, 32), 6, 1e-5);
    let biases = noise(4, 9);
    let wanted = product(&b_values, &inputs, 32);
    let wanted: Vec<f64> = wanted.iter().zip(biases.iter().cycle()).map(|(y, b)| y + f64::from(*b)).collect();
    expect(&made[1], &wanted, 9, 1e-5);
    let none = backend.select(&x, &[]).unwrap();
    let made = backend.products(&products, &LinearInput::new(&none), Arithmetic::Fast).unwrap();
    assert_eq!((made[1].rows(), made[1].cols()), (0, 9));
}

#[test]
fn what_does_not_fit_is_refused() {
    let backend = backend();
    let (x, _) = rows(5, 4, 33);
    let weight = matrix(1, one(6, 32)).0;
    let param = backend.matrix(&weight, Arithmetic::Fast).unwrap();
    let refused = backend.products(&[plain(&param)], &LinearInput::new(&x), Arithmetic::Fast);
    assert!(matches!(refused, Err(ModelError::Shape { .. })));
    assert!(matches!(
        backend.lookup(&param, &[1, 6]),
        Err(ModelError::TokenOutOfRange { id: 6, vocabulary: 6 })
    ));
    assert_eq!(backend.lookup(&param, &[]).unwrap().cols(), 32);

    let (x, _) = rows(5, 4, 32);
    let exact = backend.products(&[plain(&param)], &LinearInput::new(&x), Arithmetic::Exact);
    let error = exact.unwrap_err().to_string();
    assert!(error.contains("\"w\"") && error.contains("load the model with exact"), "{error}");
    let param = backend.matrix(&weight, Arithmetic::Exact).unwrap();
    assert!(backend.products(&[plain(&param)], &LinearInput::new(&x), Arithmetic::Fast).is_ok());
}

#[test]
fn a_type_without_dequantization_is_refused_and_named() {
    for block in [GgmlType::I32, GgmlType::Q8_K] {
        let bytes = vec![0; block.row_bytes(256).unwrap() as usize];
        let weight =
            Weight::new("blk.3.ffn_up.weight", WeightBytes::Owned(Arc::new(bytes)), block, one(1, 256));
        for arithmetic in [Arithmetic::Fast, Arithmetic::Exact] {
            let error = backend().matrix(weight.as_ref().unwrap(), arithmetic).unwrap_err().to_string();
            assert!(error.contains("blk.3.ffn_up.weight") && error.contains(block.name()), "{error}");
        }
    }
}

#[test]
fn rows_and_weights_of_another_device_are_refused() {
    let here = backend();
    let foreign = menagerie_model::Rows::new(Box::new(vec![0f32; 32]), 1, 32);
    let param = here.matrix(&matrix(1, one(6, 32)).0, Arithmetic::Fast).unwrap();
    let refused = here.products(&[plain(&param)], &LinearInput::new(&foreign), Arithmetic::Fast);
    assert!(matches!(refused, Err(ModelError::Unsupported(_))));
    let foreign = Param::new("w", one(6, 32), Arc::new(1u8));
    let refused = here.products(&[plain(&foreign)], &LinearInput::new(&rows(1, 1, 32).0), Arithmetic::Fast);
    assert!(matches!(refused, Err(ModelError::Unsupported(_))));
}
