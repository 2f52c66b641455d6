//! [`Activation`] and [`RopePairs`]: names of formulas that every backend computes.

/// A pointwise activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x * sigmoid(x)` (Elfwing et al., 2017).
    Silu,
    /// GELU in the tanh approximation (Hendrycks and Gimpel, 2016); HF `gelu_new`, `gelu_pytorch_tanh`.
    GeluTanh,
    /// GELU with the error function; HF `gelu`.
    GeluErf,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2` (So et al., 2021); HF `relu2`.
    ReluSquared,
}

/// Which elements of a head form a rotated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopePairs {
    /// `(2j, 2j + 1)`.
    Adjacent,
    /// `(j, j + dims / 2)`.
    Halves,
}
