//! The operands of a call besides its rows: sequences, blocks of states and slots, as descriptors of the ABI.

use crate::building::read_only;
use crate::instance::{Instance, InstanceSlot};
use crate::scratch::Frame;
use menagerie_engine::RelayHeader;
use menagerie_model::{
    InferenceStep, Result, SequenceLayout, SequenceRows, SlotUse, StateId, StateSpec, TransformContext,
};
use menagerie_plugin::abi::{Sequence, Tensor, dtype};
use std::borrow::Cow;
use std::ptr::null_mut;

/// Copies of data that is not in host memory; empty on the CPU.
#[derive(Default)]
pub(crate) struct DeviceCopies {
    /// Blocks, `[n_sequences][n_states]`, those of states per token empty.
    blocks: Vec<Vec<f32>>,
    /// Rows of slots that the component reads.
    slots: Vec<Vec<f32>>,
}

/// Describes sequences, states and slots of a step in the frame.
///
/// # Errors
/// A sequence or slot that does not exist.
pub(crate) fn describe(
    instance: &Instance,
    context: &mut TransformContext<'_>,
    frame: &mut Frame,
) -> Result<DeviceCopies> {
    let mut copied = DeviceCopies::default();
    sequences(context.layout, &|part| context.states.len(part.sequence), frame)?;
    states(instance, context, frame, &mut copied)?;
    for slot in &instance.kept.slots {
        let tensor = slot_rows(slot, instance, context, frame, &mut copied)?;
        frame.slots.push(tensor);
    }
    Ok(copied)
}

/// Describes the sequences of a step; `past` returns the number of earlier tokens.
///
/// # Errors
/// A sequence that does not exist.
pub(crate) fn sequences(
    layout: &SequenceLayout,
    past: &dyn Fn(&SequenceRows) -> Result<usize>,
    frame: &mut Frame,
) -> Result<()> {
    let positions = layout.positions();
    let axes = positions.axes();
    for part in layout.sequences() {
        let [pool, number] = part.sequence.numbers();
        let own = positions.values().get(part.rows.start * axes..part.rows.end * axes);
        frame.sequences.push(Sequence {
            first_row: part.rows.start as u64,
            rows: part.rows.len() as u64,
            past: past(part)? as u64,
            positions: own.unwrap_or_default().as_ptr(),
            axes: axes as u32,
            decoding: u32::from(matches!(part.step, InferenceStep::Decode { .. })),
            pool,
            number,
        });
    }
    Ok(())
}

/// Describes the sequences of rows that come from another process.
pub(crate) fn relayed(head: &RelayHeader, frame: &mut Frame) {
    for part in &head.sequences {
        let own = head.positions.get(part.rows.start * head.axes..part.rows.end * head.axes);
        let [pool, number] = part.numbers;
        frame.sequences.push(Sequence {
            first_row: part.rows.start as u64,
            rows: part.rows.len() as u64,
            past: part.past as u64,
            positions: own.unwrap_or_default().as_ptr(),
            axes: head.axes as u32,
            decoding: u32::from(part.decodes),
            pool,
            number,
        });
    }
}

/// The blocks of states: in place if they are in host memory, otherwise copies.
fn states(
    instance: &Instance,
    context: &mut TransformContext<'_>,
    frame: &mut Frame,
    copied: &mut DeviceCopies,
) -> Result<()> {
    let states = &instance.kept.states;
    let sequences = context.layout.sequences();
    let none = Tensor { ndim: 0, byte_len: 0, ..Tensor::rows(null_mut(), 0, 0, Tensor::READ_ONLY) };
    frame.states.resize(states.len() * sequences.len(), none);
    for (number, state) in states.iter().enumerate() {
        let StateSpec::PerSequence { shape, .. } = &state.spec else { continue };
        let elements = state.spec.elements();
        // One pointer for all blocks of the state; the blocks of the sequences do not overlap.
        let all = context.states.host_blocks(state.id)?.map(|all| (all.as_mut_ptr(), all.len()));
        for (index, part) in sequences.iter().enumerate() {
            let place = index * states.len() + number;
            let data = match all {
                Some((first, len)) => {
                    let at = context.states.block_number(state.id, part.sequence)? * elements;
                    if at + elements > len {
                        return Err(
                            instance.error("a block of its state is outside the memory of the states")
                        );
                    }
                    first.wrapping_add(at)
                }
                None => {
                    copied.blocks.resize_with(states.len() * sequences.len(), Vec::new);
                    copied.blocks[place] = context.states.read_block(state.id, part.sequence)?;
                    copied.blocks[place].as_mut_ptr()
                }
            };
            frame.states[place] = block_at(data, shape);
        }
    }
    Ok(())
}

fn block_at(data: *mut f32, shape: &[usize]) -> Tensor {
    let mut sizes = [0u64; 4];
    sizes.iter_mut().zip(shape).for_each(|(to, from)| *to = *from as u64);
    let elements: usize = shape.iter().product();
    let sizes = &sizes[..shape.len().min(4)];
    Tensor { flags: 0, ..read_only(data.cast_const().cast(), elements * size_of::<f32>(), dtype::F32, sizes) }
}

fn slot_rows(
    slot: &InstanceSlot,
    instance: &Instance,
    context: &TransformContext<'_>,
    frame: &mut Frame,
    copied: &mut DeviceCopies,
) -> Result<Tensor> {
    let rows = context.layout.rows();
    if slot.how == SlotUse::Writes {
        let bytes = rows * slot.width * size_of::<f32>();
        let data = frame.scratch(bytes as u64, 64);
        if data.is_null() {
            return Err(instance.error(format!("there is no memory for {bytes} bytes of a slot")));
        }
        return Ok(Tensor::rows(data.cast(), rows, slot.width, 0));
    }
    let held = context.slots.read(slot.id)?;
    held.expect_shape(rows, slot.width, "rows that an earlier layer handed on")?;
    let data = match context.compute.backend.read(held)? {
        // They are not moved before the call ends, because slots are written afterwards.
        Cow::Borrowed(values) => values.as_ptr(),
        Cow::Owned(values) => {
            copied.slots.push(values);
            copied.slots.last().map_or(null_mut(), |values| values.as_ptr().cast_mut()).cast_const()
        }
    };
    Ok(Tensor::rows(data.cast_mut(), rows, slot.width, Tensor::READ_ONLY))
}

/// Stores the changes of a successful call: copies of blocks, and written slots.
///
/// # Errors
/// An error of the backend.
pub(crate) fn take_back(
    instance: &Instance,
    context: &mut TransformContext<'_>,
    frame: &Frame,
    copied: &DeviceCopies,
) -> Result<()> {
    let states = &instance.kept.states;
    let blocks = copied.blocks.iter().enumerate().filter(|(_, values)| !values.is_empty());
    for (place, values) in blocks {
        let (state, part): (StateId, _) =
            (states[place % states.len()].id, &context.layout.sequences()[place / states.len()]);
        context.states.write_block(state, part.sequence, values)?;
    }
    let backend = &context.compute.backend;
    for (slot, tensor) in instance.kept.slots.iter().zip(&frame.slots) {
        if slot.how == SlotUse::Reads {
            continue;
        }
        let rows = context.layout.rows();
        // SAFETY: memory of the frame that `slot_rows` took for as many elements; the call, which wrote it, has ended.
        let values = unsafe { std::slice::from_raw_parts(tensor.data.cast::<f32>(), rows * slot.width) };
        let written = backend.written(rows, slot.width, &mut |to| {
            to.copy_from_slice(values);
            Ok(())
        })?;
        context.slots.write(slot.id, written);
    }
    Ok(())
}
