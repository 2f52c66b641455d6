//! Activations, softmax and selection in f64.

use menagerie_kernels::{Activation, Gating, Xielu};

/// The activation of one value. GELU: Hendrycks and Gimpel 2016, exact and with tanh; SiLU: Elfwing et al. 2017.
pub fn activate(a: Activation, x: f32) -> f32 {
    activate_f64(a, f64::from(x)) as f32
}

/// As [`activate`], in f64.
pub fn activate_f64(a: Activation, x: f64) -> f64 {
    match a {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::GeluErf => 0.5 * x * erfc(-x / std::f64::consts::SQRT_2),
        Activation::Relu => x.max(0.0),
        Activation::ReluSquared => x.max(0.0).powi(2),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Activation::Xielu(Xielu { alpha_p, alpha_n, beta, eps }) => {
            let [alpha_p, alpha_n, beta, eps] = [alpha_p, alpha_n, beta, eps].map(f64::from);
            let bent = if x > 0.0 { alpha_p * x * x } else { alpha_n * (x.min(eps).exp_m1() - x) };
            bent + beta * x
        }
    }
}

/// A gate and an up projection as one (Shazeer 2020; gpt-oss).
pub fn gated(gating: Gating, gate: f32, up: f32) -> f32 {
    let within = |limit: f32| f64::from(up.clamp(-limit, limit));
    let silu = |x: f64, alpha: f64| x / (1.0 + (-alpha * x).exp());
    let value = match gating {
        Gating::Plain(activation) => f64::from(activate(activation, gate)) * f64::from(up),
        Gating::LimitedBefore { limit } => silu(f64::from(gate.min(limit)), 1.0) * within(limit),
        Gating::LimitedAfter { limit } => silu(f64::from(gate), 1.0).min(f64::from(limit)) * within(limit),
        Gating::SwigluOai { alpha, limit } => {
            silu(f64::from(gate.min(limit)), f64::from(alpha)) * (within(limit) + 1.0)
        }
    };
    value as f32
}

/// The complementary error function: Taylor series below 3, continued fraction above (Abramowitz and Stegun 7.1.5
/// and 7.1.14), about 1e-15 absolute.
pub fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..120 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 1.0 - sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let mut fraction = x;
    for k in (1..200).rev() {
        fraction = x + 0.5 * f64::from(k) / fraction;
    }
    (-x * x).exp() / (fraction * std::f64::consts::PI.sqrt())
}

/// Softmax of every row of `width`, in place.
pub fn softmax_rows(x: &mut [f32], width: usize) {
    for row in x.chunks_mut(width) {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|&v| f64::from(v - most).exp()).sum();
        for v in row {
            *v = (f64::from(*v - most).exp() / sum) as f32;
        }
    }
}

/// `cap * tanh(x / cap)`, in place.
pub fn softcap(cap: f32, x: &mut [f32]) {
    for v in x {
        *v = (f64::from(cap) * (f64::from(*v) / f64::from(cap)).tanh()) as f32;
    }
}
