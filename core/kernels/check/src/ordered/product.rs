//! Products of quantized weights with activations rounded to 8 bits (`Arithmetic::Fast`).
//!
//! A row is cut into panels of 256 columns. A panel adds *steps*, each a product of two f32:
//!
//! * **wide** formats (blocks of 256): the exact integer sum of `scale * q * x`, times `d * dx`; with minima then minus
//!   the exact integer sum of `min * x`, times `dmin * dx`. Steps are fused into the row's sum.
//! * **narrow** formats (blocks of 32 and 64): per group of 32 (NVFP4: 16) columns in ascending order the exact integer
//!   sum of `q * x`, times `scale * dx`; with minima then `min` times `dx * sum of x`. Steps are fused into a sum of
//!   the panel, from 0, which is then added to the row's.
//!
//! The integers come from [`dequantize`] with a block's factors set to one, so this module does not know the layout of
//! values.

use half::f16;
use menagerie_kernels::{BlockType, KernelError, Matrix, QuantType, dequantize};

use crate::weights::{factors, set_factors};

/// The columns of a panel.
const PANEL: usize = 256;

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductFault {
    /// Panels from the last to the first.
    PanelsBackwards,
    /// The steps of a panel from the last to the first.
    StepsBackwards,
    /// Minima before the products that they belong to.
    MinimaFirst,
    /// Products rounded before they are added.
    Unfused,
    /// Narrow formats without separate sums of the panels, wide formats with them.
    Subtotals,
    /// A step for each 32 columns in formats that have one for a panel.
    GroupsAlone,
}

impl ProductFault {
    /// All of them.
    pub const ALL: [ProductFault; 6] = [
        ProductFault::PanelsBackwards,
        ProductFault::StepsBackwards,
        ProductFault::MinimaFirst,
        ProductFault::Unfused,
        ProductFault::Subtotals,
        ProductFault::GroupsAlone,
    ];

    /// Whether it changes the order at all for a type.
    pub fn concerns(self, quant: QuantType) -> bool {
        match self {
            ProductFault::PanelsBackwards | ProductFault::Unfused | ProductFault::Subtotals => true,
            ProductFault::StepsBackwards => !is_wide(quant) || has_minima(quant),
            ProductFault::MinimaFirst => has_minima(quant),
            ProductFault::GroupsAlone => is_wide(quant),
        }
    }
}

fn is_wide(quant: QuantType) -> bool {
    quant.block_len() == PANEL
}

fn has_minima(quant: QuantType) -> bool {
    factors(quant.into()).len() == 2
}

/// `y[t, r]`, `[tokens, rows]`, of quantized weights and rows of `w.cols()` values.
///
/// # Errors
/// [`KernelError::Shape`]: weights are not quantized, or `x` is not rows of `w.cols()` values.
pub fn product(w: &Matrix, x: &[f32]) -> Result<Vec<f32>, KernelError> {
    faulty_product(w, x, None)
}

/// Like [`product`], with a fault.
///
/// # Errors
/// As [`product`].
pub fn faulty_product(w: &Matrix, x: &[f32], fault: Option<ProductFault>) -> Result<Vec<f32>, KernelError> {
    let (cols, rows) = (w.cols(), w.rows());
    let BlockType::Quant(quant) = w.block() else {
        return Err(KernelError::shape("ordered::product: w", format!("{} weights", w.block().name())));
    };
    if cols == 0 || !x.len().is_multiple_of(cols) {
        let detail = format!("{} values are not rows of {cols}", x.len());
        return Err(KernelError::shape("ordered::product: x", detail));
    }
    let fault = fault.filter(|fault| fault.concerns(quant));
    let group = if is_wide(quant) { PANEL } else { 32 };
    let x: Vec<Rounded> = x.chunks_exact(cols).map(|row| Rounded::of(row, group)).collect();
    let mut y = vec![0f32; x.len() * rows];
    for r in 0..rows {
        let weights = IntegerWeights::of(quant, w.row(r))?;
        for (t, x) in x.iter().enumerate() {
            y[t * rows + r] =
                if is_wide(quant) { wide(&weights, x, fault) } else { narrow(&weights, x, fault) };
        }
    }
    Ok(y)
}

/// A row of activations rounded to 8 bits.
struct Rounded {
    q: Vec<i32>,
    /// One for each group.
    scale: Vec<f32>,
}

impl Rounded {
    /// `scale = largest / 127` and `q` the nearest integer to `x / scale`, ties to even, the reciprocal rounded first;
    /// zeros if the scale is subnormal. A NaN or an infinity makes the scale one.
    fn of(row: &[f32], group: usize) -> Rounded {
        let (mut q, mut scale) = (Vec::with_capacity(row.len()), Vec::new());
        for members in row.chunks(group) {
            let largest = members.iter().map(|v| v.abs().to_bits()).max().unwrap_or(0);
            let d = f32::from_bits(largest) / 127.0;
            let inverse = if d >= f32::MIN_POSITIVE { 1.0 / d } else { 0.0 };
            q.extend(members.iter().map(|v| (v * inverse).round_ties_even() as i32));
            scale.push(d);
        }
        Rounded { q, scale }
    }
}

/// A row of weights as integers and their factors.
struct IntegerWeights {
    minima: bool,
    /// Wide formats: each value times the integer scale of its group.
    whole: Vec<i32>,
    /// Wide formats: the integer minimum of each value's group.
    least: Vec<i32>,
    /// The columns that share a pair of factors.
    group: usize,
    /// For each group: the factors of values and minima.
    factors: Vec<(f32, f32)>,
}

impl IntegerWeights {
    fn of(quant: QuantType, row: &[u8]) -> Result<IntegerWeights, KernelError> {
        let (len, step, minima) = (quant.block_len(), step(quant), has_minima(quant));
        let (mut whole, mut least, mut factors) = (Vec::new(), Vec::new(), Vec::new());
        let mut values = vec![0f32; len];
        for block in row.chunks_exact(quant.block_bytes()) {
            dequantize(quant.into(), &with_factors(quant, block, (1.0, 0.0)), &mut values)?;
            whole.extend(values.iter().map(|v| (v / step) as i32));
            if minima && is_wide(quant) {
                dequantize(quant.into(), &with_factors(quant, block, (0.0, 1.0)), &mut values)?;
                least.extend(values.iter().map(|v| -v as i32));
            }
            factors.extend(factors_of(quant, block).into_iter().map(|(d, min)| (d * step, min)));
        }
        let group = if quant == QuantType::NVFP4 { 16 } else { len };
        Ok(IntegerWeights { minima, whole, least, group, factors })
    }
}

/// The exact integer product of a range of columns.
fn dot(w: &[i32], x: &[i32]) -> i32 {
    w.iter().zip(x).map(|(w, x)| w * x).sum()
}

fn wide(w: &IntegerWeights, x: &Rounded, fault: Option<ProductFault>) -> f32 {
    let length = if fault == Some(ProductFault::GroupsAlone) { 32 } else { PANEL };
    let panels = (0..w.factors.len()).map(|p| {
        let ((d, dmin), dx) = (w.factors[p], x.scale[p]);
        let mut steps: Vec<(f32, f32)> = (PANEL * p..PANEL * (p + 1))
            .step_by(length)
            .map(|at| (dot(&w.whole[at..at + length], &x.q[at..at + length]) as f32, d * dx))
            .collect();
        if w.minima {
            let columns = PANEL * p..PANEL * (p + 1);
            steps.push((-(dot(&w.least[columns.clone()], &x.q[columns]) as f32), dmin * dx));
        }
        steps
    });
    add(panels.collect(), fault, fault == Some(ProductFault::Subtotals))
}

fn narrow(w: &IntegerWeights, x: &Rounded, fault: Option<ProductFault>) -> f32 {
    let mut panels = Vec::new();
    for groups in (0..w.factors.len()).collect::<Vec<_>>().chunks(PANEL / w.group.min(32)) {
        let mut steps = Vec::new();
        for &g in groups {
            let ((scale, min), at) = (w.factors[g], g * w.group);
            let (q, dx) = (&x.q[at..at + w.group], x.scale[at / 32]);
            steps.push((dot(&w.whole[at..at + w.group], q) as f32, scale * dx));
            if w.minima {
                steps.push((min, dx * q.iter().sum::<i32>() as f32));
            }
        }
        panels.push(steps);
    }
    add(panels, fault, fault != Some(ProductFault::Subtotals))
}

/// The steps of all panels, in order, from 0.
fn add(mut panels: Vec<Vec<(f32, f32)>>, fault: Option<ProductFault>, subtotals: bool) -> f32 {
    match fault {
        Some(ProductFault::PanelsBackwards) => panels.reverse(),
        Some(ProductFault::StepsBackwards) => panels.iter_mut().for_each(|steps| steps.reverse()),
        Some(ProductFault::MinimaFirst) => {
            panels.iter_mut().flat_map(|steps| steps.chunks_exact_mut(2)).for_each(|two| two.swap(0, 1));
        }
        _ => {}
    }
    let step = |sum: f32, (a, b): (f32, f32)| match fault {
        Some(ProductFault::Unfused) => a * b + sum,
        _ => a.mul_add(b, sum),
    };
    panels.into_iter().fold(0.0, |sum, steps| match subtotals {
        true => sum + steps.into_iter().fold(0.0, step),
        false => steps.into_iter().fold(sum, step),
    })
}

/// The multiplier of a block's factor that makes all scales integers: a power of two.
fn step(quant: QuantType) -> f32 {
    match quant {
        QuantType::IQ1_S | QuantType::IQ1_M | QuantType::IQ2_XXS | QuantType::IQ2_XS | QuantType::IQ2_S => {
            0.125
        }
        QuantType::IQ3_XXS => 0.25,
        _ => 1.0,
    }
}

/// A block with other factors of its values and minima.
fn with_factors(quant: QuantType, block: &[u8], (d, min): (f32, f32)) -> Vec<u8> {
    let mut block = block.to_vec();
    match quant {
        // The bytes that represent one: 2^(e - 128), and 2^(e - 8) with e in bits 3 to 6.
        QuantType::MXFP4 => block[0] = 128,
        QuantType::NVFP4 => block[..4].fill(8 << 3),
        _ => set_factors(quant, &mut block, [d, min].map(|v| f16::from_f32(v).to_bits())),
    }
    block
}

/// The factors of a block's groups.
fn factors_of(quant: QuantType, block: &[u8]) -> Vec<(f32, f32)> {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    match quant {
        QuantType::MXFP4 => vec![(2f64.powi(i32::from(block[0]) - 128) as f32, 0.0)],
        QuantType::NVFP4 => block[..4].iter().map(|&v| (e4m3_half(v), 0.0)).collect(),
        QuantType::IQ1_M => {
            let bits = (0..4).map(|i| u16::from(block[49 + 2 * i] >> 4) << (4 * i)).sum();
            vec![(f16::from_bits(bits).to_f32(), 0.0)]
        }
        _ => {
            let places = factors(quant.into());
            vec![(half(places[0]), places.get(1).map_or(0.0, |&at| half(at)))]
        }
    }
}

/// Half of an unsigned e4m3 number; its NaN means zero.
fn e4m3_half(v: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(v >> 3 & 15), f32::from(v & 7));
    match (exponent, v & 7) {
        (15, 7) => 0.0,
        (0, _) => mantissa * 2f32.powi(-10),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 11),
    }
}
