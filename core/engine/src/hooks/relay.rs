//! [`Relay`]: sends rows of layers in other processes to a hook of this process after every step.

use crate::setters::setters;
use menagerie_model::{
    Effect, HookInput, HookRecipe, InferenceStep, LayerHook, ModelError, Phases, Result, Rows, SequenceRows,
    SerializableHook,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::process;
use std::sync::{Mutex, PoisonError};

/// Which rows of layers in other processes an observing hook receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RelayOptions {
    /// The hook's name, for messages.
    pub name: String,
    /// Layers.
    pub layers: Range<usize>,
    /// Whether to send the inputs of layers.
    pub before: bool,
    /// Whether to send the outputs of layers.
    pub after: bool,
    /// Whether to send rows of prompts.
    pub prefill: bool,
    /// Whether to send rows of generated tokens.
    pub decode: bool,
}

setters! { RelayOptions:
    with_before(before: bool),
    with_after(after: bool),
    with_prefill(prefill: bool),
    with_decode(decode: bool),
}

/// Rows of a step before or after a layer, from another process.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayedRows {
    /// Their layer, tokens and sequences.
    pub head: RelayHeader,
    /// The rows, `[T, D]`.
    pub values: Vec<f32>,
}

/// The description of relayed rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayHeader {
    /// The layer, 0-based as in `blk.N`.
    pub layer: usize,
    /// Whether they are inputs of the layer; otherwise they are its outputs.
    pub before: bool,
    /// D: the width of a row.
    pub cols: usize,
    /// Ids of the rows' tokens; `None` if the step's input was rows.
    pub tokens: Option<Vec<u32>>,
    /// Numbers per position.
    pub axes: usize,
    /// Positions of the rows, `[T, axes]`.
    pub positions: Vec<u32>,
    /// The sequences, in row order.
    pub sequences: Vec<RelaySequence>,
}

/// The rows of one sequence among those that were relayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaySequence {
    /// Its rows.
    pub rows: Range<usize>,
    /// Tokens of the sequence before them.
    pub past: usize,
    /// Whether it is generating.
    pub decodes: bool,
    /// Identifies the sequence among those of all processes; it differs from process to process.
    pub numbers: [u64; 2],
}

/// In the process of a stage: keeps the rows of its layers until the chain collects them after each step.
pub(crate) struct Relay {
    options: RelayOptions,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl RelayOptions {
    /// The kind of recipe of a relay.
    const KIND: &str = "relay";

    /// For the hook `name` and these layers; nothing is sent by default.
    pub fn new(name: impl Into<String>, layers: Range<usize>) -> Self {
        Self { name: name.into(), layers, before: false, after: false, prefill: false, decode: false }
    }

    /// The recipe of a relay in the process of a stage.
    pub fn recipe(&self) -> HookRecipe {
        // Numbers and a text: JSON can represent them.
        HookRecipe { kind: Self::KIND.to_owned(), content: serde_json::to_vec(self).unwrap_or_default() }
    }
}

impl RelayedRows {
    /// Decodes rows that a relay sent.
    ///
    /// # Errors
    /// The bytes are invalid; as a sentence.
    pub fn decode(piece: &[u8]) -> std::result::Result<Self, String> {
        let cut = || "the rows that a stage sent of its layers are incomplete".to_owned();
        let (length, rest) = piece.split_first_chunk::<4>().ok_or_else(cut)?;
        let (head, values) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
        let head: RelayHeader = serde_json::from_slice(head).map_err(|error| error.to_string())?;
        let (values, left) = values.as_chunks::<4>();
        let rows = head.rows();
        let whole = left.is_empty()
            && head.cols > 0
            && values.len() == rows * head.cols
            && head.positions.len() == rows * head.axes
            && head.tokens.as_ref().is_none_or(|tokens| tokens.len() == rows);
        let ends = head.sequences.iter().map(|one| one.rows.end);
        let starts = head.sequences.iter().map(|one| one.rows.start);
        let joined = std::iter::once(0).chain(ends).zip(starts).all(|(end, start)| end == start);
        match whole && joined {
            true => {
                Ok(Self { head, values: values.iter().map(|value| f32::from_le_bytes(*value)).collect() })
            }
            false => Err(cut()),
        }
    }
}

impl RelayHeader {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.sequences.last().map_or(0, |last| last.rows.end)
    }

    fn of(before: bool, shown: &HookInput) -> Self {
        let positions = shown.layout.positions();
        let sequence = |part: &SequenceRows| {
            let [pool, number] = part.sequence.numbers();
            RelaySequence {
                rows: part.rows.clone(),
                past: part.first_position,
                decodes: matches!(part.step, InferenceStep::Decode { .. }),
                // Pools of two processes have the same numbers.
                numbers: [u64::from(process::id()) << 32 ^ pool, number],
            }
        };
        Self {
            layer: shown.layer,
            before,
            cols: shown.rows.cols(),
            tokens: shown.tokens.map(<[u32]>::to_vec),
            axes: positions.axes(),
            positions: positions.values().to_vec(),
            sequences: shown.layout.sequences().iter().map(sequence).collect(),
        }
    }
}

impl Relay {
    /// The kind of recipe of a relay.
    pub(crate) const KIND: &str = RelayOptions::KIND;

    /// The relay of a recipe, in the process of a stage.
    ///
    /// # Errors
    /// The recipe is invalid.
    pub(crate) fn copied(recipe: &[u8]) -> std::result::Result<Self, String> {
        let options = serde_json::from_slice(recipe).map_err(|error| error.to_string())?;
        Ok(Self { options, kept: Mutex::default() })
    }

    fn keep(&self, before: bool, shown: &HookInput) -> Result<Option<Rows>> {
        let refused = |reason: String| ModelError::Hook { hook: self.options.name.clone(), reason };
        let head = serde_json::to_vec(&RelayHeader::of(before, shown));
        let head = head.map_err(|error| refused(format!("its rows cannot be sent: {error}")))?;
        let values = shown.compute.backend.read(shown.rows)?;
        let mut piece = Vec::with_capacity(4 + head.len() + size_of_val(&*values));
        piece.extend((head.len() as u32).to_le_bytes());
        piece.extend(head);
        values.iter().for_each(|value| piece.extend(value.to_le_bytes()));
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
        Ok(None)
    }
}

impl LayerHook for Relay {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn layers(&self) -> Range<usize> {
        self.options.layers.clone()
    }

    fn phases(&self) -> Phases {
        match (self.options.prefill, self.options.decode) {
            (true, false) => Phases::Prefill,
            (false, true) => Phases::Decode,
            (true, true) | (false, false) => Phases::All,
        }
    }

    fn effect(&self) -> Effect {
        Effect::Observes
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        if self.options.before { self.keep(true, shown) } else { Ok(None) }
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        if self.options.after { self.keep(false, shown) } else { Ok(None) }
    }

    fn serializable(&self) -> Option<&dyn SerializableHook> {
        Some(self)
    }
}

impl SerializableHook for Relay {
    fn recipe(&self) -> HookRecipe {
        self.options.recipe()
    }

    fn give(&self, piece: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.iter().try_for_each(|one| piece(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_cut_are_refused() {
        let sequence =
            |rows: Range<usize>, past| RelaySequence { rows, past, decodes: false, numbers: [7, 8] };
        let head = RelayHeader {
            layer: 3,
            before: true,
            cols: 2,
            tokens: Some(vec![5, 6, 7]),
            axes: 1,
            positions: vec![4, 5, 0],
            sequences: vec![sequence(0..2, 4), sequence(2..3, 0)],
        };
        let values = [1.0f32, f32::NAN, -0.0, 3.5, 1e-40, 6.0];
        let piece = |head: &RelayHeader| {
            let text = serde_json::to_vec(head).unwrap();
            let mut piece = (text.len() as u32).to_le_bytes().to_vec();
            piece.extend(text);
            values.iter().for_each(|value| piece.extend(value.to_le_bytes()));
            piece
        };
        let good = piece(&head);
        let found = RelayedRows::decode(&good).unwrap();
        assert_eq!(found.head, head);
        assert_eq!(found.values.map_bits(), values.map_bits());
        for cut in 0..good.len() {
            assert!(RelayedRows::decode(&good[..cut]).is_err(), "{cut} bytes");
        }
        let others = [
            RelayHeader { cols: 3, ..head.clone() },
            RelayHeader { tokens: Some(vec![1]), ..head.clone() },
            RelayHeader { axes: 3, ..head.clone() },
            RelayHeader { sequences: vec![sequence(1..3, 0)], ..head.clone() },
        ];
        assert!(others.iter().all(|other| RelayedRows::decode(&piece(other)).is_err()));
    }

    trait Bits {
        fn map_bits(&self) -> Vec<u32>;
    }

    impl<T: AsRef<[f32]>> Bits for T {
        fn map_bits(&self) -> Vec<u32> {
            self.as_ref().iter().map(|value| value.to_bits()).collect()
        }
    }
}
