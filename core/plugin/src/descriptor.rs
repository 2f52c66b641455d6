//! From descriptors of arrays ([`Tensor`]) to memory: everything is checked before a slice is made of it.

use crate::abi::{Tensor, device, dtype};
use crate::error::{Error, Result};

/// Where the f32 of an array lie, row after row without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatArray {
    pub(crate) data: *mut f32,
    pub(crate) len: usize,
}

/// Rows of f32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowArray {
    pub(crate) data: *mut f32,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

/// What is to be done with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrayAccess {
    Read,
    Write,
}

fn refused(what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(format!("{what}: the array from the host cannot be used: {why}"))
}

/// The elements of an array of f32 in memory of the CPU.
pub(crate) fn floats(tensor: &Tensor, access: ArrayAccess, what: &str) -> Result<FloatArray> {
    if tensor.dtype != dtype::F32 {
        return Err(refused(
            what,
            format_args!("expected f32 ({}), found type {}", dtype::F32, tensor.dtype),
        ));
    }
    if tensor.device_type != device::CPU {
        return Err(refused(
            what,
            format_args!("it is on device {}, not in host memory", tensor.device_type),
        ));
    }
    if access == ArrayAccess::Write && tensor.flags & Tensor::READ_ONLY != 0 {
        return Err(refused(what, "it is read only"));
    }
    let len = elements(tensor, what)?;
    let bytes = len.checked_mul(size_of::<f32>()).filter(|bytes| *bytes <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(|| refused(what, "it is larger than memory"))?;
    if (bytes as u64) > tensor.byte_len {
        return Err(refused(what, format_args!("expected {bytes} bytes, found {}", tensor.byte_len)));
    }
    let data = tensor.data.cast::<f32>();
    if len == 0 {
        return Ok(FloatArray { data: std::ptr::NonNull::dangling().as_ptr(), len });
    }
    if data.is_null() || !data.is_aligned() {
        return Err(refused(what, "its address is null or unaligned"));
    }
    Ok(FloatArray { data, len })
}

/// The elements of a contiguous array.
fn elements(tensor: &Tensor, what: &str) -> Result<usize> {
    let dims = tensor.shape.get(..tensor.ndim as usize);
    let dims = dims.ok_or_else(|| refused(what, format_args!("{} dimensions, at most 6", tensor.ndim)))?;
    let mut len = 1usize;
    for (dim, stride) in dims.iter().zip(&tensor.strides).rev() {
        let size = usize::try_from(*dim).map_err(|_| refused(what, format_args!("a dimension of {dim}")))?;
        // The stride of a dimension of one or no element is never used.
        if size > 1 && usize::try_from(*stride) != Ok(len) {
            return Err(refused(
                what,
                format_args!("expected contiguous elements (stride {len}), found stride {stride}"),
            ));
        }
        len = len.checked_mul(size).ok_or_else(|| refused(what, "its number of elements overflows"))?;
    }
    Ok(len)
}

/// Rows of f32: two dimensions.
pub(crate) fn matrix(tensor: &Tensor, access: ArrayAccess, what: &str) -> Result<RowArray> {
    if tensor.ndim != 2 {
        return Err(refused(what, format_args!("expected 2 dimensions, found {}", tensor.ndim)));
    }
    let FloatArray { data, .. } = floats(tensor, access, what)?;
    // Both were found to fit.
    Ok(RowArray { data, rows: tensor.shape[0] as usize, cols: tensor.shape[1] as usize })
}

impl RowArray {
    /// Bytes from and to.
    fn span(self) -> (usize, usize) {
        let start = self.data as usize;
        (start, start + self.rows * self.cols * size_of::<f32>())
    }

    pub(crate) fn overlaps(self, other: RowArray) -> bool {
        let ((start, end), (other_start, other_end)) = (self.span(), other.span());
        start < other_end && other_start < end
    }
}
