//! The kernels' names for what models name: types, masks, activations.

use gguf_file::GgmlType;
use menagerie_kernels as kernels;
use menagerie_kernels::BlockType;
use menagerie_model::{Activation, Arithmetic, AttentionShape, Gating, Mask, ModelError, RopePairs, Xielu};

/// Name of this backend in errors.
pub(crate) const NAME: &str = "cpu";

/// What a kernel reports.
pub(crate) fn failed(error: kernels::KernelError) -> ModelError {
    ModelError::backend(NAME, error)
}

/// The kernels' type of a block; `name` is the tensor's.
pub(crate) fn block_type(name: &str, kind: GgmlType) -> Result<BlockType, ModelError> {
    BlockType::from_ggml_id(kind.id()).ok_or_else(|| {
        let known: Vec<&str> = BlockType::ALL.iter().map(|block| block.name()).collect();
        ModelError::Unsupported(format!(
            "tensor \"{name}\": type {kind} cannot be computed with on the CPU; known are {}",
            known.join(", ")
        ))
    })
}

pub(crate) fn arithmetic(arithmetic: Arithmetic) -> kernels::Arithmetic {
    match arithmetic {
        Arithmetic::Fast => kernels::Arithmetic::Fast,
        Arithmetic::Exact => kernels::Arithmetic::Exact,
    }
}

pub(crate) fn activation(activation: Activation) -> kernels::Activation {
    match activation {
        Activation::Silu => kernels::Activation::Silu,
        Activation::GeluTanh => kernels::Activation::GeluTanh,
        Activation::GeluErf => kernels::Activation::GeluErf,
        Activation::Relu => kernels::Activation::Relu,
        Activation::ReluSquared => kernels::Activation::ReluSquared,
        Activation::Sigmoid => kernels::Activation::Sigmoid,
        Activation::Softplus => kernels::Activation::Softplus,
        Activation::Xielu(Xielu { alpha_p, alpha_n, beta, eps }) => {
            kernels::Activation::Xielu(kernels::Xielu { alpha_p, alpha_n, beta, eps })
        }
    }
}

pub(crate) fn gating(gating: Gating) -> kernels::Gating {
    match gating {
        Gating::Plain(own) => kernels::Gating::Plain(activation(own)),
        Gating::LimitedBefore { limit } => kernels::Gating::LimitedBefore { limit },
        Gating::LimitedAfter { limit } => kernels::Gating::LimitedAfter { limit },
        Gating::SwigluOai { alpha, limit } => kernels::Gating::SwigluOai { alpha, limit },
    }
}

pub(crate) fn pairs(pairs: RopePairs) -> kernels::RopePairs {
    match pairs {
        RopePairs::Adjacent => kernels::RopePairs::Adjacent,
        RopePairs::Halves => kernels::RopePairs::Halves,
    }
}

pub(crate) fn shape(shape: &AttentionShape) -> kernels::AttentionShape {
    let AttentionShape { heads, kv_heads, key_dim, value_dim, scale, softcap, mask, alibi } = *shape;
    let mask = match mask {
        Mask::Causal => kernels::Mask::Causal,
        Mask::Sliding { size } => kernels::Mask::Sliding { size },
        Mask::Chunked { size } => kernels::Mask::Chunked { size },
        Mask::Bidirectional => kernels::Mask::Bidirectional,
        Mask::Symmetric { size } => kernels::Mask::Symmetric { size },
    };
    kernels::AttentionShape { heads, kv_heads, key_dim, value_dim, scale, softcap, mask, alibi }
}
