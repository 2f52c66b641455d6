//! A step of the host for tests: what goes into a `Call`.

use super::building::SlotRequest;
use super::calling::{self, TestCall, TokenRows};
use super::feed::Feed;
use super::model::{SequenceMemory, Sequences, SlotRows, TestInstance};
use super::numbers::RandomNumbers;
use crate::abi::{self, Component, Header, StateSpec, Status, Tensor};
use crate::error::{Error, Result};
use std::cell::RefCell;

/// A step that is being made.
pub(super) struct TestStep<'s> {
    /// The sequences of the step, taken out of those that are kept.
    taken: Vec<(usize, SequenceMemory)>,
    kept: &'s mut Sequences,
    slots: &'s mut SlotRows,
    /// Rows of the slots that the instance asked for.
    slot_rows: Vec<Vec<f32>>,
    /// Of each sequence: its first row, how many, and how many tokens came before.
    spans: Vec<[usize; 3]>,
    pub(super) rows: usize,
    positions: Vec<u32>,
    ids: Vec<u32>,
    /// Rows, the stream before the norm, the input of the block.
    inputs: [Vec<f32>; 3],
}

impl<'s> TestStep<'s> {
    pub(super) fn new(
        instance: &TestInstance,
        kept: &'s mut Sequences,
        slots: &'s mut SlotRows,
        feeds: &[Feed],
    ) -> Result<Self> {
        check(feeds, instance.width)?;
        let mut step = TestStep {
            taken: Vec::new(),
            kept,
            slots,
            slot_rows: Vec::new(),
            spans: Vec::new(),
            rows: 0,
            positions: Vec::new(),
            ids: Vec::new(),
            inputs: Default::default(),
        };
        for feed in feeds {
            step.add(instance, feed);
        }
        step.fill_slots(instance)?;
        Ok(step)
    }

    fn add(&mut self, instance: &TestInstance, feed: &Feed) {
        let fresh = || SequenceMemory {
            past: 0,
            blocks: instance.wanted.states.iter().map(|state| vec![0.0; state.block()]).collect(),
            rows: vec![Vec::new(); instance.wanted.states.len()],
        };
        let kept = self.kept.remove(&feed.sequence).unwrap_or_else(fresh);
        let rows = feed.rows.len() / instance.width.max(1);
        self.spans.push([self.rows, rows, kept.past]);
        let positions = kept.past as u32..(kept.past + rows) as u32;
        self.positions.extend(positions.clone());
        // Any ids that are the same for the same place of a sequence.
        self.ids.extend(positions.map(|position| position * 7 % 31));
        self.inputs[0].extend_from_slice(feed.rows);
        match feed.raw {
            Some([stream, block]) => {
                self.inputs[1].extend_from_slice(stream);
                self.inputs[2].extend_from_slice(block);
            }
            None => {
                self.inputs[1].extend(feed.rows.iter().map(|x| x * 0.5));
                self.inputs[2].extend(feed.rows.iter().map(|x| -x));
            }
        }
        self.rows += rows;
        self.taken.push((feed.sequence, kept));
    }

    /// Slots that are read have the rows that were set, or some that are the same for the same place of a sequence.
    fn fill_slots(&mut self, instance: &TestInstance) -> Result<()> {
        for asked in &instance.wanted.slots {
            let len = self.rows * asked.width;
            let given = self.slots.get(&asked.name).filter(|_| asked.reads).cloned();
            if given.as_ref().is_some_and(|rows| rows.len() != len) {
                let name = &asked.name;
                return Err(Error::new(format!(
                    "slot {name}: expected {len} numbers for the rows of the step"
                )));
            }
            let made_up = || if asked.reads { self.made_up(asked.width) } else { vec![f32::NAN; len] };
            let rows = given.unwrap_or_else(made_up);
            self.slot_rows.push(rows);
        }
        Ok(())
    }

    /// Rows of a slot that are the same for the same row of the step, as those of an earlier layer would be.
    fn made_up(&self, width: usize) -> Vec<f32> {
        let rows = self.inputs[0].chunks_exact((self.inputs[0].len() / self.rows.max(1)).max(1));
        let seed =
            |row: &[f32]| row.iter().fold(0u64, |seed, x| seed.rotate_left(7) ^ u64::from(x.to_bits()));
        rows.flat_map(|row| RandomNumbers::new(seed(row)).reals(width, 1.0)).collect()
    }

    /// Runs a function with the ABI's `Call` over this.
    pub(super) fn with_call(
        &mut self,
        instance: &TestInstance,
        outputs: &[Tensor],
        run: impl FnOnce(&abi::Call) -> Status,
    ) -> Status {
        let family = instance.component.family;
        let sees_sequences =
            [Component::MIXER, Component::FEED_FORWARD, Component::LAYER_HOOK].contains(&family);
        let sequences = self.sequences();
        let inputs = self.input_rows(family, instance.width);
        let slots = self.slot_tensors(instance);
        let (states, token_rows) = split(&mut self.taken, instance);
        let calling = TestCall {
            made: &instance.made,
            wanted: &instance.wanted,
            threads: instance.threads,
            spans: self.spans.clone(),
            token_rows: RefCell::new(token_rows),
            scratch: RefCell::default(),
        };
        let call = abi::Call {
            header: Header::of::<abi::Call>(),
            inputs: inputs.as_ptr(),
            n_inputs: inputs.len(),
            outputs: outputs.as_ptr(),
            n_outputs: outputs.len(),
            sequences: sequences.as_ptr(),
            n_sequences: if sees_sequences { sequences.len() } else { 0 },
            states: states.as_ptr(),
            n_states: instance.wanted.states.len(),
            slots: slots.as_ptr(),
            n_slots: slots.len(),
            token_ids: if sees_sequences { self.ids.as_ptr() } else { std::ptr::null() },
            threads: instance.threads as u64,
            context: (&raw const calling).cast_mut().cast(),
            linear: calling::linear,
            parallel_for: calling::parallel_for,
            scratch: calling::scratch,
            store: calling::store,
            stored: calling::stored,
        };
        run(&call)
    }

    /// The rows that went in.
    pub(super) fn given(&self) -> &[f32] {
        &self.inputs[0]
    }

    fn sequences(&self) -> Vec<abi::Sequence> {
        let sequence = |([first, rows, past], number): ([usize; 3], u64)| abi::Sequence {
            first_row: first as u64,
            rows: rows as u64,
            past: past as u64,
            positions: self.positions.as_ptr().wrapping_add(first),
            axes: 1,
            decoding: u32::from(past > 0 && rows == 1),
            pool: 0,
            number,
        };
        let numbers = self.taken.iter().map(|(number, _)| *number as u64);
        self.spans.iter().copied().zip(numbers).map(sequence).collect()
    }

    fn input_rows(&self, family: u32, width: usize) -> Vec<Tensor> {
        let count = if family == Component::FEED_FORWARD { 3 } else { 1 };
        let rows =
            |data: &Vec<f32>| Tensor::rows(data.as_ptr().cast_mut(), self.rows, width, Tensor::READ_ONLY);
        self.inputs[..count].iter().map(rows).collect()
    }

    fn slot_tensors(&mut self, instance: &TestInstance) -> Vec<Tensor> {
        let tensor = |(asked, rows): (&SlotRequest, &mut Vec<f32>)| {
            let flags = if asked.reads { Tensor::READ_ONLY } else { 0 };
            Tensor::rows(rows.as_mut_ptr(), self.rows, asked.width, flags)
        };
        instance.wanted.slots.iter().zip(&mut self.slot_rows).map(tensor).collect()
    }

    /// The sequences have these rows too.
    pub(super) fn finish(self, instance: &TestInstance) {
        for (asked, rows) in instance.wanted.slots.iter().zip(self.slot_rows) {
            if !asked.reads {
                self.slots.insert(asked.name.clone(), rows);
            }
        }
        for ((number, mut kept), [_, rows, past]) in self.taken.into_iter().zip(self.spans) {
            kept.past = past + rows;
            self.kept.insert(number, kept);
        }
    }
}

fn check(feeds: &[Feed], width: usize) -> Result<()> {
    for (index, feed) in feeds.iter().enumerate() {
        let (sequence, len) = (feed.sequence, feed.rows.len());
        if feeds[..index].iter().any(|other| other.sequence == sequence) {
            return Err(Error::new(format!("sequence {sequence} is in the step twice")));
        }
        if width == 0 || len % width != 0 {
            return Err(Error::new(format!("sequence {sequence}: {len} numbers are not rows of {width}")));
        }
        if feed.raw.into_iter().flatten().any(|raw| raw.len() != len) {
            return Err(Error::new(format!("sequence {sequence}: expected as many raw rows as rows")));
        }
    }
    Ok(())
}

/// The states of the sequences, as arrays and as rows of tokens.
type Split<'k> = (Vec<Tensor>, Vec<Vec<Option<TokenRows<'k>>>>);

fn split<'k>(taken: &'k mut [(usize, SequenceMemory)], instance: &TestInstance) -> Split<'k> {
    let (mut tensors, mut all_rows) = (Vec::new(), Vec::new());
    for (_, kept) in taken {
        let mut of_sequence = Vec::new();
        for ((state, block), rows) in instance.wanted.states.iter().zip(&mut kept.blocks).zip(&mut kept.rows)
        {
            tensors.push(Tensor::rows(block.as_mut_ptr(), 1, block.len(), 0));
            let of_tokens = state.kind == StateSpec::PER_TOKEN;
            of_sequence.push(of_tokens.then_some(TokenRows {
                rows,
                cols: state.elements,
                window: state.window,
            }));
        }
        all_rows.push(of_sequence);
    }
    (tensors, all_rows)
}
