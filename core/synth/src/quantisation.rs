//! [`Quantisation`]: a label such as `Q4_K_M` and the type it gives each tensor.

use crate::error::SynthError;
use gguf_file::GgmlType;

/// A label and the type of most tensors; `_M` labels give some tensors more bits, as llama.cpp's `llama-quant.cpp` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantisation {
    /// As `llama-quantize` spells it.
    pub label: &'static str,
    base: &'static str,
    mixed: bool,
    file_type: u32,
}

const fn plain(label: &'static str, base: &'static str, file_type: u32) -> Quantisation {
    Quantisation { label, base, mixed: false, file_type }
}

/// Labels and their ids in `general.file_type` (`llama_ftype`).
const ALL: &[Quantisation] = &[
    plain("F32", "F32", 0),
    plain("F16", "F16", 1),
    plain("BF16", "BF16", 32),
    plain("Q4_0", "Q4_0", 2),
    plain("Q4_1", "Q4_1", 3),
    plain("Q5_0", "Q5_0", 8),
    plain("Q5_1", "Q5_1", 9),
    plain("Q8_0", "Q8_0", 7),
    plain("Q2_K", "Q2_K", 10),
    plain("Q3_K", "Q3_K", 11),
    plain("Q4_K_S", "Q4_K", 14),
    Quantisation { label: "Q4_K_M", base: "Q4_K", mixed: true, file_type: 15 },
    plain("Q5_K_S", "Q5_K", 16),
    Quantisation { label: "Q5_K_M", base: "Q5_K", mixed: true, file_type: 17 },
    plain("Q6_K", "Q6_K", 18),
    plain("IQ4_NL", "IQ4_NL", 25),
    plain("IQ4_XS", "IQ4_XS", 30),
    plain("MXFP4", "MXFP4", 38),
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

impl Quantisation {
    /// The quantisation of a label, whatever its case.
    ///
    /// # Errors
    /// [`SynthError::Quantisation`] with the labels there are.
    pub fn parse(label: &str) -> Result<Self, SynthError> {
        ALL.iter().find(|one| one.label.eq_ignore_ascii_case(label)).copied().ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|one| one.label).collect();
            SynthError::Quantisation { label: label.to_owned(), known: known.join(", ") }
        })
    }

    /// Its id in `general.file_type`.
    pub fn file_type(self) -> u32 {
        self.file_type
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
