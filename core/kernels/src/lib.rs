//! The arithmetic of a forward pass on a processor: slices in, slices out.
//!
//! Nothing here knows a model, a tensor or a file. A function is given a [`Cpu`], the lengths it needs and `f32` slices;
//! weights come as the bytes of a GGUF file, keys and values as the bytes of a cache. Everything else that a step
//! keeps (which layer, which sequence, which position) belongs to the caller.
//!
//! ```
//! use menagerie_kernels::*;
//!
//! let cpu = Cpu::new(None)?;
//! // Two rows of 32 weights in Q8_0: per block an f16 scale (here 0.5) and 32 signed bytes.
//! let mut bytes = Vec::new();
//! for weight in [1i8, -2] {
//!     bytes.extend(0x3800u16.to_le_bytes());
//!     bytes.extend([weight as u8; 32]);
//! }
//! let w = Matrix::new(BlockType::Q8_0, 2, 32, &bytes)?;
//! // Three rows of activations; what products make of them is kept in the cache.
//! let x: Vec<f32> = (0..3 * 32).map(|i| (i / 32) as f32).collect();
//! let cache = ActivationCache::default();
//! let x = Activations::new(&x, 3, 32, &cache)?;
//! let mut y = vec![0.0; 3 * 2];
//! matmul(&cpu, Arithmetic::Exact, &w, &x, &mut y)?;
//! assert_eq!(y, [0.0, 0.0, 16.0, -32.0, 32.0, -64.0]);
//!
//! softmax_rows(&cpu, &mut y, 2)?;
//! assert_eq!(y[..2], [0.5, 0.5]);
//! # Ok::<(), KernelError>(())
//! ```
//!
//! # Blocks
//!
//! A weight matrix is row-major, and a row is a whole number of *blocks*: for the plain floats a block is one value, for
//! the quantised types 32, 64 or 256 of them with their scales ([`BlockType`] is a [`FloatType`] or a [`QuantType`]).
//! [`Matrix`] is a view of the bytes as they lie in the file; nothing is repacked at load, so a mapped model costs no
//! memory of its own and is ready at once.
//!
//! Every quantised format is described once, in `blocks`, by the trait `Format`: `expand` turns a block into whole
//! numbers of at most eight bits, one scale per 16 or 32 of them and, for some formats, a minimum. From this one form
//! follow [`dequantise`] (bit for bit ggml's) and a product on every instruction set; only the formats that people run
//! most have an unpacking of their own per instruction set.
//!
//! # Products: one row and many
//!
//! `y[t, r] = sum over k of w[r, k] * x[t, k]` has two classes of kernel. With **one row** of activations (a token
//! being generated) each weight is used once, and the speed is that of memory: blocks are multiplied where they lie, and
//! what comes next is asked for in time. With **many rows** (a prompt) the speed is that of arithmetic: a *tile* of
//! weights, 16 to 48 rows by 128 or 256 columns, is unpacked into the first-level cache with the rows in the lanes of
//! vectors, and then all tokens run over it, four at a time, their results waiting in the second-level cache
//! (`matmul::tiles`). How many tokens go together follows [`Cpu::caches`].
//!
//! The class goes by the whole input, and within a class each element is summed in a fixed order. **No result depends on
//! the number of threads, on the sizes of the caches or on the other rows of the step**; tests hold every type and
//! instruction set to that.
//!
//! # Fast and exact
//!
//! [`Arithmetic::Exact`] widens weights to f32. [`Arithmetic::Fast`] rounds activations to 8 bits for the quantised
//! types, just as llama.cpp does (its `Q8_0` and `Q8_K`), and multiplies whole numbers; BF16 weights meet activations
//! rounded to bfloat16. F32 and F16 weights are multiplied in f32 either way, unless [`HalfPrompts::BFloat16`] asks for
//! the faster, coarser way. The rounded forms of an input are made when first wanted and kept in its
//! [`ActivationCache`], which the products of the same input (q, k and v) share.
//!
//! # Instruction sets and the one safety argument
//!
//! Nothing is chosen at compile time. When a [`Cpu`] is made, a *token* is sought for its [`Isa`]: a value of type
//! `Avx2`, `Avx512` or `Neon` that only detection can make (`isa::level`). Holding one is the proof that functions
//! compiled for those features may be called, and every choice starts from it:
//!
//! * the elementwise kernels, norms, rope, softmax and attention are written once over the trait `Simd`, sixteen f32
//!   lanes, which the tokens implement;
//! * the products are tables, `matmul::types::IsaKernels`, which the tokens implement too. A `Kernel` is typed by the
//!   form of activations it reads and checks the type of the weights it is given, so that a wrong one can neither be
//!   chosen nor, if it were, do anything but panic.
//!
//! `Isa::Portable` is plain Rust and runs everywhere; the others are held against it and against the f64 forms of the
//! crate `menagerie-kernels-check`.
//!
//! # The pool, and where memory comes from
//!
//! A [`Cpu`] owns one [`Pool`], shared by its clones. A kernel opens a *region*: tasks are taken dynamically by the
//! workers and the caller. Workers spin for some microseconds between regions, because a token has hundreds of them,
//! then they sleep. A panic in a task is an error of that call; a region inside a task runs inline; callers on several
//! threads take turns.
//!
//! Each worker owns a *scratch* that it lends to its tasks (tiles, running results); the large buffers of a step (rounded
//! activations, parts of attention) go back to the pool when they are dropped. What is large is so allocated once; the
//! results are the caller's, and an application should call [`keep_large_buffers`] once for their sake.
//!
//! # Attention
//!
//! [`attention`] reads keys and values where the cache has them ([`KvRows`]: pages, of which a window's first ones may
//! have been dropped), for any number of sequences at once, with grouped heads, the [`Mask`]s in use, soft caps, linear
//! biases and sinks. Softmax is streamed over blocks of 64 keys at fixed positions; a single row is cut at every 512th position
//! so that all threads have something to do.
//!
//! # Recurrences
//!
//! [`linear_attention`] (Mamba-2, delta nets) and [`selective_scan`] (Mamba) run a sequence row by row with the state in the
//! first-level cache: stripes of columns of a head's state, or vectors of channels, over all rows of a call, in parallel
//! over heads and channels. Nothing is as large as the number of rows squared, and a row's result is the same bits however
//! a sequence is cut. The blocked forms that turn a delta net into products (WY) would save nothing here: per row and head
//! they multiply three times the state and the products within a block; two passes over a state in the cache are four.
//!
//! # Encoding
//!
//! [`encode`] is the way back, f32 to blocks: sixteen groups at a time, one to a lane, each with the scale of the least weighted
//! square error among several candidates. Nothing is fused, so the bytes are the same on every instruction set.
//!
//! # Adding a block type
//!
//! 1. A line in `blocks/types.rs` (name, id, values and bytes per block).
//! 2. A `Format` in the file of its family under `blocks/`, and its line in `with_format!`, which refuses to compile if
//!    the sizes differ. AVX2, NEON and the portable kernels follow from it.
//! 3. Its line in the two matches of `matmul/avx512/mod.rs`: `Unpack<F>` until there is something better.
//! 4. Its `Encode` under `encode/`, and its line in `with_encoder!`.
//! 5. Where its f16 factors lie, in `menagerie-kernels-check`'s `weights.rs`. The tests then cover it; reference values
//!    come with `tests/fixtures/quant`.
//!
//! # Adding an instruction set
//!
//! A variant of [`Isa`] and a token in `isa/level.rs`; `impl Simd` for the token in `simd/`; `impl IsaKernels` for it in
//! a folder of `matmul/` (it may hand what it lacks to another token that it implies, or to `Portable`); its arms in
//! `simd::dispatch_at`, `matmul::plan::kernels` and `activations::quantise`. Every test runs on all of
//! [`Isa::available`].

#![warn(clippy::missing_errors_doc)]

mod activations;
mod allocator;
mod attention;
mod blocks;
mod caches;
mod cpu;
mod encode;
mod error;
mod isa;
mod kv;
mod linear_attention;
mod low_rank;
mod matmul;
mod memory;
mod norm;
mod pointwise;
mod pool;
mod rope;
mod selective_scan;
mod short_conv;
mod simd;
mod softmax;

pub use activations::{ActivationCache, Activations};
pub use allocator::keep_large_buffers;
pub use attention::{
    AttentionBiases, AttentionSequence, AttentionShape, Mask, alibi_slope, attention, attention_to_one_head,
};
pub use blocks::{BlockType, FloatType, Matrix, QuantType, dequantise};
pub use caches::Caches;
pub use cpu::{Cpu, CpuOptions, HalfPrompts};
pub use encode::{encode, largest_encodable, needs_importance};
pub use error::KernelError;
pub use isa::Isa;
pub use kv::{KvRows, KvType, load_rows, store_rows};
pub use linear_attention::{
    KeySharing, LinearAttention, LinearAttentionRows, LogDecay, StateUpdate, linear_attention,
};
pub use low_rank::{LowRankSum, LowRankTerm, add_low_rank};
pub use matmul::{Arithmetic, ExpertRows, OneRow, matmul, matmul_each, matmul_experts, matmul_many};
pub use memory::{Zero, Zeroed};
pub use norm::{LayerNorm, layer_norm, rms_norm};
pub use pointwise::{
    Activation, Gating, Xielu, activate, add, add_bias, gated, multiply, scale, scale_rows, sigmoid, softcap,
};
pub use pool::Pool;
pub use rope::{Rope, RopePairs, RopeTable, rope, rope_with};
pub use selective_scan::{SelectiveScan, selective_scan};
pub use short_conv::short_conv;
pub use softmax::softmax_rows;
