//! Norms in f64, one row at a time.

/// Root mean square norm (Zhang and Sennrich 2019): `x / sqrt(mean(x^2) + eps) * weight` per row of `width`.
pub fn rms_norm(x: &[f32], weight: Option<&[f32]>, eps: f32, width: usize, out: &mut [f32]) {
    for (row, out) in x.chunks(width).zip(out.chunks_mut(width)) {
        let mean = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / width as f64;
        let scale = 1.0 / (mean + f64::from(eps)).sqrt();
        for i in 0..width {
            out[i] = (f64::from(row[i]) * scale * weight.map_or(1.0, |w| f64::from(w[i]))) as f32;
        }
    }
}

/// Layer norm (Ba et al. 2016): `(x - mean) / sqrt(variance + eps) * weight + bias` per row of `width`.
pub fn layer_norm(
    x: &[f32],
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    eps: f32,
    width: usize,
    out: &mut [f32],
) {
    for (row, out) in x.chunks(width).zip(out.chunks_mut(width)) {
        let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / width as f64;
        let variance = row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / width as f64;
        let scale = 1.0 / (variance + f64::from(eps)).sqrt();
        for i in 0..width {
            let normed = (f64::from(row[i]) - mean) * scale * weight.map_or(1.0, |w| f64::from(w[i]));
            out[i] = (normed + bias.map_or(0.0, |b| f64::from(b[i]))) as f32;
        }
    }
}
