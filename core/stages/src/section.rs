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

/// A value that is no number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotFinite {
    pub(crate) row: usize,
    pub(crate) column: usize,
    pub(crate) value: f32,
}

impl Section {
    /// Says what sections are; their values go beside it, one section after the other.
    pub(crate) fn encode_all(sections: Vec<Self>, out: &mut Writer) -> Vec<f32> {
        out.count(sections.len());
        let mut all: Option<Vec<f32>> = None;
        for Self { carried, cols, values } in sections {
            let (kind, slot) = match carried {
                Carried::Stream => (0, 0),
                Carried::Embedded => (1, 0),
                Carried::Held => (2, 0),
                Carried::PerLayer => (3, 0),
                Carried::Slot(slot) => (4, slot),
            };
            out.u8(kind);
            out.u32(slot);
            out.count(cols);
            out.count(values.len());
            // Those of one section are moved.
            match &mut all {
                None => all = Some(values),
                Some(all) => all.extend_from_slice(&values),
            }
        }
        all.unwrap_or_default()
    }

    /// Sections with their values, all of which are some section's.
    pub(crate) fn decode_all(from: &mut Reader, mut rows: Vec<f32>) -> Result<Vec<Self>, String> {
        let count = from.count(21)?;
        let heads = (0..count).map(|_| head(from)).collect::<Result<Vec<_>, _>>()?;
        let told = heads.iter().try_fold(0_usize, |sum, (.., count)| sum.checked_add(*count));
        if told != Some(rows.len()) {
            return Err(format!("{count} kinds of rows do not share {} values out", rows.len()));
        }
        // From the last one back: the first keeps its place.
        let with_values = |(carried, cols, count): (Carried, usize, usize)| {
            let values = if rows.len() == count {
                std::mem::take(&mut rows)
            } else {
                rows.split_off(rows.len() - count)
            };
            Self { carried, cols, values }
        };
        let mut sections: Vec<Self> = heads.into_iter().rev().map(with_values).collect();
        sections.reverse();
        Ok(sections)
    }

    /// The first value of each row that is no number.
    pub(crate) fn not_finite(&self) -> impl Iterator<Item = NotFinite> {
        let is_bad = |value: &f32| value.to_bits() & f32::INFINITY.to_bits() == f32::INFINITY.to_bits();
        // One pass without branches first.
        let any = self.values.iter().fold(false, |bad, value| bad | is_bad(value));
        let rows = self.values.chunks_exact(self.cols).enumerate().filter(move |_| any);
        rows.filter_map(move |(row, values)| {
            let column = values.iter().position(is_bad)?;
            Some(NotFinite { row, column, value: values[column] })
        })
    }
}

/// Which rows a section is of, their width, and how many values it has.
fn head(from: &mut Reader) -> Result<(Carried, usize, usize), String> {
    let (kind, slot) = (from.u8()?, from.u32()?);
    let carried = match kind {
        0 => Carried::Stream,
        1 => Carried::Embedded,
        2 => Carried::Held,
        3 => Carried::PerLayer,
        4 => Carried::Slot(slot),
        kind => return Err(format!("rows of kind {kind} are not known")),
    };
    let (cols, values) = (from.number()?, from.number()?);
    if cols == 0 || !values.is_multiple_of(cols) {
        return Err(format!("{values} values are no rows of {cols}"));
    }
    Ok((carried, cols, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections() -> Vec<Section> {
        let section = |carried, cols, values: &[f32]| Section { carried, cols, values: values.to_vec() };
        vec![
            section(Carried::Stream, 2, &[1.0, 2.0, 3.0, 4.0]),
            section(Carried::Held, 2, &[5.0, 6.0, 7.0, 8.0]),
            section(Carried::Slot(3), 1, &[9.0, 10.0]),
        ]
    }

    #[test]
    fn sections_come_back_as_they_were_and_no_value_is_left_over() {
        for count in 0..=3 {
            let told: Vec<Section> = sections().into_iter().take(count).collect();
            let mut out = Writer::default();
            let rows = Section::encode_all(told.clone(), &mut out);
            let mut from = Reader::new(&out.0);
            assert_eq!(Section::decode_all(&mut from, rows.clone()).unwrap(), told);
            from.end().unwrap();
            for cut in 0..out.0.len() {
                assert!(Section::decode_all(&mut Reader::new(&out.0[..cut]), rows.clone()).is_err());
            }
            let more = [rows, vec![0.0]].concat();
            assert!(Section::decode_all(&mut Reader::new(&out.0), more).is_err());
        }
    }

    #[test]
    fn values_of_one_section_are_moved() {
        let (one, mut out) = (sections().remove(0), Writer::default());
        let address = one.values.as_ptr();
        let rows = Section::encode_all(vec![one], &mut out);
        assert_eq!(rows.as_ptr(), address);
        let again = Section::decode_all(&mut Reader::new(&out.0), rows).unwrap();
        assert_eq!(again[0].values.as_ptr(), address);
    }

    #[test]
    fn every_row_that_is_no_number_is_found() {
        let values = vec![0.0, 1.0, f32::NAN, f32::INFINITY, 2.0, 3.0, 4.0, f32::NEG_INFINITY];
        let section = Section { carried: Carried::Stream, cols: 2, values };
        let found: Vec<(usize, usize)> = section.not_finite().map(|one| (one.row, one.column)).collect();
        assert_eq!(found, [(1, 0), (3, 1)]);
        assert_eq!(sections()[0].not_finite().count(), 0);
    }
}
