//! Devices as backends: operations of a forward over candle-core and candle-nn, for CUDA, Metal and candle's own CPU.
//!
//! Start at [`CandleBackend`]; its devices are registered as [`menagerie_model::DeviceKind`]s. Its CPU form (`candle`) computes the same operations in
//! the same order as the GPUs' and is how this crate is tested everywhere; for speed on a CPU there is another backend.
//!
//! Rows are contiguous f32 tensors `[T, D]` that begin at offset 0. Weights are candle's quantized tensors where it has
//! the block type, else what [`menagerie_model::Backend::notes`] says. Keys and values lie in
//! `[kv_heads, slots, head_dim]` tensors of f32 or f16, pages being runs of slots, so that a sequence whose pages
//! follow each other is read where it lies.
//!
//! # What passes through host memory in a step
//! Up: token ids, indices of selected rows, cosines and sines once per rope, masks once per shape of them, factors of
//! rows, and per mixture of experts the rows and weights of its plan. Down: router logits (the choice of experts is
//! made on the host) and the logits that were asked for. Nothing else is read back, and no operation is computed
//! elsewhere: what has no form here is refused when the model is assembled.
//!
//! # Threads
//! On the CPU candle takes its threads from `RAYON_NUM_THREADS` and `CANDLE_NUM_THREADS` (absent: all physical cores),
//! read once per process. The pool of the second spins: where others use the cores too, 1 is several times faster than
//! 2, and this workspace's `.cargo/config.toml` sets it for tests.
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
mod taken;
mod tensors;

pub use backend::CandleBackend;
