//! [`Quantization`]: a label such as `Q4_K_M` and the type it gives each tensor.

use crate::error::SynthError;
use gguf_file::{FileType, GgmlType};

/// A label and the type of most tensors; `_M` labels give some tensors more bits, as llama.cpp's `llama-quant.cpp` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// As `llama-quantize` spells it.
    pub label: &'static str,
    base: &'static str,
    mixed: bool,
    file_type: FileType,
}

const fn plain(label: &'static str, base: &'static str, file_type: FileType) -> Quantization {
    Quantization { label, base, mixed: false, file_type }
}

/// Labels, types and values of `general.file_type`.
const ALL: &[Quantization] = &[
    plain("F32", "F32", FileType::F32),
    plain("F16", "F16", FileType::F16),
    plain("BF16", "BF16", FileType::BF16),
    plain("Q4_0", "Q4_0", FileType::Q4_0),
    plain("Q4_1", "Q4_1", FileType::Q4_1),
    plain("Q5_0", "Q5_0", FileType::Q5_0),
    plain("Q5_1", "Q5_1", FileType::Q5_1),
    plain("Q8_0", "Q8_0", FileType::Q8_0),
    plain("Q2_K", "Q2_K", FileType::Q2_K),
    plain("Q3_K", "Q3_K", FileType::Q3_K_S),
    plain("Q4_K_S", "Q4_K", FileType::Q4_K_S),
    Quantization { label: "Q4_K_M", base: "Q4_K", mixed: true, file_type: FileType::Q4_K_M },
    plain("Q5_K_S", "Q5_K", FileType::Q5_K_S),
    Quantization { label: "Q5_K_M", base: "Q5_K", mixed: true, file_type: FileType::Q5_K_M },
    plain("Q6_K", "Q6_K", FileType::Q6_K),
    plain("IQ4_NL", "IQ4_NL", FileType::IQ4_NL),
    plain("IQ4_XS", "IQ4_XS", FileType::IQ4_XS),
    plain("MXFP4", "MXFP4", FileType::MXFP4_MOE),
];

/// What a tensor is, as far as its type depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// One-dimensional, or a router: always F32.
    Small,
    /// The matrix that makes logits.
    Output,
    /// Values of attention, or the way down of a feed-forward, in this layer of so many.
    Sensitive(usize, usize),
    /// Anything else.
    Plain,
}

impl Quantization {
    /// Every label there is.
    pub fn labels() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|quantization| quantization.label)
    }

    /// The quantization of a label, whatever its case.
    ///
    /// # Errors
    /// [`SynthError::Quantization`] with the labels there are.
    pub fn parse(label: &str) -> Result<Self, SynthError> {
        ALL.iter().find(|one| one.label.eq_ignore_ascii_case(label)).copied().ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|one| one.label).collect();
            SynthError::Quantization { label: label.to_owned(), known: known.join(", ") }
        })
    }

    /// Its id in `general.file_type`.
    pub fn file_type(self) -> u32 {
        self.file_type.id()
    }

    /// The type of a tensor with rows of so many elements.
    ///
    /// # Errors
    /// [`SynthError::Row`] if the rows hold no whole blocks of the type nor of its fallback.
    pub fn kind(self, tensor: &str, columns: u64, usage: Use) -> Result<GgmlType, SynthError> {
        let wanted = match usage {
            Use::Small => "F32",
            Use::Output if !matches!(self.base, "F32" | "F16" | "BF16" | "Q8_0") => "Q6_K",
            Use::Sensitive(layer, layers) if self.mixed && more_bits(layer, layers) => "Q6_K",
            _ => self.base,
        };
        let fits = |name: &str| {
            let kind = GgmlType::from_name(name)?;
            kind.row_bytes(columns).map(|_| kind)
        };
        fits(wanted).or_else(|| fits(fallback(wanted))).ok_or_else(|| SynthError::Row {
            tensor: tensor.to_owned(),
            columns,
            kind: wanted.to_owned(),
        })
    }
}

/// `use_more_bits` of llama.cpp: the first and last eighth, and every third layer between.
fn more_bits(layer: usize, layers: usize) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

/// The 32-wide type that llama.cpp takes where rows are no multiple of 256.
fn fallback(kind: &str) -> &'static str {
    match kind {
        "Q2_K" | "Q3_K" => "Q4_0",
        "Q4_K" => "Q5_0",
        "Q5_K" => "Q5_1",
        "Q6_K" => "Q8_0",
        "IQ4_XS" => "IQ4_NL",
        _ => "F16",
    }
}
