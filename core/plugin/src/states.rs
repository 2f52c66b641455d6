//! [`States`]: the states of a component for each sequence, in memory of the host.

use crate::abi::Tensor;
use crate::descriptor::{ArrayAccess, FloatArray, floats};
use crate::error::{Error, Result};
use crate::split::Split;
use std::marker::PhantomData;
use std::slice;

/// A state per sequence: a block of f32, zero at the start of a sequence; returned by [`Build::state`](crate::Build::state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub(crate) number: u32,
    pub(crate) len: usize,
}

impl State {
    /// Elements of a block.
    pub fn elements(&self) -> usize {
        self.len
    }
}

/// A state with a row per token, stored in the cache type of the host; returned by
/// [`Build::token_state`](crate::Build::token_state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenState {
    pub(crate) number: u32,
    pub(crate) cols: usize,
}

/// The blocks of the states of a step's sequences, read and changed in place.
#[derive(Debug)]
pub struct States<'a> {
    data: *const Tensor,
    sequences: usize,
    states: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

impl<'a> States<'a> {
    /// # Safety
    /// `data` leads to `sequences * states` descriptors whose blocks do not overlap and which nobody else uses.
    pub(crate) unsafe fn of(data: *const Tensor, sequences: usize, states: usize) -> Result<States<'a>> {
        if data.is_null() && sequences > 0 && states > 0 {
            return Err(Error::new(format!("the host passed {states} states with a null pointer")));
        }
        Ok(States { data, sequences, states, borrowed: PhantomData })
    }

    fn block(&self, sequence: usize, state: &State) -> Result<*mut f32> {
        let number = state.number as usize;
        if sequence >= self.sequences || number >= self.states {
            let (sequences, states) = (self.sequences, self.states);
            return Err(Error::new(format!(
                "state {number} of sequence {sequence} does not exist; the step has {sequences} sequences with {states} states"
            )));
        }
        // SAFETY: inside the descriptors.
        let tensor = unsafe { &*self.data.add(sequence * self.states + number) };
        let FloatArray { data, len } = floats(tensor, ArrayAccess::Write, "a state")?;
        if len != state.len {
            let wanted = state.len;
            return Err(Error::new(format!(
                "state {number}: expected the {wanted} declared elements from the host, found {len}"
            )));
        }
        Ok(data)
    }

    /// The block of a sequence of the step.
    ///
    /// # Errors
    /// A sequence that the step does not have, a state of another instance.
    pub fn get(&self, sequence: usize, state: &State) -> Result<&[f32]> {
        let data = self.block(sequence, state)?;
        // SAFETY: checked; borrowed with self.
        Ok(unsafe { slice::from_raw_parts(data, state.len) })
    }

    /// The block of a sequence of the step, for writing.
    ///
    /// # Errors
    /// As [`States::get`].
    pub fn get_mut(&mut self, sequence: usize, state: &State) -> Result<&mut [f32]> {
        let [block] = self.several_mut(sequence, [state])?;
        Ok(block)
    }

    /// The blocks of several states of a sequence of the step, for writing.
    ///
    /// # Errors
    /// As [`States::get`]; a state that is named twice.
    pub fn several_mut<const N: usize>(
        &mut self,
        sequence: usize,
        states: [&State; N],
    ) -> Result<[&mut [f32]; N]> {
        distinct(states)?;
        let mut blocks = [const { None }; N];
        for (block, state) in blocks.iter_mut().zip(states) {
            *block = Some(self.block(sequence, state)?);
        }
        let mut at = 0;
        Ok(blocks.map(|block| {
            let len = states[at].len;
            at += 1;
            match block {
                // SAFETY: checked; the states differ, so that their blocks do not overlap; borrowed with self.
                Some(data) => unsafe { slice::from_raw_parts_mut(data, len) },
                None => &mut [],
            }
        }))
    }

    /// Parts of `size` elements of a state's blocks, for [`Host::parallel_over`](crate::Host::parallel_over): part
    /// `sequence * (elements / size) + element / size`. With `size` the state of a head these are the heads.
    ///
    /// # Errors
    /// As [`States::get`]; a `size` that does not divide the block.
    pub fn chunks(&mut self, state: &State, size: usize) -> Result<StateChunks<'_>> {
        let [chunks] = self.several_chunks([(state, size)])?;
        Ok(chunks)
    }

    /// [`States::chunks`] of several states at once.
    ///
    /// # Errors
    /// As [`States::chunks`]; a state that is named twice.
    pub fn several_chunks<const N: usize>(
        &mut self,
        states: [(&State, usize); N],
    ) -> Result<[StateChunks<'_>; N]> {
        distinct(states.map(|(state, _)| state))?;
        for (state, size) in states {
            if size == 0 || state.len % size != 0 {
                let (number, len) = (state.number, state.len);
                return Err(Error::new(format!(
                    "state {number}: {len} elements cannot be split into parts of {size}"
                )));
            }
            for sequence in 0..self.sequences {
                self.block(sequence, state)?;
            }
        }
        let (data, sequences, all) = (self.data, self.sequences, self.states);
        Ok(states.map(|(state, size)| StateChunks {
            data: data.wrapping_add(state.number as usize),
            sequences,
            states: all,
            size,
            each: state.len / size,
            borrowed: PhantomData,
        }))
    }
}

fn distinct<const N: usize>(states: [&State; N]) -> Result<()> {
    for (index, state) in states.iter().enumerate() {
        if states[..index].iter().any(|other| other.number == state.number) {
            return Err(Error::new(format!("state {} is already borrowed", state.number)));
        }
    }
    Ok(())
}

/// Parts of a state's blocks; of [`States::chunks`].
#[derive(Debug)]
pub struct StateChunks<'a> {
    /// The state's descriptor of the first sequence.
    data: *const Tensor,
    sequences: usize,
    states: usize,
    size: usize,
    each: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: descriptors are only read, and parts do not overlap.
unsafe impl Sync for StateChunks<'_> {}
// SAFETY: an exclusive borrow of f32.
unsafe impl Send for StateChunks<'_> {}

// SAFETY: part `s * each + i` has elements `i * size..` of the block of sequence `s`; blocks do not overlap.
unsafe impl<'a> Split for StateChunks<'a> {
    type Part = &'a mut [f32];

    fn parts(&self) -> Result<usize> {
        Ok(self.sequences * self.each)
    }

    unsafe fn part(&self, index: usize) -> &'a mut [f32] {
        let (sequence, part) = (index / self.each, index % self.each);
        // SAFETY: every block was checked when the parts were made; no part is taken twice.
        unsafe {
            let block = (*self.data.add(sequence * self.states)).data.cast::<f32>();
            slice::from_raw_parts_mut(block.add(part * self.size), self.size)
        }
    }
}
