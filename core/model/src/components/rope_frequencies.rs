//! Rope frequencies and their scaling; computed once, at assembly, with functions that are the same code on every
//! machine.

/// `base^(-2j / dims)` for every pair `j` (Su et al., 2021). Divided by divisors, if there are any, of equal length.
pub fn base_frequencies(base: f32, dims: usize, divisors: Option<&[f32]>) -> Vec<f32> {
    let frequency = |j: usize| {
        let plain = libm::pow(f64::from(base), -2.0 * j as f64 / dims as f64);
        let divisor = divisors.and_then(|divisors| divisors.get(j)).map_or(1.0, |d| f64::from(*d));
        (plain / divisor) as f32
    };
    (0..dims / 2).map(frequency).collect()
}

/// YaRN (Peng et al., 2023) without its magnitude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YarnScaling {
    /// Divisor of the interpolated frequencies.
    pub factor: f32,
    /// Context the model was first trained with, in tokens.
    pub original_context: f32,
    /// Rotations above which a dimension is not interpolated.
    pub beta_fast: f32,
    /// Rotations below which a dimension is fully interpolated.
    pub beta_slow: f32,
    /// Whether the correction range is rounded to whole dimensions.
    pub whole_dims: bool,
}

impl YarnScaling {
    /// Frequencies of the pairs: HF `_compute_yarn_parameters`, ggml `rope_yarn`.
    pub fn frequencies(&self, base: f32, dims: usize) -> Vec<f32> {
        let (n, base) = (dims as f64, f64::from(base));
        let rotations = |beta: f32| {
            let turns = f64::from(self.original_context) / (f64::from(beta) * 2.0 * std::f64::consts::PI);
            n * libm::log(turns) / (2.0 * libm::log(base))
        };
        let (mut low, mut high) = (rotations(self.beta_fast), rotations(self.beta_slow));
        if self.whole_dims {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(n - 1.0));
        let frequency = |j: usize| {
            let plain = libm::pow(base, -2.0 * j as f64 / n);
            let ramp = ((j as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            (plain * (1.0 - ramp) + plain / f64::from(self.factor) * ramp) as f32
        };
        (0..dims / 2).map(frequency).collect()
    }
}

/// The Llama 3 formula (HF `_compute_llama3_parameters`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llama3Scaling {
    /// Divisor of low frequencies.
    pub factor: f32,
    /// `low_freq_factor`.
    pub low: f32,
    /// `high_freq_factor`.
    pub high: f32,
    /// Context the model was first trained with, in tokens.
    pub original_context: f32,
}

impl Llama3Scaling {
    /// Frequencies of the pairs.
    pub fn frequencies(&self, base: f32, dims: usize) -> Vec<f32> {
        let (factor, context) = (f64::from(self.factor), f64::from(self.original_context));
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let frequency = |j: usize| {
            let plain = libm::pow(f64::from(base), -2.0 * j as f64 / dims as f64);
            let wavelength = 2.0 * std::f64::consts::PI / plain;
            let stretched = if wavelength < context / high {
                plain
            } else if wavelength > context / low {
                plain / factor
            } else {
                let smooth = (context / wavelength - low) / (high - low);
                (1.0 - smooth) * plain / factor + smooth * plain
            };
            stretched as f32
        };
        (0..dims / 2).map(frequency).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_frequencies_fall_geometrically() {
        let found = base_frequencies(10_000.0, 4, None);
        assert!((found[0] - 1.0).abs() < 1e-7 && (found[1] - 0.01).abs() < 1e-9);
        let halved = base_frequencies(10_000.0, 4, Some(&[2.0, 4.0]));
        assert!((halved[0] - 0.5).abs() < 1e-7 && (halved[1] - 0.0025).abs() < 1e-9);
    }

    /// HF's formula by hand: 16 ln(32 / 4 pi) / 2 ln 10000 = 0.81, so low 0; 16 ln(32 / pi) / 2 ln 10000 = 2.02, so
    /// high 3; the ramp is 0, 1/3, 2/3, 1, ...
    #[test]
    fn yarn_leaves_fast_dimensions_and_divides_slow_ones() {
        let mut yarn = YarnScaling {
            factor: 16.0,
            original_context: 32.0,
            beta_fast: 2.0,
            beta_slow: 0.5,
            whole_dims: true,
        };
        let plain = base_frequencies(10_000.0, 16, None);
        let found = yarn.frequencies(10_000.0, 16);
        assert_eq!(found[0], plain[0]);
        assert!((found[1] - 0.316_227_77 * (2.0 / 3.0 + 1.0 / 48.0)).abs() < 1e-7);
        assert!((found[2] - 0.1 * (1.0 / 3.0 + 1.0 / 24.0)).abs() < 1e-8);
        for j in 3..8 {
            assert!((found[j] * 16.0 / plain[j] - 1.0).abs() < 1e-6);
        }
        yarn.whole_dims = false;
        // low = 0.8118, high = 2.0161: at 1 the ramp is 0.1563.
        assert!(
            (yarn.frequencies(10_000.0, 16)[1] - 0.316_227_77 * (1.0 - 0.156_3 * 15.0 / 16.0)).abs() < 1e-4
        );
    }

    #[test]
    fn llama3_keeps_high_and_divides_low_frequencies() {
        let scaling = Llama3Scaling { factor: 8.0, low: 1.0, high: 4.0, original_context: 8192.0 };
        let plain = base_frequencies(500_000.0, 128, None);
        let found = scaling.frequencies(500_000.0, 128);
        assert_eq!(found[0], plain[0]);
        assert!((found[63] * 8.0 / plain[63] - 1.0).abs() < 1e-6);
        assert!(found.windows(2).all(|pair| pair[1] < pair[0]));
    }
}
