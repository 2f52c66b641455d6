//! [`Slots`]: rows that a layer passes to later layers of the same step.

use crate::rows::Rows;
use crate::{ModelError, Result};

/// Index of a declared slot; not a layer index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub usize);

/// The use of a slot by a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotUse {
    /// It writes the rows, in every step: it was the first to declare the slot.
    Writes,
    /// It reads rows that were written earlier in the step.
    Reads,
}

/// Rows `[T, width]` of a step that have a name in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// For errors; components that use the same name share the rows.
    pub name: String,
    /// Elements of a row.
    pub width: usize,
}

/// Hands out slot ids while a model is assembled, in the order in which its parts run.
#[derive(Clone, Debug, Default)]
pub struct SlotDeclarations {
    specs: Vec<SlotSpec>,
}

impl SlotDeclarations {
    /// Declares a slot: the first component to declare it writes it, later ones read it.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the layer that writes it declared another width.
    pub fn declare(&mut self, name: &str, width: usize) -> Result<(SlotId, SlotUse)> {
        let Some(index) = self.specs.iter().position(|spec| spec.name == name) else {
            self.specs.push(SlotSpec { name: name.to_owned(), width });
            return Ok((SlotId(self.specs.len() - 1), SlotUse::Writes));
        };
        let written = self.specs[index].width;
        if written == width {
            return Ok((SlotId(index), SlotUse::Reads));
        }
        Err(ModelError::Shape {
            what: format!("slot `{name}`, which an earlier layer writes"),
            expected: format!("[T, {written}]"),
            found: format!("[T, {width}]"),
        })
    }

    /// Everything declared, in the order of the ids.
    pub fn specs(&self) -> &[SlotSpec] {
        &self.specs
    }
}

/// The slots of a step; empty when it begins.
#[derive(Debug, Default)]
pub struct Slots {
    rows: Vec<Option<Rows>>,
}

impl Slots {
    /// Passes rows `[T, width]` to later layers.
    pub fn write(&mut self, slot: SlotId, rows: Rows) {
        if self.rows.len() <= slot.0 {
            self.rows.resize_with(slot.0 + 1, || None);
        }
        self.rows[slot.0] = Some(rows);
    }

    /// The rows written in this step, by slot.
    pub fn into_written(self) -> impl Iterator<Item = (SlotId, Rows)> {
        let slots = self.rows.into_iter().enumerate();
        slots.filter_map(|(index, rows)| Some((SlotId(index), rows?)))
    }

    /// The rows that an earlier layer of the step wrote.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if there are none: the layer that writes is not part of this step.
    pub fn read(&self, slot: SlotId) -> Result<&Rows> {
        self.rows.get(slot.0).and_then(Option::as_ref).ok_or_else(|| {
            ModelError::Unsupported(
                "a layer of this part of the model reads rows of a layer of another part; run the model in one piece"
                    .to_owned(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_first_writes_and_widths_must_agree() {
        let mut slots = SlotDeclarations::default();
        assert_eq!(slots.declare("first value", 8).unwrap(), (SlotId(0), SlotUse::Writes));
        assert_eq!(slots.declare("gate", 4).unwrap(), (SlotId(1), SlotUse::Writes));
        assert_eq!(slots.declare("first value", 8).unwrap(), (SlotId(0), SlotUse::Reads));
        let error = slots.declare("gate", 8).unwrap_err().to_string();
        assert!(error.contains("slot `gate`") && error.contains("[T, 4]"), "{error}");
        assert_eq!(slots.specs().len(), 2);
    }

    #[test]
    fn what_was_not_written_in_a_step_is_refused() {
        let mut slots = Slots::default();
        slots.write(SlotId(2), Rows::new(Box::new(()), 3, 8));
        assert_eq!(slots.read(SlotId(2)).unwrap().rows(), 3);
        for missing in [SlotId(1), SlotId(3)] {
            let error = slots.read(missing).unwrap_err().to_string();
            assert!(error.contains("in one piece"), "{error}");
        }
    }
}
