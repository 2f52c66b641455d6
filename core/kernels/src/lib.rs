//! The arithmetic of a forward pass on a processor: slices in, slices out.
//!
//! This crate has no models, tensors or files. A function takes a [`Cpu`], the lengths it needs and `f32` slices.
//! Weights are the bytes of a GGUF file; keys and values are the bytes of a KV cache. The caller keeps track of layers,
//! sequences and positions.
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
//! // Three rows of activations. The cache holds the converted forms that products need.
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
//! A weight matrix is row-major. A row is a whole number of *blocks*: a block of a plain float type is one value, a
//! block of a quantized type is 32, 64 or 256 values with their scales ([`BlockType`] is a [`FloatType`] or a
//! [`QuantType`]). [`Matrix`] is a view of the bytes as they lie in the file. Nothing is repacked at load time, so a
//! mapped model needs no memory of its own and is ready at once.
//!
//! Every quantized format is described once, in `blocks`, by the trait `Format`: `expand` turns a block into integers
//! of at most eight bits, one scale per 16 or 32 of them and, for some formats, a minimum. This form gives
//! [`dequantize`] (bit for bit equal to ggml) and a product on every instruction set. Only the most used formats have
//! an unpacking of their own for an instruction set.
//!
//! # Matrix-vector and matrix-matrix products
//!
//! `y[t, r] = sum over k of w[r, k] * x[t, k]` is computed in two ways, which give the same bits.
//!
//! **Matrix-vector** (gemv): one row of activations, as when a token is generated. Each weight is used once, so memory
//! limits the speed. Blocks are multiplied where they lie, and the following blocks are prefetched. Partial sums of
//! several panels and weight rows are kept in vector lanes and reduced together (AVX-512: two panels of two rows for
//! wide formats; sixteen panels for narrow formats, of two rows if rows are long). A format may require the activations
//! in another layout, or their scales broadcast to lanes, which saves shuffles for every weight row
//! (`activations::{Layout, LaneScales}`).
//!
//! **Matrix-matrix** (gemm): many rows of activations, as in a prompt. Arithmetic limits the speed. A *tile* of
//! weights, 16 to 48 rows by 128 or 256 columns, is unpacked into the first-level cache with rows in vector lanes. Then
//! all tokens are multiplied with it, four at a time, and their partial results stay in the second-level cache
//! (`matmul::tiles`). [`Cpu::caches`] decides how many tokens form a pass. On AVX-512, formats with groups of the same
//! size, with or without minima, share the code that multiplies a tile (`blocks::GroupShape`).
//!
//! *Few rows*, as when some sequences generate together. AVX2 and NEON multiply up to four rows of activations with the
//! code for one: a block is unpacked once and multiplied with all of them. AVX-512, and the others from five rows on, use
//! tiles. Unpacking then takes most of the time, and with weights in main memory waiting for them. So a division into
//! tasks counts unpacking as work, AVX2 and AVX-512 multiply two tokens at once where no more are left, and while AVX-512
//! unpacks a tile for few tokens it requests the next one, a row at a time. An expert that gets one row of several is
//! computed like an input of one row.
//!
//! # A defined order of arithmetic
//!
//! Additions of f32 round, so a sum depends on its order. Each operation of this crate has one defined order, which
//! depends only on the values and their positions: **no result depends on the instruction set, on the number of
//! threads, on the sizes of the caches, on the other rows of the step or on their number.** What follows is enough to
//! write a kernel that agrees bit for bit. `fma(a, b, c)` is `a * b + c` rounded once, `+`, `-`, `*` and `/` round to
//! nearest, ties to even, and subnormal numbers are kept. The payload and sign of a NaN are not defined.
//! `menagerie-kernels-check`'s `ordered` is the same in plain code; tests compare every kernel with it, and check with
//! wrong orders that a difference would be noticed.
//!
//! ## Products of quantized weights, fast
//!
//! *Activations.* A row is cut into groups of 32 columns for the types with 32 or 64 values per block (*narrow*: Q4_0,
//! Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4, NVFP4) and of 256 columns for the others (*wide*). Per group, `m` is the
//! largest magnitude, `dx = m / 127`, and `i = 1 / dx`, but 0 if `dx` is below the smallest normal number. Each `qx` is
//! `x * i`, rounded to the nearest integer, ties to even.
//!
//! *Weights.* In wide types a value is `d * s * q - dmin * m`. `q` is an integer; `s` and `m` are integers that 16 or
//! 32 columns share; `d` and `dmin` are the f32 of the block's f16 factors. In IQ1 and IQ2 types `d` is an eighth of
//! the factor and in IQ3_XXS a quarter, which makes `s` and `q` integers. In narrow types a value is `s * q + m` with
//! f32 `s` and `m`.
//!
//! *Sums.* Columns are taken in *panels* of 256 that begin at multiples of 256, in ascending order; the last panel may
//! be shorter. `y` starts from 0. Integer sums are exact in 32 bits.
//!
//! * Wide, per panel (which is a block): `p` is the integer sum of `s * q * qx`, and `y = fma(f32(p), d * dx, y)`. With
//!   minima, `n` is then the integer sum of `m * qx`, and `y = fma(-f32(n), dmin * dx, y)`.
//! * Narrow, per panel: `t` starts from 0. Per group of 32 columns (NVFP4: 16), in ascending order, `p` is the integer
//!   sum of `q * qx`, and `t = fma(f32(p), s * dx, t)`. With minima, `n` is then the integer sum of `qx`, and
//!   `t = fma(m, dx * f32(n), t)`. At the end of the panel `y = y + t`.
//!
//! An activation that is not finite makes all results of its row NaN.
//!
//! ## Products in f32 and in bfloat16
//!
//! These apply to [`Arithmetic::Exact`] with every type and to F32 and F16 weights in [`Arithmetic::Fast`]. `w` are the
//! weights as [`dequantize`] returns them. A row is cut into panels of 128 columns that begin at multiples of 128; the
//! last panel may be shorter. `y` starts from 0. Per panel, in ascending order, there are eight sums, each from 0:
//! `s[j]` takes the panel's columns `j`, `8 + j`, `16 + j` and so on, `s[j] = fma(w, x, s[j])`. Then `t = s[0]`,
//! `t = t + s[j]` for `j` from 1 to 7, and `y = y + t`. (A gemv keeps the eight sums in lanes. A gemm has rows in lanes
//! and goes through a tile eight times: 7 more additions per 128 products.)
//!
//! BF16 weights in [`Arithmetic::Fast`], and F16 weights where [`HalfPrompts::BFloat16`] has an effect (they are then
//! rounded to bfloat16): activations are rounded to bfloat16; activations below 2^-47 and weights below 2^-63 count
//! as 0. Panels have 256 columns, and `s[j]` takes pairs of neighboring columns `2 p` and `2 p + 1`, with `p = j`,
//! `8 + j` and so on: first `s[j] = fma(w[2 p + 1], x[2 p + 1], s[j])`, then the same for the even column. This is the
//! operation of `vdpbf16ps`, except that the instruction takes subnormal numbers for 0. With the two bounds every
//! product is a multiple of 2^-124, so no subnormal number occurs.
//!
//! Products of low rank ([`add_low_rank`]) start from the value in the output and take the rank in ascending order,
//! fused.
//!
//! ## The sum of sixteen lanes
//!
//! `l[i] = l[i] + l[i + 8]` for `i` below 8, then `l[i] + l[i + 4]` below 4, `l[i] + l[i + 2]` below 2, `l[0] + l[1]`.
//!
//! ## Norms and softmax
//!
//! *Sums of a norm.* There are four vectors of sixteen lanes, from 0. Within every complete run of 64 elements, element
//! `i` goes to lane `i % 16` of vector `i / 16`. Of the remaining elements, complete runs of sixteen go to vector 0 and
//! the last, shorter run goes to vector 1. The total is `(v[0] + v[1]) + (v[2] + v[3])` and then the sum of the lanes.
//! An RMS norm adds `fma(x, x, sum)`. A layer norm first adds `sum + x`, then, with `c = x - mean`, `fma(c, c, sum)`.
//! `factor = 1 / sqrt(sum / n + eps)`, and elements are `(x - mean) * factor * weight + bias` from the left, every step
//! rounded.
//!
//! *Softmax.* `e = exp(x - largest)`; one vector of sums, element `i` to lane `i % 16`; `e * (1 / sum)`.
//!
//! ## Exponentials, activations and rotation
//!
//! `exp(x)`: `c` is `x` clamped to -86.9 and 88.75; `n = round(c * f32(log2 e))`, ties to even;
//! `r = fma(-n, 0.6933594, c)`, `r = fma(-n, -2.1219444e-4, r)`; `p` is Cephes' polynomial of degree 5 by Horner's
//! rule, every step fused; the result is `fma(p * r, r, r + 1)` times `2^n`, and 0 where `x` is below -86.9. The
//! hyperbolic tangent, the error function, softplus and all activations use it; their steps are those of
//! `ordered::functions`. The position of an element does not matter.
//!
//! *Rotation.* The angle is `f32(position) * inv_freq`. Its cosine and sine are computed in f64 by the crate `libm`,
//! which is the same code on every machine, rounded to f32 and multiplied by the magnitude.
//! `x' = fma(-y, sin, x * cos)`, `y' = fma(x, sin, y * cos)`.
//!
//! ## Routers and experts
//!
//! They belong to the crate `model`, whose tests compare them with a plain form; their order is stated here so that all
//! of it is in one place. A softmax subtracts the largest logit from each logit, takes `libm`'s `expf`, adds the
//! results in ascending order of the index and divides each by the sum. Of equal scores the lower index is chosen. The
//! weights of the chosen experts are added best first, divided by that sum, and then scaled. The outputs of a row's
//! experts are added best first, from 0: `y = y + weight * x`, both steps rounded.
//!
//! # What limits the slow types
//!
//! *Gemv, AVX-512 with permutations of bytes.* A codebook is two planes of bytes, each of which has half of every entry
//! (`matmul::avx512::planes`). 64 entries are looked up at a time: the blocks of two rows for IQ1 and IQ2, one block
//! for IQ3. A plane of 256, 512, 1,024 or 2,048 entries takes 2, 4, 8 or 16 permutations of two tables, and one
//! selection fewer. The planes of IQ2_XXS, IQ2_XS and IQ3 stay in registers; IQ2_S reads 32 vectors of tables per four
//! blocks. In the codebook of IQ1 the second half of an entry changes at most once among sixteen neighbors, so it takes
//! 2 permutations of tables of 128; the first half is not regular and takes 16. Four blocks of IQ1_S (200 bytes, two
//! panels of two rows) take 52 permutations, 30 selections, 16 products, about 110 vector loads, of which two execute
//! per cycle, and about 50 other instructions: 55 cycles for the loads alone, about 100 measured (Zen 5), which is 7.9
//! GB/s per core at 4 GHz from the cache. IQ1_M takes 105 cycles for 224 bytes, IQ2_S 75 for 328, the others 50 to 80
//! for 216 to 440. So memory limits IQ1 only if a core reads no more than that.
//!
//! Tiles look up codebooks of 256 and 512 entries as words, 32 at a time (`matmul::avx512::codebook`), and read larger
//! ones entry by entry.
//!
//! *Gemm of Q6_K, AVX-512.* For 16 rows, one token and 256 columns there are 64 products of bytes and, because a scale
//! covers 16 columns, 8 products of pairs of 16 bits (Q4_K: 64 and 4, and 4 for the minima); the limit of the int8 rate
//! counts only the 64. Scales come in pairs, which saves half of 16 multiplications (`matmul::avx512::multiply_wide`):
//! the sum of a group rarely needs more than 16 bits, and if it does, the tile is multiplied again with 32.
//!
//! # Fast and exact
//!
//! [`Arithmetic::Exact`] widens weights to f32. [`Arithmetic::Fast`] rounds activations to 8 bits for the quantized
//! types, as llama.cpp does (its `Q8_0` and `Q8_K`), and multiplies integers; BF16 weights are multiplied with
//! activations rounded to bfloat16. F32 and F16 weights are multiplied in f32 in both, unless [`HalfPrompts::BFloat16`]
//! selects the faster, coarser way. The rounded forms of an input are computed at their first use and kept in its
//! [`ActivationCache`], which the products of the same input (q, k and v) share.
//!
//! # Instruction sets and the safety argument
//!
//! Nothing is chosen at compile time. A new [`Cpu`] detects its [`Isa`] and keeps a *token*: a value of type `Avx2`,
//! `Avx512` or `Neon` that only detection can create (`isa::level`). A token is the proof that functions compiled for
//! these features may be called, and every choice of a kernel starts from one:
//!
//! * The elementwise kernels, norms, rope, softmax and attention are written once over the trait `Simd`, sixteen f32
//!   lanes, which the tokens implement.
//! * The products are tables, `matmul::types::IsaKernels`, which the tokens implement too. A `Kernel` has the form of
//!   its activations as its type and checks the type of the weights. So a wrong kernel does not compile with other
//!   activations and panics with other weights.
//!
//! `Isa::Portable` is plain Rust and runs everywhere. The others are compared with it and with the f64 forms of the
//! crate `menagerie-kernels-check`. Where the target's baseline has no fused multiply-add, as on x86-64, it is computed
//! in f64 (`simd::fused`) or by the C library: the same bits, slowly.
//!
//! # The pool and its memory
//!
//! A [`Cpu`] owns one [`Pool`], shared by its clones. A kernel opens a *region*: the workers and the caller take tasks
//! dynamically. Between regions workers spin for some microseconds, because a token has hundreds of regions, and then
//! sleep. A panic in a task is an error of that call. A region inside a task runs inline. Callers on several threads
//! take turns.
//!
//! Each worker owns a *scratch* that its tasks use (tiles, partial results). The large buffers of a step (rounded
//! activations, partial results of attention) return to the pool when they are dropped, so they are allocated once. The
//! caller owns the results; an application should call [`keep_large_buffers`] once, so that their memory is reused too.
//!
//! # Attention
//!
//! [`attention`] reads keys and values where the cache has them ([`KvRows`]: pages, of which the first ones of a window
//! may have been dropped), for any number of sequences at once, with grouped heads, the masks in use, soft caps, linear
//! biases and sinks. One kernel serves sequences with one row (decode): it reads each key once for all heads of a group
//! and is cut at every 512th position, so that all threads have work. The other serves more rows (prefill): it widens a
//! block of keys and values into tiles. Both follow one order, which the module `ordered::attention` of
//! `menagerie-kernels-check` states in code:
//!
//! * A **score**: the query is multiplied by the scale first. Chain `j` of four, from 0, takes the elements `j`,
//!   `j + 4`, `j + 8` ... of the head, each step fused; the score is `((c0 + c1) + c2) + c3`. (In decode, four keys lie
//!   in the four quarters of a vector and the chains in their lanes, which costs a few shuffles of stored numbers per
//!   key. In prefill, sixteen keys lie in the lanes, and there are three more additions than one chain would take.)
//!   Then the soft cap is applied, then the bias of the distance: fused for slopes, added for tables.
//! * Keys come in **blocks** of 64 at absolute positions. A row's maximum changes at most once per block; if it does,
//!   the sum and the values are multiplied by `exp(old - new)`. Weights `exp(score - maximum)` are added into sixteen
//!   lanes (the key at position `p` into lane `p % 16`, ascending), the lanes as a tree of halves, and the result to
//!   the row's sum. Values are one fused chain per element over ascending keys, which continues from block to block.
//! * At every 512th absolute position a **part** begins, with empty sums. Parts are merged in ascending order:
//!   `m = max(m1, m2)`, then sum and values `fma(new, exp(m2 - m), old * exp(m1 - m))`.
//! * At the end a sink `z` is included: with `m = max(maximum, z)` the factor is
//!   `exp(maximum - m) / (sum * exp(maximum - m) + exp(z - m))`, without a sink it is `1 / sum`; every element is
//!   multiplied by it.
//! * A key outside a row's mask is **skipped**. It is not multiplied by a weight of 0, because that would turn an
//!   infinite or NaN value into a NaN result, and negative zeros into positive ones. Rows of one tile with different
//!   masks process the keys that all of them see together, and the other keys row by row.
//!
//! Latent attention has no order of its own: queries are multiplied with the key projection and attend to the latents,
//! one stored head for all ([`attention_to_one_head`]), in decode as in prefill. Expanding the keys and values of a
//! prompt from its latents would take a third of the multiplications per pair of tokens, but give other sums; decode
//! could match them only by expanding all of them at every step.
//!
//! # Recurrences
//!
//! [`linear_attention`] (Mamba-2, delta nets) and [`selective_scan`] (Mamba) process a sequence row by row with the
//! state in the first-level cache: stripes of columns of a head's state, or vectors of channels, over all rows of a
//! call, in parallel over heads and channels. No buffer grows with the square of the number of rows, and a row's result
//! has the same bits wherever a sequence is cut. The blocked forms that turn a delta net into products (WY) would save
//! nothing here: per row and head they take three multiplications with the state and the products within a block, where
//! two passes over a state in the cache take four.
//!
//! The order is the same for every cell of a state: `new = fma(key, change, decay * old)`, row after row. The output of
//! a row is one fused chain per column over ascending elements of the key. In the delta rule the chains are over
//! `decay * key` and `decay * query` and the old state, and the product of key and query (sixteen lanes and the tree)
//! times the change is fused onto the end. A skip is fused onto the result. In a selective scan the chain begins with
//! `skip * x` and goes over ascending cells. A short convolution is a fused chain from 0 over ascending taps. All of it
//! is `ordered` in `menagerie-kernels-check`.
//!
//! # Encoding
//!
//! [`encode`] converts f32 to blocks: sixteen groups at a time, one per lane, each with the scale of the least weighted
//! square error among several candidates. No step is fused, so the bytes are the same on every instruction set.
//!
//! # Adding a block type
//!
//! 1. A line in `blocks/types.rs` (name, id, values and bytes per block).
//! 2. A `Format` in the file of its family under `blocks/`, with `WideFormat` for blocks of 256, and its line in
//!    `with_width!`, which refuses to compile if the sizes differ. NEON, the portable kernels and many rows on AVX2
//!    follow from it.
//! 3. Its line in the two matches of `matmul/avx512/mod.rs`, `Unpack<F>` or `UnpackWide<F>` until there is something
//!    better, and its `Avx2GemvFormat` in `matmul/avx2/gemv_*.rs`.
//! 4. Its `Encode` under `encode/`, and its line in `with_encoder!`.
//! 5. Where its f16 factors lie, in `menagerie-kernels-check`'s `weights.rs`, and in its `ordered::product` what power
//!    of two makes its scales whole, if any. The tests then cover it; reference values come with
//!    `tests/fixtures/quant`.
//!
//! # Adding an instruction set
//!
//! A variant of [`Isa`] and a token in `isa/level.rs`; `impl Simd` for the token in `simd/`; `impl IsaKernels` for it
//! in a folder of `matmul/` (it may hand what it lacks to another token that it implies, or to `Portable`); its arms in
//! `simd::dispatch_at`, `matmul::plan::kernels` and `activations::int8`. Every test runs on all of [`Isa::available`].

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
