//! [`Tensor`]: a borrowed array; DLPack's fields, and the block types of GGML.

use std::ffi::c_void;

/// A borrowed array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// First element.
    pub data: *mut c_void,
    /// Bytes that may be touched.
    pub byte_len: u64,
    /// One of [`dtype`].
    pub dtype: u32,
    /// One of [`device`].
    pub device_type: u32,
    /// Which of them.
    pub device_id: i32,
    /// Dimensions in use.
    pub ndim: u32,
    /// Elements, the slowest dimension first.
    pub shape: [i64; 6],
    /// Elements from one to the next of a dimension; of blocks, the last is 1 and the others count elements of whole rows.
    pub strides: [i64; 6],
    /// Bit 0: read only.
    pub flags: u64,
}

impl Tensor {
    /// In [`Tensor::flags`].
    pub const READ_ONLY: u64 = 1;

    /// An array in memory of the CPU without gaps, the slowest dimension first; dimensions past the sixth are left out.
    pub fn dense(data: *mut c_void, byte_len: usize, dtype: u32, shape: &[u64], flags: u64) -> Tensor {
        let mut tensor = Tensor {
            data,
            byte_len: byte_len as u64,
            dtype,
            device_type: device::CPU,
            device_id: 0,
            ndim: shape.len().min(6) as u32,
            shape: [0; 6],
            strides: [0; 6],
            flags,
        };
        let mut stride = 1i64;
        for (at, size) in shape.iter().enumerate().take(6).rev() {
            tensor.shape[at] = *size as i64;
            tensor.strides[at] = stride;
            stride = stride.saturating_mul(*size as i64);
        }
        tensor
    }

    /// Rows `[rows, cols]` of f32.
    pub fn rows(data: *mut f32, rows: usize, cols: usize, flags: u64) -> Tensor {
        let bytes = rows * cols * size_of::<f32>();
        Tensor::dense(data.cast(), bytes, dtype::F32, &[rows as u64, cols as u64], flags)
    }

    /// `len` f32 in one dimension.
    pub fn values(data: *mut f32, len: usize, flags: u64) -> Tensor {
        Tensor::dense(data.cast(), len * size_of::<f32>(), dtype::F32, &[len as u64], flags)
    }
}

/// Types of elements.
pub mod dtype {
    /// 32-bit float.
    pub const F32: u32 = 0;
    /// 16-bit float.
    pub const F16: u32 = 1;
    /// The upper half of a 32-bit float.
    pub const BF16: u32 = 2;
    /// 32-bit signed integer.
    pub const I32: u32 = 3;
    /// 64-bit float.
    pub const F64: u32 = 4;
    /// Byte.
    pub const U8: u32 = 5;
    /// Plus GGML's number of a block type (`0x108` is Q8_0).
    pub const GGML: u32 = 0x100;
}

/// Where an array lies.
pub mod device {
    /// Memory of the CPU; the only one in version 1.
    pub const CPU: u32 = 1;
}
