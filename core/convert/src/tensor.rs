//! Types of tensors, and the one tensor that no folder has.

use crate::error::ConvertError;
use gguf_file::{FileType, GgmlType};
use menagerie_assembly::WeightSource;
use menagerie_quantize::Policy;
use menagerie_spec::config::{RopeConfig, RopeScaling};
use menagerie_spec::{KeySource, MetadataValue};
use std::collections::BTreeMap;

/// Which types the matrices of a file get.
#[derive(Debug, Clone)]
pub enum Types<'a> {
    /// What most of the folder's have.
    AsStored,
    /// One, by its name: `f32`, `f16`, `bf16` or `q8_0`.
    One(&'a str),
    /// Those of a file type, as `quantize` gives them.
    Mixture(Policy),
}

/// The type of a file's matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutType(GgmlType);

impl OutType {
    const ALL: [(&str, GgmlType, FileType); 4] = [
        ("f32", GgmlType::F32, FileType::F32),
        ("f16", GgmlType::F16, FileType::F16),
        ("bf16", GgmlType::BF16, FileType::BF16),
        ("q8_0", GgmlType::Q8_0, FileType::Q8_0),
    ];

    /// By its name.
    ///
    /// # Errors
    /// It is none of four.
    pub(crate) fn named(name: &str) -> Result<Self, ConvertError> {
        let wanted = name.to_ascii_lowercase();
        let found = Self::ALL.iter().find(|(known, _, _)| *known == wanted);
        found.map(|(_, kind, _)| Self(*kind)).ok_or_else(|| ConvertError::Type { name: name.to_owned() })
    }

    /// What most numbers of a model are stored as, if it is one of the four, else bf16, which holds what 8 and 4 bits say.
    pub(crate) fn of(tensors: &dyn WeightSource) -> Self {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in tensors.entries() {
            *counts.entry(entry.kind.as_str()).or_default() += entry.dims.iter().product::<u64>();
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map_or("F32", |(kind, _)| kind);
        Self::named(most).unwrap_or(Self(GgmlType::BF16))
    }

    /// The type of a matrix with rows of this many numbers.
    pub(crate) fn for_row(self, cols: u64) -> GgmlType {
        let whole = self.0.block_len().is_some_and(|length| cols.is_multiple_of(length as u64));
        if whole { self.0 } else { GgmlType::F16 }
    }

    /// The number of `general.file_type`.
    pub(crate) fn file_type(self) -> u32 {
        let found = Self::ALL.iter().find(|(_, kind, _)| *kind == self.0);
        found.map_or(0, |(_, _, file)| file.id())
    }
}

/// What each frequency is divided by in Llama 3.1's scaling (transformers, `_compute_llama3_parameters`).
pub(crate) fn llama3_factors(rope: &RopeConfig, keys: &dyn KeySource) -> Option<Vec<f32>> {
    let number = |key: &str| match keys.get(key)? {
        MetadataValue::Number(number) => Some(number),
        MetadataValue::Integer(whole) => Some(whole as f64),
        _ => None,
    };
    let factor = number("rope.scaling.factor")?;
    let (low, high) = (number("rope.scaling.low_freq_factor")?, number("rope.scaling.high_freq_factor")?);
    let length = number("rope.scaling.original_context_length")?;
    let base = number("rope.freq_base")?;
    let one = |at: usize| {
        let frequency = libm::pow(base, -2.0 * at as f64 / rope.dims as f64);
        let wave = std::f64::consts::TAU / frequency;
        if wave < length / high {
            return 1.0;
        }
        if wave > length / low {
            return factor as f32;
        }
        let smooth = (length / wave - low) / (high - low);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    };
    Some((0..rope.dims / 2).map(one).collect())
}

/// What each frequency is divided by where only a share of them turns: 1, and 1e30 for those that stand (llama.cpp's
/// converter of such models).
pub(crate) fn proportional_factors(rope: &RopeConfig) -> Option<Vec<f32>> {
    let RopeScaling::Proportional { share } = rope.scaling else { return None };
    let pairs = rope.dims / 2;
    let turning = (share * pairs as f32) as usize;
    Some((0..pairs).map(|at| if at < turning { 1.0 } else { 1e30 }).collect())
}
