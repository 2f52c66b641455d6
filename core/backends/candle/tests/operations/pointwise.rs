//! Element by element, norms, rope, rows in and out.

use crate::{backend, expect, noise, rows};
use menagerie_kernels_check::naive::pointwise::activate_f64;
use menagerie_model::{Activation, Backend, Gating, ModelError, RopePairs, Rotation, Rows};

const T: usize = 5;
const D: usize = 24;

fn map(x: &[f32], f: impl Fn(f64) -> f64) -> Vec<f64> {
    x.iter().map(|x| f(f64::from(*x))).collect()
}

fn zip(x: &[f32], y: &[f32], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    x.iter().zip(y.iter().cycle()).map(|(x, y)| f(f64::from(*x), f64::from(*y))).collect()
}

/// Wider than -1 to 1.
fn wide(seed: u64) -> (Rows, Vec<f32>) {
    let values: Vec<f32> = noise(seed, T * D).iter().map(|x| x * 8.0).collect();
    (backend().upload(values.clone(), D).unwrap(), values)
}

#[test]
fn activations_and_gates() {
    for &activation in Activation::ALL {
        let ((x, values), (up, ups)) = (wide(1), rows(2, T, D));
        expect(
            &backend().activate(x, activation).unwrap(),
            &map(&values, |x| activate_f64(activation, x)),
            D,
            1e-6,
        );
        let (gate, values) = wide(3);
        let wanted = zip(&values, &ups, |gate, up| activate_f64(activation, gate) * up);
        expect(&backend().gated(gate, &up, Gating::Plain(activation)).unwrap(), &wanted, D, 1e-6);
    }
}

#[test]
fn limited_gates() {
    let silu = |x: f64, alpha: f64| x / (1.0 + (-alpha * x).exp());
    let ((_, gates), (_, ups)) = (wide(3), wide(4));
    let alpha = f64::from(1.702f32);
    let before = zip(&gates, &ups, |gate, up| silu(gate.min(1.5), 1.0) * up.clamp(-1.5, 1.5));
    let after = zip(&gates, &ups, |gate, up| silu(gate, 1.0).min(1.5) * up.clamp(-1.5, 1.5));
    let oai = zip(&gates, &ups, |gate, up| silu(gate.min(3.0), alpha) * (up.clamp(-3.0, 3.0) + 1.0));
    for (gating, wanted) in [
        (Gating::LimitedBefore { limit: 1.5 }, before),
        (Gating::LimitedAfter { limit: 1.5 }, after),
        (Gating::SwigluOai { alpha: 1.702, limit: 3.0 }, oai),
    ] {
        let made = backend().gated(wide(3).0, &wide(4).0, gating).unwrap();
        expect(&made, &wanted, D, 1e-6);
    }
}

#[test]
fn sums_products_limits() {
    let backend = backend();
    let x = || wide(1).0;
    let ((_, a), (y, b)) = (wide(1), rows(2, T, D));
    expect(&backend.add(x(), &y).unwrap(), &zip(&a, &b, |x, y| x + y), D, 1e-6);
    expect(&backend.multiply(x(), &y).unwrap(), &zip(&a, &b, |x, y| x * y), D, 1e-6);
    let row = backend.vector("row", noise(5, D)).unwrap();
    let own = noise(5, D);
    expect(&backend.add_vector(x(), &row).unwrap(), &zip(&a, &own, |x, y| x + y), D, 1e-6);
    expect(&backend.multiply_vector(x(), &row).unwrap(), &zip(&a, &own, |x, y| x * y), D, 1e-6);
    expect(&backend.scale(x(), 0.37).unwrap(), &map(&a, |x| x * f64::from(0.37f32)), D, 1e-6);
    expect(&backend.scale(x(), 1.0).unwrap(), &map(&a, |x| x), D, 0.0);
    expect(&backend.clamp(x(), 0.5).unwrap(), &map(&a, |x| x.clamp(-0.5, 0.5)), D, 0.0);
    expect(&backend.softcap(x(), 3.0).unwrap(), &map(&a, |x| 3.0 * (x / 3.0).tanh()), D, 1e-6);
    let factors = noise(6, T);
    let wanted: Vec<f64> =
        a.iter().enumerate().map(|(i, x)| f64::from(*x) * f64::from(factors[i / D])).collect();
    expect(&backend.scale_rows(x(), &factors).unwrap(), &wanted, D, 1e-6);
    let (gate, gates) = rows(7, T, 1);
    for &activation in Activation::ALL {
        let factor = |i: usize| activate_f64(activation, f64::from(gates[i / D]));
        let wanted: Vec<f64> = a.iter().enumerate().map(|(i, x)| f64::from(*x) * factor(i)).collect();
        expect(&backend.gate_rows(x(), &gate, activation).unwrap(), &wanted, D, 1e-6);
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let backend = backend();
    let x = || wide(1).0;
    let narrow = || rows(2, T, D - 1).0;
    let short = backend.vector("row", noise(5, D - 1)).unwrap();
    let results = [
        backend.add(x(), &narrow()),
        backend.multiply(x(), &narrow()),
        backend.gated(x(), &narrow(), Gating::Plain(Activation::Silu)),
        backend.add_vector(x(), &short),
        backend.multiply_vector(x(), &short),
        backend.rms_norm(&x(), Some(&short), 1e-5),
        backend.layer_norm(&x(), None, Some(&short), 1e-5),
        backend.scale_rows(x(), &[1.0; T + 1]),
        backend.gate_rows(x(), &narrow(), Activation::Sigmoid),
        backend.columns(&x(), 3..D + 1),
        backend.select(&x(), &[0, T as u32]),
        backend.upload(vec![0.0; 7], 2),
    ];
    for (i, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(ModelError::Shape { .. })), "{i}");
    }
}

fn normed(x: &[f32], center: bool, eps: f32, weight: Option<&[f32]>, bias: Option<&[f32]>) -> Vec<f64> {
    let row = |row: &[f32]| {
        let mean = if center { row.iter().map(|x| f64::from(*x)).sum::<f64>() / D as f64 } else { 0.0 };
        let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / D as f64;
        let deviation = (variance + f64::from(eps)).sqrt();
        let value = |i: usize| {
            let scaled = (f64::from(row[i]) - mean) / deviation * weight.map_or(1.0, |w| f64::from(w[i]));
            scaled + bias.map_or(0.0, |b| f64::from(b[i]))
        };
        (0..D).map(value).collect::<Vec<_>>()
    };
    x.chunks_exact(D).flat_map(row).collect()
}

#[test]
fn norms() {
    let backend = backend();
    let (weight, bias) = (noise(8, D), noise(9, D));
    let (w, b) = (backend.vector("w", weight.clone()).unwrap(), backend.vector("b", bias.clone()).unwrap());
    for (seed, eps) in [(1, 1e-5), (2, 0.5)] {
        let (x, values) = wide(seed);
        let wanted = normed(&values, false, eps, Some(&weight), None);
        expect(&backend.rms_norm(&x, Some(&w), eps).unwrap(), &wanted, D, 1e-6);
        expect(&backend.rms_norm(&x, None, eps).unwrap(), &normed(&values, false, eps, None, None), D, 1e-6);
        for (weight, w) in [(None, None), (Some(&weight), Some(&w))] {
            for (bias, b) in [(None, None), (Some(&bias), Some(&b))] {
                let wanted = normed(&values, true, eps, weight.map(Vec::as_slice), bias.map(Vec::as_slice));
                expect(&backend.layer_norm(&x, w, b, eps).unwrap(), &wanted, D, 1e-6);
            }
        }
    }
}

/// A mean a thousand times the deviation: `E[x^2] - mean^2` in f32 would be off in the first digit.
#[test]
fn a_layer_norm_far_from_zero_keeps_its_digits() {
    let values: Vec<f32> = noise(1, T * D).iter().map(|x| x + 1000.0).collect();
    let x = backend().upload(values.clone(), D).unwrap();
    expect(
        &backend().layer_norm(&x, None, None, 1e-5).unwrap(),
        &normed(&values, true, 1e-5, None, None),
        D,
        1e-3,
    );
}

/// Heads as rows of their own are the same elements.
#[test]
fn heads_are_normed_as_rows() {
    let (x, values) = wide(4);
    let heads = x.reshape(T * 3, D / 3).unwrap();
    let norm = backend().rms_norm(&heads, None, 1e-6).unwrap().reshape(T, D).unwrap();
    let value = |i: usize| {
        let head = &values[i / 8 * 8..i / 8 * 8 + 8];
        let mean = head.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 8.0;
        f64::from(values[i]) / (mean + 1e-6).sqrt()
    };
    expect(&norm, &(0..T * D).map(value).collect::<Vec<_>>(), D, 1e-6);
}

fn rotated(x: &[f32], positions: &[u32], frequencies: &[&[f32]], pairs: RopePairs, dim: usize) -> Vec<f64> {
    let mut out: Vec<f64> = map(x, |x| x);
    for (t, row) in out.chunks_exact_mut(D).enumerate() {
        for head in row.chunks_exact_mut(dim) {
            let count = frequencies[t].len();
            for (j, frequency) in frequencies[t].iter().enumerate() {
                let (a, b) = match pairs {
                    RopePairs::Adjacent => (2 * j, 2 * j + 1),
                    RopePairs::Halves => (j, j + count),
                };
                let (sin, cos) = f64::from(positions[t] as f32 * frequency).sin_cos();
                let (x, y) = (head[a], head[b]);
                head[a] = 1.5 * (x * cos - y * sin);
                head[b] = 1.5 * (y * cos + x * sin);
            }
        }
    }
    out
}

#[test]
fn rotation_of_whole_and_partial_heads() {
    let (backend, positions) = (backend(), [0, 1, 7, 300, 40_000]);
    for (dim, count) in [(8, 4), (8, 3), (12, 2), (24, 12), (24, 1)] {
        let frequencies: Vec<f32> = (0..count).map(|j| 10_000f32.powf(-(j as f32) / count as f32)).collect();
        let slower: Vec<f32> = frequencies.iter().map(|f| f / 3.0).collect();
        for pairs in [RopePairs::Adjacent, RopePairs::Halves] {
            let table = |range: std::ops::Range<usize>, frequencies: &[f32]| {
                let made = backend.rope_table(&positions[range.clone()], frequencies, 1.5).unwrap();
                (range, made)
            };
            let (x, values) = rows(3, T, D);
            let tables = [table(0..T, &frequencies)];
            let wanted = rotated(&values, &positions, &[frequencies.as_slice(); T], pairs, dim);
            let turned = backend.rotate(x, Rotation { tables: &tables, pairs, head_dim: dim }).unwrap();
            expect(&turned, &wanted, D, 1e-5);

            let tables = [table(0..2, &frequencies), table(2..T, &slower)];
            let per_row = [&*frequencies, &*frequencies, &*slower, &*slower, &*slower];
            let wanted = rotated(&values, &positions, &per_row, pairs, dim);
            let x = rows(3, T, D).0;
            let turned = backend.rotate(x, Rotation { tables: &tables, pairs, head_dim: dim }).unwrap();
            expect(&turned, &wanted, D, 1e-5);
        }
    }
}

#[test]
fn tables_that_do_not_cover_the_rows_are_refused() {
    let backend = backend();
    let table =
        |rows: usize, count: usize| backend.rope_table(&vec![1; rows], &vec![0.1; count], 1.0).unwrap();
    let cases = [
        vec![(0..4, table(4, 4))],
        vec![(0..2, table(2, 4)), (3..5, table(2, 4))],
        vec![(0..5, table(4, 4))],
        vec![(0..2, table(2, 4)), (2..5, table(3, 3))],
        vec![(0..5, table(5, 5))],
        vec![],
    ];
    for (i, tables) in cases.iter().enumerate() {
        let rotation = Rotation { tables, pairs: RopePairs::Halves, head_dim: 8 };
        let refused = backend.rotate(rows(1, T, D).0, rotation);
        assert!(matches!(refused, Err(ModelError::Shape { .. })), "{i}");
    }
}

#[test]
fn rows_come_and_go() {
    let (backend, (x, values)) = (backend(), rows(1, T, D));
    assert_eq!(&*backend.read(&x).unwrap(), values.as_slice());
    assert_eq!(&*backend.read(&backend.copy(&x).unwrap()).unwrap(), values.as_slice());
    let picked = backend.select(&x, &[4, 0, 4]).unwrap();
    let wanted = [&values[4 * D..], &values[..D], &values[4 * D..]].concat();
    assert_eq!((picked.rows(), &*backend.read(&picked).unwrap()), (3, wanted.as_slice()));
    let reshaped = x.reshape(T * 2, D / 2).unwrap();
    let picked = backend.select(&reshaped, &[3]).unwrap();
    assert_eq!(&*backend.read(&picked).unwrap(), &values[3 * D / 2..2 * D]);
    let some = backend.columns(&rows(1, T, D).0, 2..7).unwrap();
    let wanted: Vec<f32> = values.chunks_exact(D).flat_map(|row| row[2..7].to_vec()).collect();
    assert_eq!((some.rows(), some.cols(), &*backend.read(&some).unwrap()), (T, 5, wanted.as_slice()));
}

/// A step in which no row requests logits ends in operations over no rows.
#[test]
fn no_rows_stay_no_rows() {
    let (backend, (x, _)) = (backend(), rows(1, T, D));
    let none = || backend.select(&x, &[]).unwrap();
    let row = backend.vector("row", noise(2, D)).unwrap();
    let made = [
        none(),
        backend.copy(&none()).unwrap(),
        backend.rms_norm(&none(), Some(&row), 1e-5).unwrap(),
        backend.layer_norm(&none(), Some(&row), None, 1e-5).unwrap(),
        backend.add(none(), &none()).unwrap(),
        backend.add_vector(none(), &row).unwrap(),
        backend.softcap(none(), 2.0).unwrap(),
        backend.scale(none(), 2.0).unwrap(),
        backend.select(&none(), &[]).unwrap(),
        backend.upload(Vec::new(), D).unwrap(),
    ];
    for (i, rows) in made.iter().enumerate() {
        assert_eq!((rows.rows(), rows.cols(), backend.read(rows).unwrap().len()), (0, D, 0), "{i}");
    }
}
