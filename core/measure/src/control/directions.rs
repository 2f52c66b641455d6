//! One direction from many differences, as in llama.cpp's `cvector-generator`.

use menagerie_engine::Generator;

/// The method that computes a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectionMethod {
    /// The direction in which the differences are largest: the first right singular vector of their matrix, without
    /// centering.
    #[default]
    Pca,
    /// The mean of the differences.
    Mean,
}

/// The most steps of the power iteration.
const STEPS: usize = 10_000;
/// The iteration ends when a step moves the unit vector by less than this.
const STILL: f64 = 1e-10;

/// The mean of rows `[n, width]` as a unit vector; `None` if it is zero.
pub(super) fn mean(rows: &[f32], width: usize) -> Option<Vec<f32>> {
    let mut sums = vec![0.0f64; width];
    for row in rows.chunks_exact(width) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    unit(&mut sums).then(|| narrow(&sums))
}

/// The first right singular vector of rows `[n, width]`, with the sign of the sum of the rows; `None` if all rows are
/// zero. It is computed by power iteration with the smaller of the two Gram matrices.
pub(super) fn principal(rows: &[f32], width: usize) -> Option<Vec<f32>> {
    let count = rows.len() / width.max(1);
    if count == 0 {
        return None;
    }
    let by_rows = count < width;
    let size = if by_rows { count } else { width };
    let mut square = vec![0.0f64; size * size];
    if by_rows {
        for (at, one) in rows.chunks_exact(width).enumerate() {
            for (to, other) in rows.chunks_exact(width).enumerate().take(at + 1) {
                let dot = one.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                square[at * size + to] = dot;
                square[to * size + at] = dot;
            }
        }
    } else {
        for row in rows.chunks_exact(width) {
            for (out, one) in square.chunks_exact_mut(size).zip(row) {
                out.iter_mut().zip(row).for_each(|(out, other)| *out += f64::from(*one) * f64::from(*other));
            }
        }
    }
    let mut direction = dominant(&square, size)?;
    if by_rows {
        let mut turned = vec![0.0f64; width];
        for (factor, row) in direction.iter().zip(rows.chunks_exact(width)) {
            turned.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * f64::from(*value));
        }
        direction = turned;
    }
    let along = |row: &[f32]| row.iter().zip(&direction).map(|(a, b)| f64::from(*a) * b).sum::<f64>();
    if rows.chunks_exact(width).map(along).sum::<f64>() < 0.0 {
        direction.iter_mut().for_each(|value| *value = -*value);
    }
    unit(&mut direction).then(|| narrow(&direction))
}

/// The eigenvector of the largest eigenvalue of a symmetric matrix; `None` if the matrix is zero.
fn dominant(square: &[f64], size: usize) -> Option<Vec<f64>> {
    let mut random = Generator::new(1);
    let mut vector: Vec<f64> = (0..size).map(|_| f64::from(random.below(1 << 20) + 1)).collect();
    unit(&mut vector);
    for _ in 0..STEPS {
        let product = |row: &[f64]| row.iter().zip(&vector).map(|(a, b)| a * b).sum();
        let mut next: Vec<f64> = square.chunks_exact(size).map(product).collect();
        if !unit(&mut next) {
            return None;
        }
        let moved: f64 = next.iter().zip(&vector).map(|(a, b)| (a - b).powi(2)).sum();
        vector = next;
        if moved.sqrt() < STILL {
            break;
        }
    }
    Some(vector)
}

/// Scales a vector to length 1; `false` if it is zero.
fn unit(vector: &mut [f64]) -> bool {
    let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    if !(length > 0.0 && length.is_finite()) {
        return false;
    }
    vector.iter_mut().for_each(|value| *value /= length);
    true
}

fn narrow(vector: &[f64]) -> Vec<f32> {
    vector.iter().map(|value| *value as f32).collect()
}
