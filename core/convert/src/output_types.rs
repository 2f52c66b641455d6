//! [`OutputTypes`]: the types of the tensors in the file.

use crate::error::ConvertError;
use gguf_file::{FileType, GgmlType};
use menagerie_assembly::WeightSource;
use menagerie_quantize::Policy;
use std::collections::BTreeMap;

/// The types of the matrices in a file.
#[derive(Debug, Clone)]
pub enum OutputTypes<'a> {
    /// The most frequent type in the folder.
    AsStored,
    /// A single type by name: `f32`, `f16`, `bf16` or `q8_0`.
    Single(&'a str),
    /// The types of a policy, as in `menagerie quantize`.
    Policy(Policy),
}

/// The type of matrices in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixType(GgmlType);

impl MatrixType {
    const ALL: [(&str, GgmlType, FileType); 4] = [
        ("f32", GgmlType::F32, FileType::F32),
        ("f16", GgmlType::F16, FileType::F16),
        ("bf16", GgmlType::BF16, FileType::BF16),
        ("q8_0", GgmlType::Q8_0, FileType::Q8_0),
    ];

    /// The type with this name.
    ///
    /// # Errors
    /// An unknown name.
    pub(crate) fn named(name: &str) -> Result<Self, ConvertError> {
        let lower = name.to_ascii_lowercase();
        let found = Self::ALL.iter().find(|(known, _, _)| *known == lower);
        found.map(|(_, kind, _)| Self(*kind)).ok_or_else(|| ConvertError::Type { name: name.to_owned() })
    }

    /// The type that most numbers of a model are stored in if it is one of the four, else bf16, which represents 8-bit
    /// and 4-bit values exactly.
    pub(crate) fn of(tensors: &dyn WeightSource) -> Self {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in tensors.entries() {
            *counts.entry(entry.kind.as_str()).or_default() += entry.dims.iter().product::<u64>();
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map_or("F32", |(kind, _)| kind);
        Self::named(most).unwrap_or(Self(GgmlType::BF16))
    }

    /// The type of a matrix with this many columns.
    pub(crate) fn for_row(self, cols: u64) -> GgmlType {
        let whole = self.0.block_len().is_some_and(|length| cols.is_multiple_of(length as u64));
        if whole { self.0 } else { GgmlType::F16 }
    }

    /// The value of `general.file_type`.
    pub(crate) fn file_type(self) -> u32 {
        let found = Self::ALL.iter().find(|(_, kind, _)| *kind == self.0);
        found.map_or(0, |(_, _, file)| file.id())
    }
}
