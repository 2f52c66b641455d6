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
//! the quantized types 32, 64 or 256 of them with their scales ([`BlockType`] is a [`FloatType`] or a [`QuantType`]).
//! [`Matrix`] is a view of the bytes as they lie in the file; nothing is repacked at load, so a mapped model costs no
//! memory of its own and is ready at once.
//!
//! Every quantized format is described once, in `blocks`, by the trait `Format`: `expand` turns a block into whole
//! numbers of at most eight bits, one scale per 16 or 32 of them and, for some formats, a minimum. From this one form
//! follow [`dequantize`] (bit for bit ggml's) and a product on every instruction set; only the formats that people run
//! most have an unpacking of their own per instruction set.
//!
//! # Products: one row and many
//!
//! `y[t, r] = sum over k of w[r, k] * x[t, k]` is computed in two ways, which give the same bits. With **one row** of
//! activations (a token being generated) each weight is used once, and the speed is that of memory: blocks are multiplied
//! where they lie, what comes next is asked for in time, and what several panels of several rows of weights leave behind is
//! reduced together, in the lanes of vectors (on AVX-512 two panels of two rows for wide formats; for narrow ones sixteen
//! panels, of two rows where rows are long). A format may want the activations in an order of its own, or their scales
//! spread over lanes, which spares it shuffles for every row of weights (`activations::{Layout, LaneScales}`).
//! With **many rows** (a prompt) the speed is that of arithmetic: a *tile* of
//! weights, 16 to 48 rows by 128 or 256 columns, is unpacked into the first-level cache with the rows in the lanes of
//! vectors, and then all tokens run over it, four at a time, their results waiting in the second-level cache
//! (`matmul::tiles`). How many tokens go together follows [`Cpu::caches`].
//!
//! # A defined order of arithmetic
//!
//! Additions of f32 round, so that a sum depends on its order. Here each operation has one, which depends on nothing but
//! the values and their positions: **no result depends on the instruction set, on the number of threads, on the sizes of the
//! caches, on the other rows of the step or on their number.** What follows is enough to write a kernel that agrees bit
//! for bit. `fma(a, b, c)` is `a * b + c` rounded once, `+`, `-`, `*` and `/` round to nearest, ties to even, and subnormal
//! numbers are kept. Which NaN a NaN is is not defined. `menagerie-kernels-check`'s `ordered` is the same in plain code;
//! tests hold every kernel to it, and plant wrong orders to see that they would be noticed.
//!
//! ## Products of quantized weights, fast
//!
//! *Activations.* A row is cut into groups of 32 columns for the types of 32 and 64 values per block (*narrow*: Q4_0, Q4_1,
//! Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4, NVFP4) and of 256 for the others (*wide*). Of each group: `m` the largest magnitude,
//! `dx = m / 127`, `i = 1 / dx`, but 0 if `dx` is below the smallest normal number, and each `qx = x * i`, rounded to
//! the nearest whole number, ties to even.
//!
//! *Weights.* A value is `d * s * q - dmin * m` in wide types, with `q` and, for its 16 or 32 columns, `s` and `m` whole
//! numbers and `d` and `dmin` the f32 of the block's f16 factors; in IQ1 and IQ2 types `d` is an eighth of the factor, in
//! IQ3_XXS a quarter, so that `s` and `q` are whole. In narrow types it is `s * q + m` with f32 `s` and `m`.
//!
//! *Sums.* Columns are taken in *panels* of 256 that begin at multiples of 256, in ascending order; the last may be shorter.
//! `y` starts from 0. Whole sums are exact in 32 bits.
//!
//! * Wide, per panel (a block): `p` is the whole sum of `s * q * qx`, and `y = fma(f32(p), d * dx, y)`. With minima then
//!   `n` is the whole sum of `m * qx`, and `y = fma(-f32(n), dmin * dx, y)`.
//! * Narrow, per panel: `t` starts from 0. Per group of 32 columns (NVFP4: 16), in ascending order, `p` is the whole sum of
//!   `q * qx`, and `t = fma(f32(p), s * dx, t)`; with minima then `n` is the whole sum of `qx`, and
//!   `t = fma(m, dx * f32(n), t)`. At the end of the panel `y = y + t`.
//!
//! An activation that is not finite makes all its row's results NaN.
//!
//! ## Products in f32, and of bfloat16
//!
//! [`Arithmetic::Exact`] of every type, and F32 and F16 weights in [`Arithmetic::Fast`]. `w` are the weights as
//! [`dequantize`] gives them. A row is cut into panels of 128 columns that begin at multiples of 128; the last may be
//! shorter. `y` starts from 0. Per panel, in ascending order, there are eight sums, each from 0: `s[j]` takes the panel's
//! columns `j`, `8 + j`, `16 + j` and so on, `s[j] = fma(w, x, s[j])`. Then `t = s[0]`, `t = t + s[j]` for `j` from 1 to 7,
//! and `y = y + t`. (One row keeps the eight sums in lanes. Many rows, which are in the lanes themselves, go through a tile
//! eight times: 7 additions more for 128 products.)
//!
//! BF16 weights in [`Arithmetic::Fast`], and F16 weights where [`HalfPrompts::BFloat16`] has an effect, then rounded to
//! bfloat16: activations are rounded to bfloat16, those below 2^-47 are 0 and so are weights below 2^-63. Panels have 256
//! columns, and `s[j]` takes pairs of neighboring columns `2 p` and `2 p + 1`, `p = j`, `8 + j` and so on: first
//! `s[j] = fma(w[2 p + 1], x[2 p + 1], s[j])`, then the even column alike. This is what `vdpbf16ps` does, but for subnormal
//! numbers, which it takes for 0: with the two bounds every product is a multiple of 2^-124, and none occurs.
//!
//! Products of low rank ([`add_low_rank`]) start from what is there and take the rank in ascending order, fused.
//!
//! ## The sum of sixteen lanes
//!
//! `l[i] = l[i] + l[i + 8]` for `i` below 8, then `l[i] + l[i + 4]` below 4, `l[i] + l[i + 2]` below 2, `l[0] + l[1]`.
//!
//! ## Norms and softmax
//!
//! *Sums of a norm.* There are four vectors of sixteen lanes, from 0. Element `i` of every whole 64 goes to lane `i % 16` of
//! vector `i / 16`. Of what is left whole sixteens go to vector 0, and fewer than sixteen to vector 1. Then
//! `(v[0] + v[1]) + (v[2] + v[3])`, and the sum of the lanes. An RMS norm adds `fma(x, x, sum)`; a layer norm first
//! `sum + x`, then with `c = x - mean` `fma(c, c, sum)`. `factor = 1 / sqrt(sum / n + eps)`, and elements are
//! `(x - mean) * factor * weight + bias` from the left, every step rounded.
//!
//! *Softmax.* `e = exp(x - largest)`; one vector of sums, element `i` to lane `i % 16`; `e * (1 / sum)`.
//!
//! ## Exponentials, activations and rotation
//!
//! `exp(x)`: `c` is `x` between -86.9 and 88.75; `n = round(c * f32(log2 e))`, ties to even; `r = fma(-n, 0.6933594, c)`,
//! `r = fma(-n, -2.1219444e-4, r)`; `p` is Cephes' polynomial of degree 5 by Horner's rule, every step fused;
//! `fma(p * r, r, r + 1)` times `2^n`, and 0 where `x` is below -86.9. Hyperbolic tangent, error function, softplus and all
//! activations stand on it; their steps are those of `ordered::functions`. An element's place does not matter.
//!
//! *Rotation.* Angle `f32(position) * inv_freq`; cosine and sine of it in f64 by the crate `libm`, which is the same code
//! on every machine, rounded to f32 and multiplied by the magnitude. `x' = fma(-y, sin, x * cos)`,
//! `y' = fma(x, sin, y * cos)`.
//!
//! ## Routers and experts
//!
//! They belong to the crate `model`, and their order is here so that it is all in one place; its tests hold it to a plain form.
//! A softmax takes `libm`'s `expf` of what is left of each logit after the largest, adds them up in ascending order, and divides
//! each by the sum. Of equal scores the lower index is chosen. The weights of the chosen are added up best first, divided by that
//! sum, and then scaled. What the experts give a row is added up best first, from 0: `y = y + weight * x`, both steps rounded.
//!
//! # What bounds the slow types
//!
//! One row of activations, AVX-512 with permutations of bytes: code books are two planes of bytes, each half of an entry
//! (`matmul::avx512::planes`), looked up 64 entries at a time, which are two rows' blocks of IQ1 and IQ2 and one block of
//! IQ3. A plane of 256, 512, 1,024 or 2,048 entries is 2, 4, 8 or 16 permutations of two tables and one selection fewer.
//! The planes of IQ2_XXS, IQ2_XS and IQ3 lie in registers; IQ2_S reads 32 vectors of tables for four blocks. In the book
//! of IQ1 the second half of an entry changes once at most among sixteen neighbors, so that it is 2 permutations of
//! tables of 128; the first half is 16, and nothing in it is regular. For four blocks of IQ1_S (200 bytes, two panels of
//! two rows) that is 52 permutations, 30 selections, 16 products, some 110 loads of vectors, of which two can be had in a
//! cycle, and some 50 others: 55 cycles by the loads alone, some 100 measured (Zen 5), 7.9 GB/s a core at 4 GHz out of
//! the cache. IQ1_M is 105 for 224 bytes, IQ2_S 75 for 328, the others 50 to 80 for 216 to 440. So IQ1 is bound by memory
//! only where a core reads no more than that.
//!
//! Tiles take books of 256 and 512 entries as words, 32 at a time (`matmul::avx512::books`), and read the larger ones
//! entry by entry.
//!
//! Prompts of Q6_K with AVX-512: for 16 rows, one token and 256 columns there are 64 products of bytes and, because the scales
//! belong to 16 columns, 8 products of pairs of 16 bits (Q4_K: 64 and 4, and 4 for the minima), where the limit of the int8 rate
//! counts the 64 alone. Before the scales came in pairs there were 16 multiplications (`matmul::avx512::wide_multiply`): a sum
//! of a group rarely needs more than 16 bits, and if it does, the tile is multiplied again with 32.
//!
//! # Fast and exact
//!
//! [`Arithmetic::Exact`] widens weights to f32. [`Arithmetic::Fast`] rounds activations to 8 bits for the quantized
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
//! crate `menagerie-kernels-check`. Where the target's baseline has no fused multiply-add, as that of x86-64, it is computed
//! in f64 (`simd::fused`) or by the C library: the same bits, slowly.
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
//! biases and sinks. There is a kernel for sequences with one row (decode), which reads each key once for all heads of a group
//! and is cut at every 512th position so that all threads have something to do, and one for more rows, which widens a block
//! of keys and values into tiles. Both follow one order, which the guide's other half, the module `ordered::attention` of
//! `menagerie-kernels-check`, states in code:
//!
//! * A **score**: the query is multiplied by the scale first. Chain `j` of four, from 0, takes the elements `j`, `j + 4`,
//!   `j + 8` ... of the head, each step fused; the score is `((c0 + c1) + c2) + c3`. (With one row, four keys lie in the four
//!   quarters of a vector and the chains in their lanes: that costs a few shuffles of stored numbers per key. With many rows,
//!   sixteen keys lie in the lanes and three additions are more than one chain would take.) Then the soft cap, then what the
//!   distance adds: fused for slopes, added for tables.
//! * Keys come in **blocks** of 64 at absolute positions. A row's maximum moves once per block; if it does, sum and values are
//!   multiplied by `exp(old - new)`. Weights `exp(score - maximum)` are added into sixteen lanes (the key at position `p` into
//!   lane `p % 16`, ascending), the lanes as a tree of halves, and that to the row's sum. Values are one chain per element over
//!   ascending keys, fused, which goes on from block to block.
//! * At every 512th absolute position a **part** begins, with nothing. Parts are put together in ascending order:
//!   `m = max(m1, m2)`, then sum and values `fma(new, exp(m2 - m), old * exp(m1 - m))`.
//! * At the end a sink `z` joins: with `m = max(maximum, z)` the factor is `exp(maximum - m) / (sum * exp(maximum - m) +
//!   exp(z - m))`, without it `1 / sum`; every element is multiplied by it.
//! * A key that a row does not see **takes no part**: it is not multiplied by a weight of 0, which would turn a value that is
//!   no number into a result that is none, and negative zeros into positive ones. Rows of one tile that see different keys
//!   share those that all see, and go over the rest each for itself.
//!
//! Latent attention has no order of its own: queries are multiplied with the products of the keys and attend to the latents,
//! one stored head for all ([`attention_to_one_head`]), whether one row comes or a prompt. Making the keys and values of a
//! prompt out of its latents is a third of the multiplications per pair of tokens, and other sums: the step for one token
//! could follow it only by making all of them again.
//!
//! # Recurrences
//!
//! [`linear_attention`] (Mamba-2, delta nets) and [`selective_scan`] (Mamba) run a sequence row by row with the state in the
//! first-level cache: stripes of columns of a head's state, or vectors of channels, over all rows of a call, in parallel
//! over heads and channels. Nothing is as large as the number of rows squared, and a row's result is the same bits however
//! a sequence is cut. The blocked forms that turn a delta net into products (WY) would save nothing here: per row and head
//! they multiply three times the state and the products within a block; two passes over a state in the cache are four.
//!
//! The order is the same for every cell of a state: `new = fma(key, change, decay * old)` row after row; what a row reads is
//! one fused chain per column over ascending elements of the key, in the delta rule over `decay * key` and `decay * query` and
//! the old state, with the product of key and query (sixteen lanes and the tree) times the change fused onto it at the end. A
//! skip is fused onto the result. In a selective scan the chain begins with `skip * x` and goes over ascending cells. A short
//! convolution is a fused chain from 0 over ascending taps. All of it is `ordered` in `menagerie-kernels-check`.
//!
//! # Encoding
//!
//! [`encode`] is the way back, f32 to blocks: sixteen groups at a time, one to a lane, each with the scale of the least weighted
//! square error among several candidates. Nothing is fused, so the bytes are the same on every instruction set.
//!
//! # Adding a block type
//!
//! 1. A line in `blocks/types.rs` (name, id, values and bytes per block).
//! 2. A `Format` in the file of its family under `blocks/`, with `WideFormat` for blocks of 256, and its line in
//!    `with_width!`, which refuses to compile if the sizes differ. NEON, the portable kernels and many rows on AVX2 follow
//!    from it.
//! 3. Its line in the two matches of `matmul/avx512/mod.rs`, `Unpack<F>` or `UnpackWide<F>` until there is something better,
//!    and its `Gemv` in `matmul/avx2/one_*.rs`.
//! 4. Its `Encode` under `encode/`, and its line in `with_encoder!`.
//! 5. Where its f16 factors lie, in `menagerie-kernels-check`'s `weights.rs`, and in its `ordered::product` what power of two
//!    makes its scales whole, if any. The tests then cover it; reference values come with `tests/fixtures/quant`.
//!
//! # Adding an instruction set
//!
//! A variant of [`Isa`] and a token in `isa/level.rs`; `impl Simd` for the token in `simd/`; `impl IsaKernels` for it in
//! a folder of `matmul/` (it may hand what it lacks to another token that it implies, or to `Portable`); its arms in
//! `simd::dispatch_at`, `matmul::plan::kernels` and `activations::quantize`. Every test runs on all of
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
pub use attention::{AttentionBiases, AttentionSequence, alibi_slope, attention, attention_to_one_head};
pub use blocks::{BlockType, FloatType, Matrix, QuantType, dequantize};
pub use caches::Caches;
pub use cpu::{Cpu, CpuOptions, HalfPrompts};
pub use encode::{encode, largest_encodable, needs_importance};
pub use error::KernelError;
pub use isa::Isa;
pub use kv::{KvRows, load_rows, store_rows};
pub use linear_attention::{LinearAttentionRows, LogDecay, linear_attention};
pub use low_rank::{LowRankSum, LowRankTerm, add_low_rank};
pub use matmul::{ExpertRows, Gemv, matmul, matmul_each, matmul_experts, matmul_many};
pub use memory::{Zero, Zeroed};
pub use menagerie_formulas::{
    Activation, Arithmetic, AttentionShape, Gating, KeySharing, KvType, LinearAttentionShape, Mask,
    RopePairs, StateUpdate, Xielu,
};
pub use norm::{LayerNorm, layer_norm, rms_norm};
pub use pointwise::{activate, add, add_bias, gated, multiply, scale, scale_rows, sigmoid, softcap};
pub use pool::Pool;
pub use rope::{Rope, RopeTable, rope, rope_with};
pub use selective_scan::{SelectiveScan, selective_scan};
pub use short_conv::short_conv;
pub use softmax::softmax_rows;
