//! Devices as backends: operations of a forward over candle-core and candle-nn, for CUDA, Metal and candle's own CPU.
//!
//! Start at [`CandleBackend`]; its devices are registered as [`menagerie_model::DeviceKind`]s. Its CPU form (`candle`)
//! computes the same operations in the same order as the GPUs, so that this crate can be tested everywhere; for speed
//! on a CPU there is another backend.
//!
//! Rows are contiguous f32 tensors `[T, D]` that begin at offset 0. Weights are candle's quantized tensors if candle
//! has the block type, otherwise in the form that [`menagerie_model::Backend::notes`] reports. Keys and values are in
//! `[kv_heads, slots, head_dim]` tensors of f32 or f16; pages are runs of slots, so a sequence with consecutive pages
//! is read in place.
//!
//! # What passes through host memory in a step
//! Uploaded: token ids, indices of selected rows, cosines and sines once per rope, masks once per shape, factors of
//! rows, and per mixture of experts the rows and weights of its plan. Read back: router logits (the choice of experts
//! is made on the host) and the requested logits. Nothing else is read back, and no operation is computed elsewhere:
//! unsupported operations are refused when the model is assembled.
//!
//! # Threads
//! On the CPU candle takes its threads from `RAYON_NUM_THREADS` and `CANDLE_NUM_THREADS` (default: all physical cores),
//! read once per process. The pool of the second spins: if other programs use the cores too, 1 is several times faster
//! than 2, and this workspace's `.cargo/config.toml` sets it for tests.
#![forbid(unsafe_code)]

mod attention;
mod backend;
mod device;
mod device_kinds;
mod experts;
mod masks;
mod matrix;
mod norms;
mod pointwise;
mod products;
mod reencode;
mod rope;
mod rows;
mod short_conv;
mod states;
mod tensors;
mod weights;

pub use backend::CandleBackend;
