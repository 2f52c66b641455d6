//! Tensor types by their ggml id: name, elements per block, bytes per block; removed and unknown ids too.

use std::fmt;

/// A tensor type as its ggml id, which can be removed or unknown.
///
/// Sizes follow `ggml_type`'s traits in ggml.c and the block structs of ggml-common.h.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GgmlType(u32);

macro_rules! types {
    ($($constant:ident $id:literal $block:literal $bytes:literal;)*) => {
        impl GgmlType {
            $(#[doc = concat!("Id ", stringify!($id), ": ", stringify!($block), " elements in ", stringify!($bytes), " bytes.")]
            pub const $constant: Self = Self($id);)*
            const KNOWN: &'static [(u32, &'static str, usize, usize)] =
                &[$(($id, stringify!($constant), $block, $bytes),)*];
        }
    };
}

types! {
    F32 0 1 4;
    F16 1 1 2;
    Q4_0 2 32 18;
    Q4_1 3 32 20;
    Q5_0 6 32 22;
    Q5_1 7 32 24;
    Q8_0 8 32 34;
    Q8_1 9 32 36;
    Q2_K 10 256 84;
    Q3_K 11 256 110;
    Q4_K 12 256 144;
    Q5_K 13 256 176;
    Q6_K 14 256 210;
    Q8_K 15 256 292;
    IQ2_XXS 16 256 66;
    IQ2_XS 17 256 74;
    IQ3_XXS 18 256 98;
    IQ1_S 19 256 50;
    IQ4_NL 20 32 18;
    IQ3_S 21 256 110;
    IQ2_S 22 256 82;
    IQ4_XS 23 256 136;
    I8 24 1 1;
    I16 25 1 2;
    I32 26 1 4;
    I64 27 1 8;
    F64 28 1 8;
    IQ1_M 29 256 56;
    BF16 30 1 2;
    TQ1_0 34 256 54;
    TQ2_0 35 256 66;
    MXFP4 39 32 17;
    NVFP4 40 64 36;
    Q1_0 41 128 18;
    Q2_0 42 64 18;
}

/// Ids of types that were removed from GGUF, with their replacements.
const REMOVED: &[(u32, &str, &str)] = &[
    (4, "Q4_2", "Q4_0 or Q4_K"),
    (5, "Q4_3", "Q4_1 or Q4_K"),
    (31, "Q4_0_4_4", "Q4_0"),
    (32, "Q4_0_4_8", "Q4_0"),
    (33, "Q4_0_8_8", "Q4_0"),
    (36, "IQ4_NL_4_4", "IQ4_NL"),
    (37, "IQ4_NL_4_8", "IQ4_NL"),
    (38, "IQ4_NL_8_8", "IQ4_NL"),
];

impl GgmlType {
    /// The type with this id, known or not.
    pub const fn from_id(id: u32) -> Self {
        Self(id)
    }

    /// The type with this name (`Q4_K`), in either case; only known types.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::KNOWN.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| Self(row.0))
    }

    /// Every known type, by id.
    pub fn known() -> impl Iterator<Item = Self> {
        Self::KNOWN.iter().map(|row| Self(row.0))
    }

    /// The ggml id.
    pub const fn id(self) -> u32 {
        self.0
    }

    fn row(self) -> Option<&'static (u32, &'static str, usize, usize)> {
        let at = Self::KNOWN.binary_search_by_key(&self.0, |row| row.0).ok()?;
        Self::KNOWN.get(at)
    }

    fn removed(self) -> Option<&'static (u32, &'static str, &'static str)> {
        REMOVED.iter().find(|row| row.0 == self.0)
    }

    /// ggml's name, also of removed types; `unknown` for an unknown id.
    pub fn name(self) -> &'static str {
        match (self.row(), self.removed()) {
            (Some(row), _) => row.1,
            (None, Some(row)) => row.1,
            (None, None) => "unknown",
        }
    }

    /// Whether the size of this type is known, so that its tensors can be read.
    pub fn is_known(self) -> bool {
        self.row().is_some()
    }

    /// Whether this id was a type once and was removed from GGUF.
    fn is_removed(self) -> bool {
        self.removed().is_some()
    }

    /// Elements per block; `None` for removed and unknown ids.
    pub fn block_len(self) -> Option<usize> {
        self.row().map(|row| row.2)
    }

    /// Bytes per block; `None` for removed and unknown ids.
    pub fn block_bytes(self) -> Option<usize> {
        self.row().map(|row| row.3)
    }

    /// Bytes of a row of `elements`; `None` if the type is unknown, the row would split a block, or it overflows.
    pub fn row_bytes(self, elements: u64) -> Option<u64> {
        let row = self.row()?;
        let block = row.2 as u64;
        if !elements.is_multiple_of(block) {
            return None;
        }
        (elements / block).checked_mul(row.3 as u64)
    }

    /// Advice for a tensor of this type that cannot be read.
    pub(crate) fn advice(self) -> String {
        match self.removed() {
            Some(row) => format!("quantize the model again as {}", row.2),
            None => format!(
                "unknown type (known ids go up to {}): use a newer build, or the model with another quantization",
                Self::KNOWN.last().map_or(0, |row| row.0)
            ),
        }
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_known(), self.is_removed()) {
            (true, _) => f.write_str(self.name()),
            (_, true) => write!(f, "{} (id {}, removed from GGUF)", self.name(), self.0),
            _ => write!(f, "unknown id {}", self.0),
        }
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GgmlType({}: {})", self.0, self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_sorted_and_unique() {
        assert!(GgmlType::KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(REMOVED.iter().all(|row| !GgmlType(row.0).is_known()));
        for id in 0..43 {
            assert!(GgmlType(id).is_known() != GgmlType(id).is_removed(), "{id}");
        }
    }

    #[test]
    fn sizes_follow_the_block_structs() {
        // ggml-common.h: d (f16), dmin (f16), scales, quants, written out once more as sums.
        for (kind, bytes) in [
            (GgmlType::Q2_K, 2 + 2 + 16 + 64),
            (GgmlType::Q3_K, 2 + 64 + 32 + 12),
            (GgmlType::Q4_K, 2 + 2 + 12 + 128),
            (GgmlType::Q5_K, 2 + 2 + 12 + 128 + 32),
            (GgmlType::Q6_K, 2 + 128 + 64 + 16),
            (GgmlType::Q8_K, 4 + 256 + 32),
            (GgmlType::Q8_1, 2 + 2 + 32),
            (GgmlType::IQ2_XXS, 2 + 64),
            (GgmlType::IQ2_XS, 2 + 64 + 8),
            (GgmlType::IQ3_XXS, 2 + 64 + 32),
            (GgmlType::IQ1_S, 2 + 32 + 16),
            (GgmlType::IQ3_S, 2 + 64 + 32 + 8 + 4),
            (GgmlType::IQ2_S, 2 + 64 + 16),
            (GgmlType::IQ4_XS, 2 + 2 + 128 + 4),
            (GgmlType::IQ1_M, 32 + 16 + 8),
            (GgmlType::TQ1_0, 2 + 4 * 13),
            (GgmlType::TQ2_0, 2 + 64),
            (GgmlType::NVFP4, 4 + 32),
            (GgmlType::Q1_0, 2 + 16),
            (GgmlType::Q2_0, 2 + 16),
        ] {
            assert_eq!(kind.block_bytes(), Some(bytes), "{kind}");
        }
    }

    #[test]
    fn names_say_what_is_wrong() {
        assert_eq!(GgmlType(31).to_string(), "Q4_0_4_4 (id 31, removed from GGUF)");
        assert_eq!(GgmlType(142).to_string(), "unknown id 142");
        assert!(GgmlType(4).advice().contains("Q4_0"));
        assert_eq!(GgmlType::from_name("q4_k"), Some(GgmlType::Q4_K));
        assert_eq!(GgmlType::Q4_K.row_bytes(512), Some(288));
        assert_eq!(GgmlType::Q4_K.row_bytes(100), None);
        assert_eq!(GgmlType::F64.row_bytes(u64::MAX), None);
    }
}
