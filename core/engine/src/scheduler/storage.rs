//! The stored form of a sequence: its state as a list of sections, which are read and written part by part.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{Regime, Sequence, StateSection, StoredSequence, StoredState};
use menagerie_model::{RopeRegime, StateId, StateSpec};
use std::ops::Range;
use std::sync::Arc;

impl Scheduler {
    /// The stored form of a sequence, without its values.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
    pub(crate) fn stored_sequence(&self, sequence: &Sequence) -> Result<StoredSequence, GenerateError> {
        let state = |(index, spec): (usize, &StateSpec)| {
            let (id, name) = (StateId(index), spec.name().to_owned());
            Ok::<_, GenerateError>(match spec {
                StateSpec::PerToken { window, .. } => StoredState::Rows {
                    name,
                    row_bytes: self.pool.row_bytes(id)?,
                    window: *window,
                    first: self.pool.held(id, sequence.id)?.start,
                },
                StateSpec::PerSequence { .. } => StoredState::Block { name, elements: spec.elements() },
            })
        };
        Ok(StoredSequence {
            tokens: sequence.computed,
            prompt: sequence.prompt.min(sequence.computed),
            regime: match sequence.regime {
                RopeRegime::Short => Regime::Short,
                RopeRegime::Long => Regime::Long,
            },
            sets: self.pool.sets(),
            states: self.pool.specs().iter().enumerate().map(state).collect::<Result<_, _>>()?,
            // Snapshots of windowed layers are only pages of this pool.
            snapshots: match self.engine.is_recurrent() {
                true => sequence.snapshots.iter().map(|snapshot| snapshot.tokens()).collect(),
                false => Vec::new(),
            },
        })
    }

    /// Passes the sections of a sequence to `take`, each in consecutive parts.
    ///
    /// # Errors
    /// An error of the backend or of `take`.
    pub(crate) fn read_state<E: From<GenerateError>>(
        &mut self,
        sequence: &Sequence,
        stored: &StoredSequence,
        take: &mut dyn FnMut(StateRead) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut copies = Vec::new();
        for snapshot in sequence.snapshots.iter().filter(|one| stored.snapshots.contains(&one.tokens())) {
            copies.extend(self.pool.copies(snapshot).map_err(GenerateError::from)?);
        }
        let mut copies = copies.into_iter();
        for section in stored.sections() {
            take(StateRead::Begin(&section))?;
            match &section {
                StateSection::Tokens => {
                    for part in sequence.tokens().chunks(1 << 14) {
                        let bytes: Vec<u8> = part.iter().flat_map(|id| id.to_le_bytes()).collect();
                        take(StateRead::Bytes(&bytes))?;
                    }
                }
                StateSection::Rows { set, state, positions, .. } => {
                    self.pool.use_set(*set).map_err(GenerateError::from)?;
                    for part in pages(positions, self.pool.page_len()) {
                        let bytes = self.pool.read_rows(*state, sequence.id, part);
                        take(StateRead::Bytes(&bytes.map_err(GenerateError::from)?))?;
                    }
                }
                StateSection::Block { set, state, .. } => {
                    self.pool.use_set(*set).map_err(GenerateError::from)?;
                    let values = self.pool.read_block(*state, sequence.id).map_err(GenerateError::from)?;
                    take(StateRead::Bytes(&floats_out(&values)))?;
                }
                StateSection::Copy { .. } => {
                    take(StateRead::Bytes(&floats_out(&copies.next().unwrap_or_default())))?;
                }
            }
            take(StateRead::End)?;
        }
        Ok(())
    }

    /// Fills an empty sequence with what [`Self::read_state`] read from another one of the same model; `give` fills
    /// each part in the same order. After an error the sequence is empty.
    ///
    /// # Errors
    /// Too many tokens for the pool, a token past the vocabulary, or an error of the backend or of `give`.
    pub(crate) fn write_state<E: From<GenerateError>>(
        &mut self,
        sequence: &mut Sequence,
        stored: &StoredSequence,
        give: &mut dyn FnMut(StateWrite) -> Result<(), E>,
    ) -> Result<(), E> {
        self.reset(sequence)?;
        let result = self.fill(sequence, stored, give);
        if result.is_err() {
            sequence.computed = 0;
            sequence.tokens.clear();
            sequence.snapshots.clear();
            self.reset(sequence)?;
        }
        result
    }

    fn fill<E: From<GenerateError>>(
        &mut self,
        sequence: &mut Sequence,
        stored: &StoredSequence,
        give: &mut dyn FnMut(StateWrite) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pool.refill(sequence.id, stored.tokens, &stored.first()).map_err(GenerateError::from)?;
        let mut copies: Vec<Vec<Vec<f32>>> = vec![Vec::new(); stored.snapshots.len()];
        for section in stored.sections() {
            give(StateWrite::Begin(&section))?;
            match &section {
                StateSection::Tokens => {
                    for part in pages(&(0..stored.tokens), 1 << 14) {
                        let mut bytes = vec![0; part.len() * 4];
                        give(StateWrite::Bytes(&mut bytes))?;
                        let (ids, _) = bytes.as_chunks::<4>();
                        sequence.tokens.extend(ids.iter().map(|id| u32::from_le_bytes(*id)));
                    }
                }
                StateSection::Rows { set, state, positions, row_bytes } => {
                    self.pool.use_set(*set).map_err(GenerateError::from)?;
                    for part in pages(positions, self.pool.page_len()) {
                        let mut bytes = vec![0; part.len() * row_bytes];
                        give(StateWrite::Bytes(&mut bytes))?;
                        let written = self.pool.write_rows(*state, sequence.id, part.start, &bytes);
                        written.map_err(GenerateError::from)?;
                    }
                }
                StateSection::Block { set, state, elements } => {
                    self.pool.use_set(*set).map_err(GenerateError::from)?;
                    let values = floats_in(*elements, give)?;
                    self.pool.write_block(*state, sequence.id, &values).map_err(GenerateError::from)?;
                }
                StateSection::Copy { snapshot, elements } => {
                    copies[*snapshot].push(floats_in(*elements, give)?)
                }
            }
            give(StateWrite::End(&section))?;
        }
        self.engine.check_tokens(&sequence.tokens)?;
        for (tokens, values) in stored.snapshots.iter().zip(copies) {
            let put = self.pool.put_snapshot(sequence.id, *tokens, values).map_err(GenerateError::from)?;
            sequence.snapshots.push(Arc::new(put));
        }
        (sequence.computed, sequence.prompt, sequence.cached) = (stored.tokens, stored.prompt, 0);
        sequence.regime = match stored.regime {
            Regime::Short => RopeRegime::Short,
            Regime::Long => RopeRegime::Long,
        };
        Ok(())
    }
}

/// A part of a stored sequence, in the order of reading.
pub(crate) enum StateRead<'a> {
    Begin(&'a StateSection),
    Bytes(&'a [u8]),
    End,
}

/// A part of a stored sequence, in the order of writing; bytes are to be filled.
pub(crate) enum StateWrite<'a> {
    Begin(&'a StateSection),
    Bytes(&'a mut [u8]),
    End(&'a StateSection),
}

/// A range in parts that end at multiples of `len`.
fn pages(range: &Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let (mut at, end) = (range.start, range.end);
    std::iter::from_fn(move || {
        let part = at..((at / len + 1) * len).min(end);
        at = part.end;
        (!part.is_empty()).then_some(part)
    })
}

fn floats_out(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats_in<E>(elements: usize, give: &mut dyn FnMut(StateWrite) -> Result<(), E>) -> Result<Vec<f32>, E> {
    let mut bytes = vec![0; elements * 4];
    give(StateWrite::Bytes(&mut bytes))?;
    let (values, _) = bytes.as_chunks::<4>();
    Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}
