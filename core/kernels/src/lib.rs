//! menagerie-kernels.

mod activation;
mod activations;
pub mod affinity;
mod attention;
mod blocks;
mod cpu;
mod elementwise;
mod error;
mod isa;
mod kv;
mod matmul;
pub mod naive;
mod norm;
mod pool;
mod probe;
mod rope;
mod router;
mod simd;
mod softmax;

pub use activation::{Activation, activate, gated, gated_fused};
pub use activations::{ActivationCache, Activations};
pub use attention::{AttentionSequence, AttentionShape, Mask, attention};
pub use blocks::{BlockType, Matrix, dequantise};
pub use cpu::Cpu;
pub use elementwise::{add, add_bias, add_scaled, multiply, scale, scale_rows, sigmoid, softcap};
pub use error::KernelError;
pub use isa::Isa;
pub use kv::{KvRows, KvType, store_rows};
pub use matmul::{Arithmetic, ExpertRows, matmul, matmul_experts, matmul_many};
pub use norm::{LayerNorm, layer_norm, rms_norm, rms_norm_in_place};
pub use pool::Pool;
pub use probe::{ProductRate, probe_int8_rate, probe_product, probe_read_rate};
pub use rope::{Rope, RopePairs, RopeTable, rope, rope_with};
pub use router::top_k;
pub use softmax::softmax_rows;
