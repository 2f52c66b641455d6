//! Matrix products, plainly: dequantized weights, f64 sums.

use menagerie_kernels::{KernelError, Matrix, dequantize};

/// `y[t, r] = sum over k of w[r, k] * x[t, k]` for rows of `w.cols()` values in `x`; also the sum of the
/// magnitudes of the products, for tolerances.
///
/// # Errors
/// [`KernelError::Shape`]: `x` is not rows of `w.cols()` values.
pub fn matmul(w: &Matrix, x: &[f32]) -> Result<Vec<(f64, f64)>, KernelError> {
    let cols = w.cols();
    if cols == 0 || !x.len().is_multiple_of(cols) {
        let detail = format!("{} values are not rows of {cols}", x.len());
        return Err(KernelError::shape("naive::matmul: x", detail));
    }
    let mut weights = vec![0f32; cols];
    let tokens = x.len() / cols;
    let mut y = vec![(0.0, 0.0); tokens * w.rows()];
    for r in 0..w.rows() {
        dequantize(w.block(), w.row(r), &mut weights)?;
        for (t, x) in x.chunks_exact(cols).enumerate() {
            let (mut sum, mut magnitude) = (0f64, 0f64);
            for (w, x) in weights.iter().zip(x) {
                let product = f64::from(*w) * f64::from(*x);
                sum += product;
                magnitude += product.abs();
            }
            y[t * w.rows() + r] = (sum, magnitude);
        }
    }
    Ok(y)
}

/// The activations as the integer kernels use them: rounded to `scale * q`, `q` from -127 to 127, with one scale for
/// every `group` values of a row of `cols`.
pub fn rounded(x: &[f32], cols: usize, group: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks(cols) {
        for members in row.chunks(group) {
            let d = members.iter().fold(0f32, |m, v| m.max(v.abs())) / 127.0;
            let inverse = if d >= f32::MIN_POSITIVE { 1.0 / d } else { 0.0 };
            out.extend(members.iter().map(|v| d * (v * inverse).round_ties_even()));
        }
    }
    out
}
