//! Exponentials that the compiler turns into vectors, and what is made of them.

/// `e^x` within 2 units in the last place between -87 and 88, where it saturates (coefficients: Cephes, `expf`).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Added to a number, its last bits are the number rounded; 127 is the exponent of 1.
    const ROUND: f32 = 12_582_912.0 + 127.0;
    let x = x.clamp(-87.0, 88.0);
    let biased = x * std::f32::consts::LOG2_E + ROUND;
    let n = biased - ROUND;
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + c;
    }
    let mantissa = p * (r * r) + r + 1.0;
    mantissa * f32::from_bits(biased.to_bits() << 23)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// [`sigmoid`] of every element, in place.
pub fn sigmoid_rows(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = sigmoid(*x));
}

/// The hyperbolic tangent of every element, in place, within 1e-6.
pub fn tanh_rows(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = 1.0 - 2.0 / (1.0 + exp(2.0 * *x)));
}

/// `max(x, 0)^2` of every element, in place.
pub fn squared_relu_rows(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = x.max(0.0) * x.max(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_those_of_f64_to_the_last_bits() {
        for step in -8700..8800 {
            let x = step as f32 / 100.0;
            let wanted = f64::from(x).exp();
            assert!((f64::from(exp(x)) / wanted - 1.0).abs() < 2.5e-7, "exp({x})");
            let wanted = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - wanted).abs() < 2e-7, "sigmoid({x})");
            let mut y = [x];
            tanh_rows(&mut y);
            assert!((f64::from(y[0]) - f64::from(x).tanh()).abs() < 1e-6, "tanh({x})");
        }
        let mut y = [-2.0, 0.0, 3.0];
        squared_relu_rows(&mut y);
        assert_eq!(y, [0.0, 0.0, 9.0]);
        assert!(exp(f32::INFINITY).is_finite() && exp(f32::NEG_INFINITY) > 0.0 && exp(f32::NAN).is_nan());
    }
}
