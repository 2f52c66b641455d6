//! [`TestModel`]: an instance of a component with its sequences.

use super::building::{Requests, SetupData};
use super::feed::Feed;
use super::host_table::{stand_in, take_errors};
use super::setup::Setup;
use super::step::TestStep;
use crate::abi::{self, Component, Header, Status, Tensor, Text};
use crate::error::{Error, Result};
use crate::layer_hook::Point;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// An instance; ends with it.
#[derive(Debug)]
pub(super) struct TestInstance<'a> {
    pub(super) component: &'a Component,
    pub(super) made: Box<SetupData>,
    pub(super) wanted: Requests,
    raw: *mut c_void,
    pub(super) width: usize,
    pub(super) threads: usize,
    layer: usize,
    point: u32,
    errors: fn() -> Option<String>,
}

// SAFETY: the ABI lets several threads call; what it was made from is only read after it was made.
unsafe impl Sync for TestInstance<'_> {}

impl Drop for TestInstance<'_> {
    fn drop(&mut self) {
        // SAFETY: of the component's `create`, and not used any more.
        unsafe { (self.component.destroy)(self.raw) }
    }
}

/// What is kept of a sequence: blocks and rows of its states.
#[derive(Clone, Debug)]
pub(super) struct SequenceMemory {
    pub(super) past: usize,
    pub(super) blocks: Vec<Vec<f32>>,
    pub(super) rows: Vec<Vec<f32>>,
}

/// The sequences of a model, by their number.
pub(super) type Sequences = BTreeMap<usize, SequenceMemory>;

/// The rows of slots, by name.
pub(super) type SlotRows = BTreeMap<String, Vec<f32>>;

/// An instance of a component with its sequences.
#[derive(Debug)]
pub struct TestModel<'a> {
    pub(super) instance: TestInstance<'a>,
    sequences: Sequences,
    slots: SlotRows,
}

/// The frequencies of a rope.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// Radians per position of each pair.
    pub values: Vec<f32>,
    /// Multiplies cosines and sines.
    pub magnitude: f32,
}

impl<'a> TestInstance<'a> {
    fn create(component: &'a Component, made: Box<SetupData>, given: &Setup) -> Result<Self> {
        stand_in();
        let _ = (take_errors(), (given.errors)());
        let vocabulary = made.vocabulary();
        let mut build = made.build(given, &vocabulary);
        if component.family == Component::LAYER_HOOK {
            build.layer = -1;
        }
        let mut raw = std::ptr::null_mut();
        // SAFETY: the component is what the ABI says; the build lives for the call, what it is made from for the instance.
        let status = unsafe { (component.create)(&build, &mut raw) };
        outcome(status, given.errors, "create")?;
        let wanted = made.wanted.take();
        let (width, threads, errors) = (given.width, given.threads, given.errors);
        let (layer, point) = (given.layer.unwrap_or(0), point(component, given));
        Ok(Self { component, made, wanted, raw, width, threads, layer, point, errors })
    }

    /// Runs a step over sequences that are kept elsewhere; gives its output, not a number where nothing was written.
    pub(super) fn step(
        &self,
        sequences: &mut Sequences,
        slots: &mut SlotRows,
        feeds: &[Feed],
    ) -> Result<Vec<f32>> {
        let component = self.component;
        if component.family == Component::LAYER_HOOK {
            return self.hooked(sequences, slots, feeds);
        }
        let forward =
            component.forward.ok_or_else(|| Error::new("the component has no function `forward`"))?;
        let mut step = TestStep::new(self, sequences, slots, feeds)?;
        let mut output = vec![f32::NAN; step.rows * self.width];
        let to = [Tensor::rows(output.as_mut_ptr(), step.rows, self.width, 0)];
        let status = step.with_call(self, &to, |call| {
            let _ = (take_errors(), (self.errors)());
            // SAFETY: the component is what the ABI says, and so is the call, for as long as it takes.
            unsafe { forward(self.raw, call) }
        });
        step.finish(self);
        outcome(status, self.errors, "forward")?;
        Ok(output)
    }

    /// Runs a step of a layer hook; gives its output, or the rows that it was shown where it only looks.
    fn hooked(&self, sequences: &mut Sequences, slots: &mut SlotRows, feeds: &[Feed]) -> Result<Vec<f32>> {
        let hook = self.component.hook.ok_or_else(|| Error::new("the component has no function `hook`"))?;
        let mut step = TestStep::new(self, sequences, slots, feeds)?;
        let before = step.given().to_vec();
        let mut output = vec![f32::NAN; step.rows * self.width];
        let to = [Tensor::rows(output.as_mut_ptr(), step.rows, self.width, 0)];
        let replaces = self.component.flags & Component::REPLACES != 0;
        let status = step.with_call(self, if replaces { &to[..] } else { &[] }, |call| {
            let call = abi::HookCall {
                header: Header::of::<abi::HookCall>(),
                call,
                layer: self.layer as u64,
                point: self.point,
                padding: 0,
            };
            let _ = (take_errors(), (self.errors)());
            // SAFETY: the component is what the ABI says, and so is the call, for as long as it takes.
            unsafe { hook(self.raw, &call) }
        });
        let same = step.given().iter().zip(&before).all(|(now, before)| now.to_bits() == before.to_bits());
        step.finish(self);
        outcome(status, self.errors, "hook")?;
        match (same, replaces) {
            (false, _) => Err(Error::new("hook: it changed rows that it may only read")),
            (true, true) => Ok(output),
            (true, false) => Ok(before),
        }
    }

    /// Asks a function of another family.
    fn ask<C>(
        &self,
        name: &str,
        function: Option<unsafe extern "C" fn(*mut c_void, *const C) -> Status>,
        call: &C,
    ) -> Result<()> {
        let function =
            function.ok_or_else(|| Error::new(format!("the component has no function `{name}`")))?;
        let _ = (take_errors(), (self.errors)());
        // SAFETY: the component is what the ABI says, and so is the call.
        outcome(unsafe { function(self.raw, call) }, self.errors, name)
    }
}

/// Where a layer hook is called.
fn point(component: &Component, given: &Setup) -> u32 {
    let after = component.flags & Component::AFTER_LAYERS != 0;
    match given.point {
        Some(Point::Before) => abi::HookCall::BEFORE,
        None if !after => abi::HookCall::BEFORE,
        Some(Point::After) | None => abi::HookCall::AFTER,
    }
}

/// What a status means, with the text that was told.
fn outcome(status: Status, other: fn() -> Option<String>, function: &str) -> Result<()> {
    let text = [other(), take_errors()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let text = if text.is_empty() { "(without an error text)" } else { &*text };
    match status {
        abi::OK => Ok(()),
        abi::ERROR => Err(Error::new(format!("{function}: {text}"))),
        abi::PANIC => Err(Error::new(format!("{function} panicked: {text}"))),
        other => Err(Error::new(format!("{function} returned the unknown status {other}: {text}"))),
    }
}

impl<'a> TestModel<'a> {
    pub(super) fn create(component: &'a Component, made: Box<SetupData>, given: &Setup) -> Result<Self> {
        let instance = TestInstance::create(component, made, given)?;
        Ok(Self { instance, sequences: Sequences::new(), slots: SlotRows::new() })
    }

    /// Runs a step of rows of sequences, one after the other; gives rows of as many elements, not a number where the
    /// component has written nothing; of a layer hook that only looks, the rows themselves. Of mixers, feed-forwards, norms,
    /// activations and layer hooks.
    ///
    /// # Errors
    /// An error of the component; rows of another size.
    pub fn step(&mut self, feeds: &[Feed]) -> Result<Vec<f32>> {
        self.instance.step(&mut self.sequences, &mut self.slots, feeds)
    }

    /// Runs a step of one sequence, number 0.
    ///
    /// # Errors
    /// As [`TestModel::step`].
    pub fn rows(&mut self, rows: &[f32]) -> Result<Vec<f32>> {
        self.step(&[Feed::new(0, rows)])
    }

    /// A sequence becomes a copy of another one, states and length.
    pub fn copy(&mut self, from: usize, to: usize) {
        match self.sequences.get(&from).cloned() {
            Some(kept) => self.sequences.insert(to, kept),
            None => self.sequences.remove(&to),
        };
    }

    /// A sequence becomes a copy of one of another model of the same component, states and length.
    pub fn adopt(&mut self, other: &TestModel, from: usize, to: usize) {
        match other.sequences.get(&from).cloned() {
            Some(kept) => self.sequences.insert(to, kept),
            None => self.sequences.remove(&to),
        };
    }

    /// The block of a sequence's state, by the order of declaration; absent where there is none.
    pub fn state(&self, sequence: usize, number: usize) -> Option<&[f32]> {
        self.sequences.get(&sequence)?.blocks.get(number).map(Vec::as_slice)
    }

    /// The rows of a slot that the last step wrote; absent where there is none.
    pub fn slot(&self, name: &str) -> Option<&[f32]> {
        self.slots.get(name).map(Vec::as_slice)
    }

    /// The rows of a slot that steps read from now on; until then they are made up.
    pub fn set_slot(&mut self, name: &str, rows: Vec<f32>) {
        self.slots.insert(name.to_owned(), rows);
    }

    /// The frequencies of a rope over [`Setup::new`]'s width.
    ///
    /// # Errors
    /// An error of the component.
    pub fn frequencies(&self, base: f64, context_length: usize) -> Result<Frequencies> {
        let rotated = self.instance.width;
        let mut values = vec![f32::NAN; rotated / 2];
        let mut magnitude = 1.0;
        let tensor = Tensor::values(values.as_mut_ptr(), values.len(), 0);
        let call = abi::FrequencyCall {
            header: Header::of::<abi::FrequencyCall>(),
            base,
            rotated: rotated as u64,
            context_length: context_length as u64,
            frequencies: &tensor,
            magnitude: &mut magnitude,
        };
        self.instance.ask("frequencies", self.instance.component.frequencies, &call)?;
        Ok(Frequencies { values, magnitude })
    }

    /// Lets a sampler change logits, after tokens of which `prompt` are the prompt's.
    ///
    /// # Errors
    /// An error of the component.
    pub fn sample(&self, logits: &mut [f32], tokens: &[u32], prompt: usize, random: u64) -> Result<()> {
        let tensor = Tensor::values(logits.as_mut_ptr(), logits.len(), 0);
        let call = abi::SampleCall {
            header: Header::of::<abi::SampleCall>(),
            logits: &tensor,
            tokens: tokens.as_ptr(),
            n_tokens: tokens.len(),
            n_prompt: prompt,
            random,
        };
        self.instance.ask("sample", self.instance.component.sample, &call)
    }

    /// The ids of a text.
    ///
    /// # Errors
    /// An error of the component.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let call = abi::EncodeCall {
            header: Header::of::<abi::EncodeCall>(),
            text: Text::new(text),
            context: (&raw mut ids).cast(),
            push: push_id,
        };
        self.instance.ask("encode", self.instance.component.encode, &call)?;
        Ok(ids)
    }

    /// The bytes of a token.
    ///
    /// # Errors
    /// An error of the component.
    pub fn decode(&self, id: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let call = abi::DecodeCall {
            header: Header::of::<abi::DecodeCall>(),
            id,
            padding: 0,
            context: (&raw mut bytes).cast(),
            push: push_bytes,
        };
        self.instance.ask("decode", self.instance.component.decode, &call)?;
        Ok(bytes)
    }
}

unsafe extern "C" fn push_id(context: *mut c_void, id: u32) -> Status {
    // SAFETY: the call's context.
    unsafe { (*context.cast::<Vec<u32>>()).push(id) };
    abi::OK
}

unsafe extern "C" fn push_bytes(context: *mut c_void, bytes: Text) -> Status {
    // SAFETY: borrowed for the call; the call's context.
    unsafe {
        let Some(bytes) = bytes.bytes() else { return abi::ERROR };
        (*context.cast::<Vec<u8>>()).extend_from_slice(bytes);
    }
    abi::OK
}
