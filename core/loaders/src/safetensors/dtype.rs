//! [`Dtype`]: the element types of the format.

use gguf_file::GgmlType;
use std::fmt;

/// An element type (safetensors 0.8, `tensor.rs`, `Dtype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, non_camel_case_types)]
pub enum Dtype {
    Bool,
    F4,
    F6_E2M3,
    F6_E3M2,
    U8,
    I8,
    F8_E5M2,
    F8_E4M3,
    F8_E8M0,
    F8_E4M3Fnuz,
    F8_E5M2Fnuz,
    I16,
    U16,
    F16,
    BF16,
    I32,
    U32,
    F32,
    C64,
    F64,
    I64,
    U64,
}

/// Types with their names in headers and bits per element.
const TYPES: [(Dtype, &str, u64); 22] = [
    (Dtype::Bool, "BOOL", 8),
    (Dtype::F4, "F4", 4),
    (Dtype::F6_E2M3, "F6_E2M3", 6),
    (Dtype::F6_E3M2, "F6_E3M2", 6),
    (Dtype::U8, "U8", 8),
    (Dtype::I8, "I8", 8),
    (Dtype::F8_E5M2, "F8_E5M2", 8),
    (Dtype::F8_E4M3, "F8_E4M3", 8),
    (Dtype::F8_E8M0, "F8_E8M0", 8),
    (Dtype::F8_E4M3Fnuz, "F8_E4M3FNUZ", 8),
    (Dtype::F8_E5M2Fnuz, "F8_E5M2FNUZ", 8),
    (Dtype::I16, "I16", 16),
    (Dtype::U16, "U16", 16),
    (Dtype::F16, "F16", 16),
    (Dtype::BF16, "BF16", 16),
    (Dtype::I32, "I32", 32),
    (Dtype::U32, "U32", 32),
    (Dtype::F32, "F32", 32),
    (Dtype::C64, "C64", 64),
    (Dtype::F64, "F64", 64),
    (Dtype::I64, "I64", 64),
    (Dtype::U64, "U64", 64),
];

impl Dtype {
    /// The type with a name of the header.
    pub fn from_name(name: &str) -> Option<Self> {
        TYPES.iter().find(|(_, known, _)| *known == name).map(|(dtype, _, _)| *dtype)
    }

    /// Its name in the header.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|(dtype, _, _)| *dtype == self).map_or("", |(_, name, _)| name)
    }

    /// Bits per element.
    pub fn bits(self) -> u64 {
        TYPES.iter().find(|(dtype, _, _)| *dtype == self).map_or(0, |(_, _, bits)| *bits)
    }

    /// The block type with the same bytes, for types that can be used for computation without conversion.
    pub fn block(self) -> Option<GgmlType> {
        match self {
            Self::F32 => Some(GgmlType::F32),
            Self::F16 => Some(GgmlType::F16),
            Self::BF16 => Some(GgmlType::BF16),
            _ => None,
        }
    }

    /// The names of all types, for messages.
    pub(super) fn names() -> String {
        TYPES.map(|(_, name, _)| name).join(", ")
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
