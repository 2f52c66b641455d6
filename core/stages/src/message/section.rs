//! [`RowSection`]: rows of a step that one stage passes to the next.

use crate::frame::payload::{PayloadReader, PayloadWriter};

/// The purpose of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsKind {
    /// The residual stream, `[T, D]`.
    Stream,
    /// The embedded tokens, `[T, D]`.
    Embedded,
    /// The other of two streams, `[T, D]`.
    OtherStream,
    /// The rows of per-layer embeddings, `[T * layers, width]`.
    PerLayer,
    /// A slot of this number, `[T, width]`.
    Slot(u32),
}

/// Rows of a step that serve one purpose.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowSection {
    pub(crate) kind: RowsKind,
    pub(crate) cols: usize,
    pub(crate) values: Vec<f32>,
}

/// A value that is not finite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonFinite {
    pub(crate) row: usize,
    pub(crate) column: usize,
    pub(crate) value: f32,
}

impl RowSection {
    /// Appends the descriptions of sections to a payload; returns their values, concatenated.
    pub(crate) fn encode_all(sections: Vec<Self>, out: &mut PayloadWriter) -> Vec<f32> {
        out.count(sections.len());
        let mut all: Option<Vec<f32>> = None;
        for Self { kind, cols, values } in sections {
            let (code, slot) = match kind {
                RowsKind::Stream => (0, 0),
                RowsKind::Embedded => (1, 0),
                RowsKind::OtherStream => (2, 0),
                RowsKind::PerLayer => (3, 0),
                RowsKind::Slot(slot) => (4, slot),
            };
            out.u8(code);
            out.u32(slot);
            out.count(cols);
            out.count(values.len());
            // The values of a single section are moved.
            match &mut all {
                None => all = Some(values),
                Some(all) => all.extend_from_slice(&values),
            }
        }
        all.unwrap_or_default()
    }

    /// Reads descriptions and assigns `rows` to the sections; every value must belong to one.
    pub(crate) fn decode_all(from: &mut PayloadReader, mut rows: Vec<f32>) -> Result<Vec<Self>, String> {
        let count = from.count(21)?;
        let heads = (0..count).map(|_| head(from)).collect::<Result<Vec<_>, _>>()?;
        let announced = heads.iter().try_fold(0_usize, |sum, (.., count)| sum.checked_add(*count));
        if announced != Some(rows.len()) {
            return Err(format!(
                "{count} sections announce another number of values than the {} found",
                rows.len()
            ));
        }
        // From the last one backward, so that the first one is moved, not copied.
        let with_values = |(kind, cols, count): (RowsKind, usize, usize)| {
            let values = if rows.len() == count {
                std::mem::take(&mut rows)
            } else {
                rows.split_off(rows.len() - count)
            };
            Self { kind, cols, values }
        };
        let mut sections: Vec<Self> = heads.into_iter().rev().map(with_values).collect();
        sections.reverse();
        Ok(sections)
    }

    /// The first value of each row that is not finite.
    pub(crate) fn not_finite(&self) -> impl Iterator<Item = NonFinite> {
        let is_bad = |value: &f32| value.to_bits() & f32::INFINITY.to_bits() == f32::INFINITY.to_bits();
        // First, one pass without branches.
        let any = self.values.iter().fold(false, |bad, value| bad | is_bad(value));
        let rows = self.values.chunks_exact(self.cols).enumerate().filter(move |_| any);
        rows.filter_map(move |(row, values)| {
            let column = values.iter().position(is_bad)?;
            Some(NonFinite { row, column, value: values[column] })
        })
    }
}

/// The kind of a section, the width of its rows, and its number of values.
fn head(from: &mut PayloadReader) -> Result<(RowsKind, usize, usize), String> {
    let (kind, slot) = (from.u8()?, from.u32()?);
    let rows = match kind {
        0 => RowsKind::Stream,
        1 => RowsKind::Embedded,
        2 => RowsKind::OtherStream,
        3 => RowsKind::PerLayer,
        4 => RowsKind::Slot(slot),
        kind => return Err(format!("unknown kind {kind} of rows")),
    };
    let (cols, values) = (from.number()?, from.number()?);
    if cols == 0 || !values.is_multiple_of(cols) {
        return Err(format!("{values} values are not whole rows of {cols}"));
    }
    Ok((rows, cols, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections() -> Vec<RowSection> {
        let section = |kind, cols, values: &[f32]| RowSection { kind, cols, values: values.to_vec() };
        vec![
            section(RowsKind::Stream, 2, &[1.0, 2.0, 3.0, 4.0]),
            section(RowsKind::OtherStream, 2, &[5.0, 6.0, 7.0, 8.0]),
            section(RowsKind::Slot(3), 1, &[9.0, 10.0]),
        ]
    }

    #[test]
    fn sections_round_trip_and_no_value_is_left_over() {
        for count in 0..=3 {
            let sent: Vec<RowSection> = sections().into_iter().take(count).collect();
            let mut out = PayloadWriter::default();
            let rows = RowSection::encode_all(sent.clone(), &mut out);
            let mut from = PayloadReader::new(&out.0);
            assert_eq!(RowSection::decode_all(&mut from, rows.clone()).unwrap(), sent);
            from.end().unwrap();
            for cut in 0..out.0.len() {
                assert!(
                    RowSection::decode_all(&mut PayloadReader::new(&out.0[..cut]), rows.clone()).is_err()
                );
            }
            let more = [rows, vec![0.0]].concat();
            assert!(RowSection::decode_all(&mut PayloadReader::new(&out.0), more).is_err());
        }
    }

    #[test]
    fn the_values_of_a_single_section_are_moved() {
        let (one, mut out) = (sections().remove(0), PayloadWriter::default());
        let address = one.values.as_ptr();
        let rows = RowSection::encode_all(vec![one], &mut out);
        assert_eq!(rows.as_ptr(), address);
        let again = RowSection::decode_all(&mut PayloadReader::new(&out.0), rows).unwrap();
        assert_eq!(again[0].values.as_ptr(), address);
    }

    #[test]
    fn every_row_that_is_not_finite_is_found() {
        let values = vec![0.0, 1.0, f32::NAN, f32::INFINITY, 2.0, 3.0, 4.0, f32::NEG_INFINITY];
        let section = RowSection { kind: RowsKind::Stream, cols: 2, values };
        let found: Vec<(usize, usize)> = section.not_finite().map(|one| (one.row, one.column)).collect();
        assert_eq!(found, [(1, 0), (3, 1)]);
        assert_eq!(sections()[0].not_finite().count(), 0);
    }
}
