//! Products in f32: `Arithmetic::Exact` of every type, F32 and F16 in `Arithmetic::Fast` too; and of BF16 weights with
//! activations rounded to bfloat16 (`Arithmetic::Fast`).
//!
//! A row is cut into panels of 128 columns. A panel has eight sums, each from 0: sum `j` takes the columns `8 i + j` in
//! ascending order, each product fused onto it. The eight are added in ascending order, and their total is added to the
//! row's.
//!
//! With bfloat16 a panel has 256 columns and a sum takes pairs of neighboring columns, in each the odd one first.
//! Activations are rounded to nearest, ties to even; activations below 2^-47 and weights below 2^-63 count as zero.

use half::bf16;
use menagerie_kernels::{KernelError, Matrix, dequantize};

/// Sums of a panel.
const SUMS: usize = 8;
/// Steps of a sum.
const STEPS: usize = 16;

/// The form of weights and activations before they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorForm {
    /// f32, the weights dequantized.
    Plain,
    /// Both rounded to bfloat16.
    BFloat16,
}

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatProductFault {
    /// Panels from the last to the first.
    PanelsBackwards,
    /// Columns of each sum from the last to the first.
    StepsBackwards,
    /// The eight sums added from the last to the first.
    SumsBackwards,
    /// The eight sums added in pairs.
    SumsInPairs,
    /// One sum for all columns of a panel.
    OneSum,
    /// The row's sums continue through all panels.
    NoPanels,
    /// Products rounded before they are added.
    Unfused,
}

impl FloatProductFault {
    /// All of them.
    pub const ALL: [FloatProductFault; 7] = [
        FloatProductFault::PanelsBackwards,
        FloatProductFault::StepsBackwards,
        FloatProductFault::SumsBackwards,
        FloatProductFault::SumsInPairs,
        FloatProductFault::OneSum,
        FloatProductFault::NoPanels,
        FloatProductFault::Unfused,
    ];
}

/// `y[t, r]`, `[tokens, rows]`, of weights of any type and rows of `w.cols()` values.
///
/// # Errors
/// [`KernelError::Shape`]: `x` is not rows of `w.cols()` values.
pub fn product(w: &Matrix, x: &[f32], factors: FactorForm) -> Result<Vec<f32>, KernelError> {
    faulty_product(w, x, factors, None)
}

/// Like [`product`], with a fault.
///
/// # Errors
/// As [`product`].
pub fn faulty_product(
    w: &Matrix,
    x: &[f32],
    factors: FactorForm,
    fault: Option<FloatProductFault>,
) -> Result<Vec<f32>, KernelError> {
    let (cols, rows) = (w.cols(), w.rows());
    if cols == 0 || !x.len().is_multiple_of(cols) {
        let detail = format!("{} values are not rows of {cols}", x.len());
        return Err(KernelError::shape("ordered::float_product: x", detail));
    }
    let x = prepared(x, factors, -47);
    let mut weights = vec![0f32; cols];
    let mut y = vec![0f32; x.len() / cols * rows];
    for r in 0..rows {
        dequantize(w.block(), w.row(r), &mut weights)?;
        let weights = prepared(&weights, factors, -63);
        for (t, x) in x.chunks_exact(cols).enumerate() {
            y[t * rows + r] = row(&weights, x, factors, fault);
        }
    }
    Ok(y)
}

/// The numbers as they are multiplied; numbers of bfloat16 with a magnitude below 2 to the power of `least` are zero.
fn prepared(values: &[f32], factors: FactorForm, least: i32) -> Vec<f32> {
    let rounded = |value: &f32| {
        let value = bf16::from_f32(*value).to_f32();
        if value.abs() < 2f32.powi(least) { 0.0 } else { value }
    };
    match factors {
        FactorForm::Plain => values.to_vec(),
        FactorForm::BFloat16 => values.iter().map(rounded).collect(),
    }
}

fn row(w: &[f32], x: &[f32], factors: FactorForm, fault: Option<FloatProductFault>) -> f32 {
    let width = if factors == FactorForm::BFloat16 { 2 } else { 1 };
    let length = if fault == Some(FloatProductFault::NoPanels) { w.len() } else { SUMS * STEPS * width };
    let panels = w.chunks(length).zip(x.chunks(length));
    let mut totals: Vec<f32> = panels.map(|(w, x)| panel(w, x, width, fault)).collect();
    if fault == Some(FloatProductFault::PanelsBackwards) {
        totals.reverse();
    }
    totals.iter().fold(0.0, |sum, total| sum + total)
}

fn panel(w: &[f32], x: &[f32], width: usize, fault: Option<FloatProductFault>) -> f32 {
    let mut sums = [0f32; SUMS];
    let mut steps: Vec<_> =
        w.chunks(width).zip(x.chunks(width)).enumerate().map(|(n, step)| (n % SUMS, step)).collect();
    if fault == Some(FloatProductFault::StepsBackwards) {
        steps.reverse();
    }
    for (sum, (w, x)) in steps {
        let sum = if fault == Some(FloatProductFault::OneSum) { &mut sums[0] } else { &mut sums[sum] };
        for (w, x) in w.iter().zip(x).rev() {
            *sum = if fault == Some(FloatProductFault::Unfused) { w * x + *sum } else { w.mul_add(*x, *sum) };
        }
    }
    match fault {
        Some(FloatProductFault::SumsBackwards) => {
            sums.iter().rev().copied().reduce(|a, b| a + b).unwrap_or(0.0)
        }
        Some(FloatProductFault::SumsInPairs) => {
            let two = |i: usize| sums[i] + sums[i + 4];
            (two(0) + two(2)) + (two(1) + two(3))
        }
        _ => sums.iter().copied().reduce(|a, b| a + b).unwrap_or(0.0),
    }
}
