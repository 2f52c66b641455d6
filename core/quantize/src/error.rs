//! [`QuantizeError`]: weights that cannot be written as blocks of a type.

use gguf_file::{FileType, GgmlType, GgufError};
use menagerie_kernels::KernelError;

/// Why weights were not encoded. Nothing of the output is to be used then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// There is no encoder for the type.
    #[error("weights cannot be written as {kind}; the types are {types}")]
    Unsupported {
        /// The type asked for.
        kind: GgmlType,
        /// Those there are.
        types: String,
    },
    /// The type is no good without importance.
    #[error(
        "{kind} has so few bits that it needs importance, which says what columns of a tensor matter: measure it with `imatrix MODEL -f TEXT -o FILE` and give the file with `--imatrix FILE`, or take a type that does without ({instead} is the smallest)"
    )]
    NeedsImportance {
        /// The type.
        kind: GgmlType,
        /// The smallest type that needs none.
        instead: GgmlType,
    },
    /// Rows are not whole blocks.
    #[error(
        "rows of {cols} values are no whole blocks of {kind}, which have {block}: take a type of smaller blocks for this tensor (Q8_0, Q5_0, Q4_0: 32; F16: 1)"
    )]
    Blocks {
        /// The type.
        kind: GgmlType,
        /// Values of a row.
        cols: usize,
        /// Values of a block.
        block: usize,
    },
    /// A slice has not the length that the others ask for.
    #[error("{what}: {found}, wanted {wanted}")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Its length.
        found: usize,
        /// What it would be.
        wanted: String,
    },
    /// A weight is not a number, or infinite.
    #[error(
        "the weight in row {row}, column {column} is {value}: the model is broken, and no type of blocks can hold that"
    )]
    NotFinite {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
        /// The weight.
        value: f32,
    },
    /// A weight is larger than the type can hold.
    #[error(
        "the weight in row {row}, column {column} is {value}, and the largest that {kind} can hold is {largest}: keep this tensor as BF16 or F32"
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
        /// The largest magnitude that fits.
        largest: f32,
    },
    /// An importance is negative, not a number or infinite.
    #[error(
        "the importance of column {column} is {value}; it is a mean of squares, 0 or more: measure it again"
    )]
    Importance {
        /// Column.
        column: usize,
        /// Its importance.
        value: f32,
    },
    /// There is no file type of the name.
    #[error("`{name}` is no type of files; there are {known}")]
    UnknownFileType {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Rows are not whole blocks, and no other type is put in the place of this one.
    #[error(
        "tensor \"{tensor}\": rows of {cols} values are no whole blocks of {kind}, and no other type is put in its place; name \
         one for it (--tensor-type)"
    )]
    NoFallback {
        /// The tensor.
        tensor: String,
        /// The type.
        kind: GgmlType,
        /// Values of a row.
        cols: u64,
    },
    /// Weights of a type that is not read.
    #[error("weights of type {kind} cannot be read; use a file of another type")]
    Unreadable {
        /// The type.
        kind: GgmlType,
    },
    /// Something about one tensor.
    #[error("tensor \"{tensor}\": {source}")]
    InTensor {
        /// The tensor.
        tensor: String,
        /// What.
        source: Box<QuantizeError>,
    },
    /// Weights that were rounded once would be rounded again.
    #[error(
        "tensor \"{tensor}\" is {from} already: rounding it again to {file} loses more than quantizing the original does; take \
         the file with F16, BF16 or F32 weights, or say --allow-requantize"
    )]
    Requantized {
        /// The tensor.
        tensor: String,
        /// Its type.
        from: GgmlType,
        /// The file type asked for.
        file: FileType,
    },
    /// Too few bits without importance.
    #[error(
        "tensor \"{tensor}\" as {kind} (in a file of {file}) needs importance, without which nothing useful comes of so few \
         bits; give --imatrix FILE, which `imatrix MODEL -f TEXT -o FILE` measures"
    )]
    Starved {
        /// The tensor.
        tensor: String,
        /// Its type.
        kind: GgmlType,
        /// The file type asked for.
        file: FileType,
    },
    /// An importance matrix cannot be used.
    #[error("{file}: {problem}")]
    ImportanceFile {
        /// Its file.
        file: String,
        /// Why.
        problem: String,
    },
    /// An importance matrix of another model.
    #[error(
        "the importance of tensor \"{tensor}\" has {found} values, and the tensor wants {wanted}: it was measured with \
         another model; measure it again (`imatrix`)"
    )]
    ImportanceShape {
        /// The tensor.
        tensor: String,
        /// Values there are.
        found: usize,
        /// Values there must be.
        wanted: usize,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] GgufError),
    /// The new file cannot be written.
    #[error("{0}")]
    Write(String),
    /// The work was ended from outside; nothing was written.
    #[error("cancelled")]
    Cancelled,
    /// The kernels failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}
