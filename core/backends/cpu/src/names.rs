//! The kernels' types of blocks; errors of the kernels as errors of the model.

use gguf_file::GgmlType;
use menagerie_kernels as kernels;
use menagerie_kernels::BlockType;
use menagerie_model::ModelError;

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
            "tensor \"{name}\": type {kind} is not supported on the CPU; supported are {}",
            known.join(", ")
        ))
    })
}
