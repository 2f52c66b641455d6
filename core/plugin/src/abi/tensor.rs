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
