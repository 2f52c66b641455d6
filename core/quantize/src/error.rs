//! [`QuantizeError`]: weights that cannot be written as blocks of a type.

use gguf_file::{FileType, GgmlType, GgufError};
use menagerie_kernels::KernelError;

/// An error of quantization, with what to do next. The output must not be used after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// There is no encoder for the type.
    #[error("cannot quantize to {kind}; use one of {types}")]
    Unsupported {
        /// The requested type.
        kind: GgmlType,
        /// The supported types.
        types: String,
    },
    /// The type requires importance, and there is none.
    #[error(
        "{kind} has so few bits that it needs importance, which says which columns of a tensor matter; measure it with \
         `menagerie imatrix MODEL -f TEXT -o FILE` and pass `--imatrix FILE`, or use a type that does not need it \
         ({instead} is the smallest)"
    )]
    MissingImportance {
        /// The type.
        kind: GgmlType,
        /// The smallest type that does not need importance.
        instead: GgmlType,
    },
    /// Rows are not whole blocks.
    #[error(
        "expected rows of whole {kind} blocks ({block} values), found rows of {cols} values; use a type with smaller \
         blocks for this tensor (Q8_0, Q5_0, Q4_0: 32; F16: 1)"
    )]
    Blocks {
        /// The type.
        kind: GgmlType,
        /// Values in a row.
        cols: usize,
        /// Values in a block.
        block: usize,
    },
    /// A slice has the wrong length.
    #[error("{what}: expected {expected}, found {found}")]
    Length {
        /// The slice.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The expected length.
        expected: String,
    },
    /// A weight is not a number, or infinite.
    #[error(
        "the weight in row {row}, column {column} is {value}, which no type can represent; the model is damaged: \
         download it again"
    )]
    NotFinite {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
        /// The weight.
        value: f32,
    },
    /// A weight is larger than the type can represent.
    #[error(
        "the weight in row {row}, column {column} is {value}, but the largest value of {kind} is {largest}; use BF16 \
         or F32 for this tensor"
    )]
    TooLarge {
        /// The type.
        kind: GgmlType,
        /// Row.
        row: usize,
        /// Column.
        column: usize,
        /// The weight.
        value: f32,
        /// The largest magnitude of the type.
        largest: f32,
    },
    /// An importance is negative, not a number or infinite.
    #[error(
        "the importance of column {column} is {value}, expected a mean square of at least 0; measure it again \
         (`menagerie imatrix`)"
    )]
    Importance {
        /// Column.
        column: usize,
        /// Its importance.
        value: f32,
    },
    /// An unknown file type.
    #[error("unknown file type `{name}`; use one of {known}")]
    UnknownFileType {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// Rows are not whole blocks, and the type has no fallback.
    #[error(
        "tensor \"{tensor}\": rows of {cols} values are not whole blocks of {kind}, which has no fallback; choose a \
         type for the tensor with --tensor-type"
    )]
    NoFallback {
        /// The tensor.
        tensor: String,
        /// The type.
        kind: GgmlType,
        /// Values of a row.
        cols: u64,
    },
    /// Weights of an unsupported type.
    #[error("weights of type {kind} cannot be read; use a file of another type")]
    Unreadable {
        /// The type.
        kind: GgmlType,
    },
    /// An error about one tensor.
    #[error("tensor \"{tensor}\": {source}")]
    InTensor {
        /// The tensor.
        tensor: String,
        /// The error.
        source: Box<QuantizeError>,
    },
    /// Quantized weights would be quantized again.
    #[error(
        "tensor \"{tensor}\" is already {from}: quantizing it again to {file} is less accurate than quantizing the \
         original; use the file with F16, BF16 or F32 weights, or pass --allow-requantize"
    )]
    Requantized {
        /// The tensor.
        tensor: String,
        /// Its type.
        from: GgmlType,
        /// The requested file type.
        file: FileType,
    },
    /// An importance matrix cannot be used.
    #[error("{file}: {problem}")]
    ImportanceFile {
        /// The file.
        file: String,
        /// The problem.
        problem: String,
    },
    /// The importance of another model.
    #[error(
        "the importance of tensor \"{tensor}\": expected {expected} values, found {found}; it was measured with another \
         model: measure it again (`menagerie imatrix`)"
    )]
    ImportanceShape {
        /// The tensor.
        tensor: String,
        /// The number of values.
        found: usize,
        /// The expected number of values.
        expected: usize,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] GgufError),
    /// The new file cannot be written.
    #[error("{0}")]
    Write(String),
    /// The caller cancelled the quantization; nothing was written.
    #[error("cancelled")]
    Cancelled,
    /// The kernels failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// The smallest type that needs no importance.
const WITHOUT_IMPORTANCE: GgmlType = GgmlType::IQ1_M;

impl QuantizeError {
    /// The error of values that get this type without the importance that it requires.
    pub(crate) fn needs_importance(kind: GgmlType) -> Self {
        Self::MissingImportance { kind, instead: WITHOUT_IMPORTANCE }
    }

    /// The error of a tensor that gets a type without the importance that it requires.
    pub fn missing_importance(tensor: &str, kind: GgmlType) -> Self {
        Self::InTensor { tensor: tensor.to_owned(), source: Box::new(Self::needs_importance(kind)) }
    }
}
