//! 8-bit floats with scales, as in the published weights of DeepSeek-V3 and Mistral, and in those of compressed-tensors.
//!
//! A weight is `e4m3(byte) * scale`; the scale applies to the tensor, to a row, or to a block of rows and columns
//! (`Fp8Dequantize` of transformers 5.23, `weight_dequant_kernel` of DeepSeek-V3's kernel.py; the strategies `tensor`,
//! `channel` and `block` of compressed-tensors). Every byte is exact in f16, so a matrix with row scales needs two bytes
//! for a number, and the scales are applied to its products. Other matrices are multiplied with their scales: into bf16
//! if all scales are powers of two, which is exact, else into f32.

use super::floats::floats;
use super::loaded_tensor::{LoadedTensor, shape_of};
use gguf_file::GgmlType;
use menagerie_loaders::{Dtype, SafetensorsTensor};
use menagerie_model::{Backend, ModelError, WeightBytes};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a task.
const ROWS: usize = 64;

/// `2^120`: the factor by which the bits of a byte are too small when they are moved to the exponent and mantissa of an f32.
const LIFT: f32 = f32::from_bits((127 + 120) << 23);

/// Exponents of scales with which every product is a normal bf16.
const EXPONENTS: std::ops::RangeInclusive<i32> = -110..=110;

/// The value of a byte: sign, 4 bits of exponent with bias 7, 3 bits of mantissa, no infinity (OFP8, E4M3).
fn e4m3(byte: u8) -> f32 {
    let bits = u32::from(byte);
    if bits & 0x7f == 0x7f {
        return f32::NAN;
    }
    f32::from_bits((bits & 0x80) << 24 | (bits & 0x7f) << 20) * LIFT
}

/// A matrix of bytes with its scales.
pub(super) struct Float8<'a> {
    shape: Vec<usize>,
    bytes: &'a [u8],
    scales: Vec<f32>,
    /// Rows and columns that share a scale.
    block: [usize; 2],
}

/// The encoding of numbers of a type.
trait FloatFormat: Sync {
    const KIND: GgmlType;
    const BYTES: usize;
    fn write(value: f32, out: &mut [u8]);
}

struct Float32;
struct Bfloat16;
struct Float16;

impl FloatFormat for Float32 {
    const KIND: GgmlType = GgmlType::F32;
    const BYTES: usize = 4;
    fn write(value: f32, out: &mut [u8]) {
        out.copy_from_slice(&value.to_le_bytes());
    }
}

impl FloatFormat for Bfloat16 {
    const KIND: GgmlType = GgmlType::BF16;
    const BYTES: usize = 2;
    /// The lower half of the values is zero here.
    fn write(value: f32, out: &mut [u8]) {
        out.copy_from_slice(&((value.to_bits() >> 16) as u16).to_le_bytes());
    }
}

impl FloatFormat for Float16 {
    const KIND: GgmlType = GgmlType::F16;
    const BYTES: usize = 2;
    /// The values here are zeros, NaN, and normal numbers with at most eleven bits of mantissa.
    fn write(value: f32, out: &mut [u8]) {
        let bits = value.to_bits();
        let sign = bits >> 16 & 0x8000;
        let magnitude = match bits >> 23 & 0xff {
            0 => 0,
            0xff => 0x7e00,
            exponent => (exponent - 112) << 10 | bits >> 13 & 0x3ff,
        };
        out.copy_from_slice(&((sign | magnitude) as u16).to_le_bytes());
    }
}

impl<'a> Float8<'a> {
    /// A weight and its scales; `block` is the number of rows and columns that share a scale if the scales are a matrix.
    ///
    /// # Errors
    /// The scales fit neither the tensor, nor its rows, nor blocks; they are not floats.
    pub(super) fn new(
        (tensor, bytes): (&SafetensorsTensor, &'a [u8]),
        (scale, scale_bytes): (&SafetensorsTensor, &[u8]),
        block: Option<[usize; 2]>,
    ) -> Result<Self, String> {
        if tensor.dtype() != Dtype::F8_E4M3 {
            return Err(format!("expected F8_E4M3 for a tensor with scales, found {}", tensor.dtype()));
        }
        let (shape, scale_shape) = (shape_of(tensor)?, shape_of(scale)?);
        let [rows, cols] = shape[..] else {
            return Err(format!("expected a matrix of 8-bit floats, found shape {shape:?}"));
        };
        let scales = floats(scale, scale_bytes)?;
        let block = match (&scale_shape[..], block) {
            ([] | [1] | [1, 1], _) => [rows.max(1), cols.max(1)],
            ([count] | [count, 1], _) if *count == rows => [1, cols.max(1)],
            ([down, across], Some([high, wide]))
                if *down == rows.div_ceil(high) && *across == cols.div_ceil(wide) =>
            {
                [high, wide]
            }
            _ => {
                return Err(format!(
                    "its scales \"{}\" of shape {scale_shape:?} fit neither the tensor, nor its {rows} rows, nor blocks \
                     of {}",
                    scale.name(),
                    block.map_or("a size in quantization_config".to_owned(), |[high, wide]| format!(
                        "{high} x {wide}"
                    ))
                ));
            }
        };
        if let Some(found) = scales.iter().find(|scale| !scale.is_finite()) {
            return Err(format!("its scales \"{}\" contain {found}; download the file again", scale.name()));
        }
        Ok(Self { shape, bytes, scales, block })
    }

    /// The matrix multiplied with its scales, over the threads of `backend`.
    pub(super) fn multiplied(&self, backend: Option<&dyn Backend>) -> Result<LoadedTensor, String> {
        let exact = |scale: &f32| {
            let exponent = (scale.to_bits() >> 23 & 0xff) as i32 - 127;
            scale.to_bits() & 0x7f_ffff == 0 && EXPONENTS.contains(&exponent)
        };
        match self.scales.iter().all(exact) {
            true => self.encode::<Bfloat16>(&self.scales, backend),
            false => self.encode::<Float32>(&self.scales, backend),
        }
    }

    /// Whether every row has a single scale.
    fn has_row_scales(&self) -> bool {
        self.block[1] == self.shape[1].max(1) && (self.scales.len() == 1 || self.block[0] == 1)
    }

    /// The matrix without scales, and the scale of each row; `None` if a row has several.
    pub(super) fn with_row_scales(
        &self,
        backend: Option<&dyn Backend>,
    ) -> Option<Result<(LoadedTensor, Vec<f32>), String>> {
        if !self.has_row_scales() {
            return None;
        }
        let rows = self.shape[0];
        let scales = match self.scales[..] {
            [one] => vec![one; rows],
            _ => self.scales.clone(),
        };
        let ones = vec![1.0; self.scales.len()];
        Some(self.encode::<Float16>(&ones, backend).map(|stored| (stored, scales)))
    }

    fn encode<F: FloatFormat>(
        &self,
        factors: &[f32],
        backend: Option<&dyn Backend>,
    ) -> Result<LoadedTensor, String> {
        let ([_, cols], [high, wide]) = ([self.shape[0], self.shape[1].max(1)], self.block);
        let across = cols.div_ceil(wide);
        let mut out = vec![0; self.bytes.len() * F::BYTES];
        let parts: Vec<Mutex<&mut [u8]>> = out.chunks_mut(ROWS * cols * F::BYTES).map(Mutex::new).collect();
        let task = |task: usize| {
            let (Some(part), Some(bytes)) = (parts.get(task), self.bytes.chunks(ROWS * cols).nth(task))
            else {
                return;
            };
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let rows = bytes.chunks_exact(cols).zip(part.chunks_exact_mut(cols * F::BYTES));
            for (row, (bytes, out)) in rows.enumerate() {
                let first = (task * ROWS + row) / high * across;
                let own = bytes.chunks(wide).zip(out.chunks_mut(wide * F::BYTES));
                for (at, (bytes, out)) in own.enumerate() {
                    let factor = factors.get(first + at).copied().unwrap_or(f32::NAN);
                    for (byte, out) in bytes.iter().zip(out.chunks_exact_mut(F::BYTES)) {
                        F::write(e4m3(*byte) * factor, out);
                    }
                }
            }
        };
        match backend {
            Some(backend) => {
                backend.parallel(parts.len(), &task).map_err(|error: ModelError| error.to_string())?;
            }
            None => (0..parts.len()).for_each(task),
        }
        drop(parts);
        Ok(LoadedTensor {
            shape: self.shape.clone(),
            block: F::KIND,
            bytes: WeightBytes::Owned(Arc::new(out)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_values_of_the_format() {
        // OCP 8-bit floating point specification, table 2.
        for (byte, value) in [
            (0x00, 0.0),
            (0x01, 2.0_f32.powi(-9)),
            (0x07, 0.875 * 2.0_f32.powi(-6)),
            (0x08, 2.0_f32.powi(-6)),
        ] {
            assert_eq!(e4m3(byte), value, "{byte:#x}");
        }
        assert_eq!((e4m3(0x38), e4m3(0x7e), e4m3(0xfe), e4m3(0xb8)), (1.0, 448.0, -448.0, -1.0));
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
    }

    fn of<'a>(bytes: &'a [u8], factors: &[f32], block: [usize; 2]) -> Float8<'a> {
        Float8 { shape: vec![bytes.len() / 4, 4], bytes, scales: factors.to_vec(), block }
    }

    #[test]
    fn every_byte_is_exact_in_f16() {
        let bytes: Vec<u8> = (0..=255).collect();
        let (stored, factors) = of(&bytes, &[0.3], [64, 4]).with_row_scales(None).unwrap().unwrap();
        assert_eq!((stored.block, factors), (GgmlType::F16, vec![0.3; 64]));
        for (byte, half) in stored.all().chunks_exact(2).enumerate() {
            let half = super::super::floats::from_f16(u16::from_le_bytes([half[0], half[1]]));
            let value = e4m3(byte as u8);
            assert!(half == value || half.is_nan() && value.is_nan(), "{byte:#x}: {half} {value}");
        }
    }

    #[test]
    fn numbers_have_two_bytes_where_that_is_exact() {
        let bytes: Vec<u8> = (0..=255).filter(|byte| byte & 0x7f != 0x7f).chain([0, 0]).collect();
        let exact = of(&bytes, &[0.5, 2.0_f32.powi(-20)], [32, 4]).multiplied(None).unwrap();
        assert_eq!(exact.block, GgmlType::BF16);
        for (at, bits) in exact.all().chunks_exact(2).enumerate() {
            let value = f32::from_bits(u32::from(u16::from_le_bytes([bits[0], bits[1]])) << 16);
            let factor = if at < 128 { 0.5 } else { 2.0_f32.powi(-20) };
            assert_eq!(value, e4m3(bytes[at]) * factor);
        }
        for factors in [[0.5, 0.3], [0.5, 2.0_f32.powi(-126)], [0.5, 0.0]] {
            assert_eq!(of(&bytes, &factors, [32, 4]).multiplied(None).unwrap().block, GgmlType::F32);
        }
        assert!(of(&bytes, &[0.5; 128], [1, 2]).with_row_scales(None).is_none(), "two scales in a row");
    }
}
