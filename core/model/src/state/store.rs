//! [`StateStore`]: owns the state of every sequence.

use super::pages::Arena;
use super::sequence::{Block, Sequence, Snapshot};
use super::{SequenceId, StateId, StateSpec};
use crate::layout::SequenceLayout;
use crate::{ModelError, Result};
use menagerie_kernels::{KvRows, KvType, store_rows};

/// Page table of a contiguous sequence: everything is one page.
const ONE_PAGE: &[u32] = &[0];

/// Owns the state of every sequence, contiguous or in pages; the two are the same to a component.
///
/// Memory comes zeroed from the system, so that capacity nobody has written to costs no resident memory.
pub struct StateStore {
    specs: Vec<StateSpec>,
    /// Bytes of a token row by state id; absent for per-sequence states.
    row_bytes: Vec<Option<usize>>,
    kv_type: KvType,
    capacity: usize,
    page_len: usize,
    arena: Option<Arena>,
    slots: Vec<Slot>,
}

/// A place for a sequence; the generation tells a reused place from the sequence that was there before.
struct Slot {
    generation: u32,
    sequence: Option<Sequence>,
}

impl StateStore {
    /// A store for these states (`specs[i]` has id `i`).
    ///
    /// With `page_len >= capacity_tokens` every sequence has contiguous room for `capacity_tokens`. With a smaller
    /// `page_len` (in tokens) all sequences share `capacity_tokens` of room, in pages; forks share pages until one of
    /// them writes.
    ///
    /// # Errors
    /// [`ModelError::State`] if a row cannot be stored as `kv_type`, or the room cannot be addressed.
    pub fn new(
        specs: Vec<StateSpec>,
        kv_type: KvType,
        capacity_tokens: usize,
        page_len: usize,
    ) -> Result<Self> {
        if capacity_tokens == 0 || page_len == 0 {
            return Err(ModelError::State("a store needs room for at least one token".to_owned()));
        }
        let row_bytes = specs.iter().map(|spec| row_bytes(spec, kv_type)).collect::<Result<Vec<_>>>()?;
        for (spec, bytes) in specs.iter().zip(&row_bytes) {
            let total = bytes.unwrap_or(0).checked_mul(capacity_tokens.saturating_add(page_len));
            if total.is_none_or(|total| total > isize::MAX as usize) {
                return Err(ModelError::State(format!(
                    "{}: {capacity_tokens} tokens do not fit into the address space; ask for a smaller context",
                    spec.name()
                )));
            }
        }
        let paged = page_len < capacity_tokens;
        let arena = paged.then(|| Arena::new(&row_bytes, page_len, capacity_tokens.div_ceil(page_len)));
        let page_len = page_len.min(capacity_tokens);
        Ok(Self { specs, row_bytes, kv_type, capacity: capacity_tokens, page_len, arena, slots: Vec::new() })
    }

    /// The declared states, in the order of their ids.
    pub fn specs(&self) -> &[StateSpec] {
        &self.specs
    }

    /// How token rows are stored.
    pub fn kv_type(&self) -> KvType {
        self.kv_type
    }

    /// Most tokens a sequence may reach.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Begins an empty sequence.
    ///
    /// # Errors
    /// [`ModelError::State`] if there are more sequences than ids.
    pub fn create(&mut self) -> Result<SequenceId> {
        let blocks = self.specs.iter().zip(&self.row_bytes).map(|(spec, bytes)| match bytes {
            None => Block::Values(vec![0.0; spec.elements()]),
            Some(_) if self.arena.is_some() => Block::Paged,
            Some(bytes) => Block::Rows(vec![0; bytes * self.capacity]),
        });
        let sequence =
            Sequence { len: 0, pages: Vec::new(), blocks: blocks.collect(), truncations: Vec::new() };
        self.insert(sequence)
    }

    fn insert(&mut self, sequence: Sequence) -> Result<SequenceId> {
        let slot = match self.slots.iter().position(|slot| slot.sequence.is_none()) {
            Some(free) => free,
            None => {
                self.slots.push(Slot { generation: 0, sequence: None });
                self.slots.len() - 1
            }
        };
        let index = u32::try_from(slot).map_err(|_| ModelError::State("too many sequences".to_owned()))?;
        self.slots[slot].sequence = Some(sequence);
        Ok(SequenceId((u64::from(self.slots[slot].generation) << 32) | u64::from(index)))
    }

    /// Ends a sequence and gives its memory back.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn free(&mut self, sequence: SequenceId) -> Result<()> {
        self.get_sequence(sequence)?;
        let slot = &mut self.slots[slot_of(sequence)];
        slot.generation = slot.generation.wrapping_add(1);
        let ended = slot.sequence.take();
        if let (Some(arena), Some(ended)) = (&mut self.arena, ended) {
            ended.pages.into_iter().for_each(|page| arena.release(page));
        }
        Ok(())
    }

    /// Tokens of a sequence.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn len(&self, sequence: SequenceId) -> Result<usize> {
        Ok(self.get_sequence(sequence)?.len)
    }

    /// Whether a sequence has no tokens.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn is_empty(&self, sequence: SequenceId) -> Result<bool> {
        Ok(self.len(sequence)? == 0)
    }

    /// Checks that every sequence of a step is where the layout says, and has room; takes the pages the step needs.
    ///
    /// # Errors
    /// [`ModelError::State`] names the sequence, its length and the position the step begins at.
    pub fn prepare(&mut self, layout: &SequenceLayout) -> Result<()> {
        for rows in layout.sequences() {
            let len = self.len(rows.sequence)?;
            if len != rows.first_position {
                return Err(ModelError::State(format!(
                    "sequence {} has {len} tokens, but the step begins at position {}",
                    rows.sequence.0, rows.first_position
                )));
            }
            self.reserve(rows.sequence, len, len + rows.rows.len())?;
        }
        Ok(())
    }

    /// Makes tokens `from..to` writable: they have room, and pages of their own.
    fn reserve(&mut self, sequence: SequenceId, from: usize, to: usize) -> Result<()> {
        self.get_sequence(sequence)?;
        if to > self.capacity {
            return Err(ModelError::State(format!(
                "{to} tokens do not fit into a context of {}; shorten the prompt or open the model with a larger context",
                self.capacity
            )));
        }
        let (Some(arena), Some(held)) = (&mut self.arena, &mut self.slots[slot_of(sequence)].sequence) else {
            return Ok(());
        };
        for page in from / self.page_len..to.div_ceil(self.page_len) {
            if page < held.pages.len() {
                held.pages[page] = arena.exclusive(held.pages[page])?;
            } else {
                held.pages.push(arena.take()?);
            }
        }
        Ok(())
    }

    /// Writes rows of a per-token state (`values` is `[rows, heads * head_dim]`) for the tokens from `position` on.
    ///
    /// # Errors
    /// [`ModelError::State`] if the rows were committed already, do not fit, or the state is of the other kind.
    pub fn write_rows(
        &mut self,
        state: StateId,
        sequence: SequenceId,
        position: usize,
        values: &[f32],
    ) -> Result<()> {
        let (elements, bytes) = self.token_state(state)?;
        let rows = values.len() / elements.max(1);
        if rows * elements != values.len() {
            let name = self.specs[state.0].name();
            return Err(ModelError::State(format!(
                "{name}: {} values are not rows of {elements}",
                values.len()
            )));
        }
        let len = self.len(sequence)?;
        if position < len {
            let name = self.specs[state.0].name();
            return Err(ModelError::State(format!(
                "{name}: position {position} is already committed (the sequence has {len} tokens); truncate first"
            )));
        }
        self.reserve(sequence, position, position + rows)?;
        let (kind, page_len) = (self.kv_type, self.page_len);
        let Some(held) = &mut self.slots[slot_of(sequence)].sequence else { return Ok(()) };
        let buffer = match (&mut held.blocks[state.0], &mut self.arena) {
            (Block::Rows(own), _) => {
                store_rows(kind, values, &mut own[position * bytes..(position + rows) * bytes])?;
                return Ok(());
            }
            (_, Some(arena)) => &mut arena.buffers[state.0],
            _ => return Ok(()),
        };
        let mut done = 0;
        while done < rows {
            let at = position + done;
            let count = (page_len - at % page_len).min(rows - done);
            let row = held.pages[at / page_len] as usize * page_len + at % page_len;
            let source = &values[done * elements..(done + count) * elements];
            store_rows(kind, source, &mut buffer[row * bytes..(row + count) * bytes])?;
            done += count;
        }
        Ok(())
    }

    /// Token rows of a state, as attention reads them: committed ones and those written in this step.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is of the other kind.
    pub fn rows(&self, state: StateId, sequence: SequenceId) -> Result<KvRows<'_>> {
        self.token_state(state)?;
        let held = self.get_sequence(sequence)?;
        let StateSpec::PerToken { heads, head_dim, .. } = &self.specs[state.0] else {
            return Err(self.other_kind(state));
        };
        let (bytes, pages): (&[u8], &[u32]) = match (&held.blocks[state.0], &self.arena) {
            (Block::Rows(own), _) => (own, ONE_PAGE),
            (_, Some(arena)) => (&arena.buffers[state.0], &held.pages),
            _ => return Err(self.other_kind(state)),
        };
        let (heads, head_dim) = (*heads, *head_dim);
        Ok(KvRows { kind: self.kv_type, heads, head_dim, bytes, page_len: self.page_len, pages })
    }

    /// The block of a per-sequence state.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is of the other kind.
    pub fn get(&self, state: StateId, sequence: SequenceId) -> Result<&[f32]> {
        match self.get_sequence(sequence)?.blocks.get(state.0) {
            Some(Block::Values(values)) => Ok(values),
            _ => Err(self.other_kind(state)),
        }
    }

    /// The block of a per-sequence state, to write.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is of the other kind.
    pub fn get_mut(&mut self, state: StateId, sequence: SequenceId) -> Result<&mut [f32]> {
        self.get(state, sequence)?;
        match self.get_sequence_mut(sequence)?.blocks.get_mut(state.0) {
            Some(Block::Values(values)) => Ok(values),
            _ => Err(ModelError::State(format!("state {} is not per sequence", state.0))),
        }
    }

    /// Commits `tokens` tokens that a forward has written; called in one place, by the pipeline.
    ///
    /// # Errors
    /// [`ModelError::State`] past the capacity.
    pub fn advance(&mut self, sequence: SequenceId, tokens: usize) -> Result<()> {
        let to = self.len(sequence)? + tokens;
        if to > self.capacity {
            return Err(ModelError::State(format!(
                "{to} tokens do not fit into a context of {}",
                self.capacity
            )));
        }
        self.get_sequence_mut(sequence)?.len = to;
        Ok(())
    }

    /// Goes back to the first `len` tokens.
    ///
    /// # Errors
    /// [`ModelError::State`] if the sequence is shorter, or has per-sequence state (which cannot be truncated, only
    /// restored from a snapshot, or dropped by truncating to 0).
    pub fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<()> {
        let held = self.len(sequence)?;
        if len > held {
            return Err(ModelError::State(format!("cannot truncate {held} tokens to {len}")));
        }
        let recurrent = self.specs.iter().find(|spec| matches!(spec, StateSpec::PerSequence { .. }));
        if let (Some(spec), true) = (recurrent, len != 0 && len != held) {
            return Err(ModelError::State(format!(
                "{}: per-sequence state cannot be truncated; take a snapshot before and restore it, or truncate to 0 \
                 and prefill again",
                spec.name()
            )));
        }
        self.cut(sequence, len)?;
        if len == 0 {
            for block in &mut self.get_sequence_mut(sequence)?.blocks {
                if let Block::Values(values) = block {
                    values.fill(0.0);
                }
            }
        }
        Ok(())
    }

    /// Shortens the token rows; blocks per sequence stay.
    fn cut(&mut self, sequence: SequenceId, len: usize) -> Result<()> {
        self.get_sequence(sequence)?;
        let keep = len.div_ceil(self.page_len);
        let Some(held) = &mut self.slots[slot_of(sequence)].sequence else { return Ok(()) };
        held.len = len;
        held.truncations.push(len);
        if let Some(arena) = &mut self.arena {
            held.pages.drain(keep.min(held.pages.len())..).for_each(|page| arena.release(page));
        }
        Ok(())
    }

    /// A second sequence with the same tokens; in a paged store the two share pages until one writes.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId> {
        let held = self.get_sequence(sequence)?;
        let len = held.len;
        let pages: Vec<u32> = held.pages[..held.pages.len().min(len.div_ceil(self.page_len))].to_vec();
        let capacity = self.capacity;
        let blocks = held.blocks.iter().zip(&self.row_bytes).map(|(block, bytes)| match (block, bytes) {
            (Block::Rows(rows), Some(bytes)) => {
                let mut copy = vec![0; bytes * capacity];
                copy[..len * bytes].copy_from_slice(&rows[..len * bytes]);
                Block::Rows(copy)
            }
            (other, _) => other.clone(),
        });
        let twin = Sequence { len, pages: pages.clone(), blocks: blocks.collect(), truncations: Vec::new() };
        if let Some(arena) = &mut self.arena {
            pages.into_iter().for_each(|page| arena.share(page));
        }
        self.insert(twin)
    }

    /// A point to come back to.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot> {
        let held = self.get_sequence(sequence)?;
        let values = held.blocks.iter().filter_map(|block| match block {
            Block::Values(values) => Some(values.clone()),
            _ => None,
        });
        Ok(Snapshot {
            sequence,
            len: held.len,
            truncations: held.truncations.len(),
            values: values.collect(),
        })
    }

    /// Goes back to a snapshot of the same sequence.
    ///
    /// # Errors
    /// [`ModelError::State`] if the snapshot is of another sequence, or rows below it were truncated since.
    pub fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<()> {
        let held = self.get_sequence(sequence)?;
        if snapshot.sequence != sequence {
            return Err(ModelError::State(format!(
                "the snapshot is of sequence {}, not of {}; fork and take a snapshot of the fork",
                snapshot.sequence.0, sequence.0
            )));
        }
        let lowest =
            held.truncations[snapshot.truncations.min(held.truncations.len())..].iter().copied().min();
        if lowest.is_some_and(|lowest| lowest < snapshot.len) || held.len < snapshot.len {
            return Err(ModelError::State(format!(
                "the snapshot of {} tokens is out of date: the sequence was cut below it; prefill again",
                snapshot.len
            )));
        }
        self.cut(sequence, snapshot.len)?;
        let blocks = self.get_sequence_mut(sequence)?.blocks.iter_mut();
        let own = blocks.filter_map(|block| match block {
            Block::Values(values) => Some(values),
            _ => None,
        });
        own.zip(&snapshot.values).for_each(|(values, saved)| values.copy_from_slice(saved));
        Ok(())
    }

    /// Bytes that hold tokens of sequences now; capacity nobody has written to is not counted.
    pub fn bytes(&self) -> usize {
        let row: usize = self.row_bytes.iter().flatten().sum();
        let sequences = self.slots.iter().filter_map(|slot| slot.sequence.as_ref());
        let blocks: usize = self
            .specs
            .iter()
            .filter(|s| matches!(s, StateSpec::PerSequence { .. }))
            .map(|s| s.elements() * 4)
            .sum();
        let (count, tokens) = sequences.fold((0, 0), |(count, tokens), held| (count + 1, tokens + held.len));
        let tokens = self.arena.as_ref().map_or(tokens, |arena| arena.used() * self.page_len);
        tokens * row + count * blocks
    }

    /// Bytes a token takes in all states together.
    pub fn bytes_per_token(&self) -> usize {
        self.row_bytes.iter().flatten().sum()
    }

    fn token_state(&self, state: StateId) -> Result<(usize, usize)> {
        match (self.specs.get(state.0), self.row_bytes.get(state.0)) {
            (Some(spec), Some(Some(bytes))) => Ok((spec.elements(), *bytes)),
            _ => Err(self.other_kind(state)),
        }
    }

    fn other_kind(&self, state: StateId) -> ModelError {
        ModelError::State(match self.specs.get(state.0) {
            Some(spec @ StateSpec::PerToken { .. }) => {
                format!("{}: has rows per token, no block", spec.name())
            }
            Some(spec) => format!("{}: has a block per sequence, no rows", spec.name()),
            None => format!("state {} was not declared; the store has {}", state.0, self.specs.len()),
        })
    }

    fn get_sequence(&self, sequence: SequenceId) -> Result<&Sequence> {
        let slot =
            self.slots.get(slot_of(sequence)).filter(|slot| slot.generation == generation_of(sequence));
        slot.and_then(|slot| slot.sequence.as_ref()).ok_or_else(|| unknown(sequence))
    }

    fn get_sequence_mut(&mut self, sequence: SequenceId) -> Result<&mut Sequence> {
        let slot =
            self.slots.get_mut(slot_of(sequence)).filter(|slot| slot.generation == generation_of(sequence));
        slot.and_then(|slot| slot.sequence.as_mut()).ok_or_else(|| unknown(sequence))
    }
}

/// Bytes of a token row, or `None` for a per-sequence state.
fn row_bytes(spec: &StateSpec, kv_type: KvType) -> Result<Option<usize>> {
    let StateSpec::PerToken { name, .. } = spec else { return Ok(None) };
    let elements = spec.elements();
    match kv_type.row_bytes(elements) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(ModelError::State(format!(
            "{name}: rows of {elements} elements cannot be stored as {kv_type:?}; choose f16 or f32"
        ))),
    }
}

fn slot_of(sequence: SequenceId) -> usize {
    (sequence.0 & 0xffff_ffff) as usize
}

fn generation_of(sequence: SequenceId) -> u32 {
    (sequence.0 >> 32) as u32
}

fn unknown(sequence: SequenceId) -> ModelError {
    ModelError::State(format!(
        "there is no sequence {}; it was freed, or belongs to another store",
        sequence.0
    ))
}
