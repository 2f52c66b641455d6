//! [`Section`]: rows of a step that one stage hands to the next.

use crate::bytes::{Reader, Writer};

/// Which rows they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// The residual stream, `[T, D]`.
    Stream,
    /// What was embedded, `[T, D]`.
    Embedded,
    /// The other of two streams, `[T, D]`.
    Held,
    /// Rows that layers get beside the stream, `[T * layers, width]`.
    PerLayer,
    /// A slot of this number, `[T, width]`.
    Slot(u32),
}

/// Rows of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Section {
    pub(crate) carried: Carried,
    pub(crate) cols: usize,
    pub(crate) values: Vec<f32>,
}

impl Carried {
    pub(crate) fn encode(self, cols: usize, values: &[f32], out: &mut Writer) {
        let (kind, slot) = match self {
            Self::Stream => (0, 0),
            Self::Embedded => (1, 0),
            Self::Held => (2, 0),
            Self::PerLayer => (3, 0),
            Self::Slot(slot) => (4, slot),
        };
        out.u8(kind);
        out.u32(slot);
        out.count(cols);
        out.f32s(values);
    }
}

impl Section {
    pub(crate) fn decode(from: &mut Reader) -> Result<Self, String> {
        let (kind, slot) = (from.u8()?, from.u32()?);
        let carried = match kind {
            0 => Carried::Stream,
            1 => Carried::Embedded,
            2 => Carried::Held,
            3 => Carried::PerLayer,
            4 => Carried::Slot(slot),
            kind => return Err(format!("rows of kind {kind} are not known")),
        };
        let (cols, values) = (from.number()?, from.f32s()?);
        if cols == 0 || !values.len().is_multiple_of(cols) {
            return Err(format!("{} values are no rows of {cols}", values.len()));
        }
        Ok(Self { carried, cols, values })
    }

    /// Row, column and value of what is no number.
    pub(crate) fn not_finite(&self) -> Option<(usize, usize, f32)> {
        // One pass without branches first.
        let is_bad = |value: &f32| value.to_bits() & f32::INFINITY.to_bits() == f32::INFINITY.to_bits();
        if !self.values.iter().fold(false, |bad, value| bad | is_bad(value)) {
            return None;
        }
        let at = self.values.iter().position(is_bad)?;
        Some((at / self.cols, at % self.cols, self.values[at]))
    }
}
