//! `general.file_type`: the storage of most of a file's weights.

use std::fmt;

/// A value of `general.file_type` (llama.h, `llama_ftype`), known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileType(u32);

macro_rules! file_types {
    ($($constant:ident $id:literal;)*) => {
        impl FileType {
            $(#[doc = concat!("Id ", stringify!($id), ".")]
            pub const $constant: Self = Self($id);)*
            const KNOWN: &'static [(u32, &'static str)] = &[$(($id, stringify!($constant)),)*];
        }
    };
}

file_types! {
    F32 0;
    F16 1;
    Q4_0 2;
    Q4_1 3;
    Q4_1_SOME_F16 4;
    Q8_0 7;
    Q5_0 8;
    Q5_1 9;
    Q2_K 10;
    Q3_K_S 11;
    Q3_K_M 12;
    Q3_K_L 13;
    Q4_K_S 14;
    Q4_K_M 15;
    Q5_K_S 16;
    Q5_K_M 17;
    Q6_K 18;
    IQ2_XXS 19;
    IQ2_XS 20;
    Q2_K_S 21;
    IQ3_XS 22;
    IQ3_XXS 23;
    IQ1_S 24;
    IQ4_NL 25;
    IQ3_S 26;
    IQ3_M 27;
    IQ2_S 28;
    IQ2_M 29;
    IQ4_XS 30;
    IQ1_M 31;
    BF16 32;
    TQ1_0 36;
    TQ2_0 37;
    MXFP4_MOE 38;
    NVFP4 39;
    Q1_0 40;
    Q2_0 41;
}

impl FileType {
    /// The type with this id, known or not.
    pub const fn from_id(id: u32) -> Self {
        Self(id)
    }

    /// The type with this name (`Q4_K_M`), in either case; only known types.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::KNOWN.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| Self(row.0))
    }

    /// Every known type, by id.
    pub fn known() -> impl Iterator<Item = Self> {
        Self::KNOWN.iter().map(|row| Self(row.0))
    }

    /// The id.
    pub const fn id(self) -> u32 {
        self.0
    }

    /// The name, as `llama-quantize` spells it; `None` for an unknown id.
    pub fn name(self) -> Option<&'static str> {
        let at = Self::KNOWN.binary_search_by_key(&self.0, |row| row.0).ok()?;
        Self::KNOWN.get(at).map(|row| row.1)
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "unknown id {}", self.0),
        }
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileType({}: {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_found_both_ways() {
        assert!(FileType::KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for kind in FileType::known() {
            assert_eq!(FileType::from_name(kind.name().unwrap()), Some(kind));
        }
        assert_eq!(FileType::from_name("q4_k_m"), Some(FileType::Q4_K_M));
        assert_eq!(
            (FileType::from_id(15).to_string(), FileType::from_id(5).to_string()),
            ("Q4_K_M".into(), "unknown id 5".into())
        );
    }
}
