//! [`Call`]: the arguments of a mixer or a feed-forward.

use crate::abi;
use crate::descriptor::{ArrayAccess, RowArray, matrix};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::rows::{Rows, RowsMut};
use crate::sequences::Sequences;
use crate::slots::Slots;
use crate::states::States;
use std::slice;

/// A step: the rows of all its sequences. Destructure it to use its fields together:
/// `let Call { x, mut output, mut states, host, .. } = call;`
///
/// All its data belongs to the host and is only valid during the call:
///
/// ```compile_fail,E0521
/// # use menagerie_plugin::{Call, Rows};
/// # use std::sync::Mutex;
/// static KEPT: Mutex<Option<Rows<'static>>> = Mutex::new(None);
///
/// fn forward(call: Call) {
///     *KEPT.lock().unwrap() = Some(call.x);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// Input rows, `[T, D]`.
    pub x: Rows<'a>,
    /// Output rows, `[T, D]`; every element must be written.
    pub output: RowsMut<'a>,
    /// The sequences of the rows.
    pub sequences: Sequences<'a>,
    /// The sequences' states.
    pub states: States<'a>,
    /// Rows from earlier layers and for later ones.
    pub slots: Slots<'a>,
    /// The ids of the tokens; `None` if the step was given embeddings.
    pub token_ids: Option<&'a [u32]>,
    /// Products, threads, memory.
    pub host: Host<'a>,
}

/// Additional inputs of a feed-forward, `[T, D]` each, for example for routers.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// The residual stream that its branch reads, before the norm.
    pub stream: Rows<'a>,
    /// The input of the whole block.
    pub block: Rows<'a>,
}

/// Inputs and the output of a call.
pub(crate) struct Arrays<const N: usize> {
    pub(crate) inputs: [RowArray; N],
    pub(crate) output: RowArray,
}

/// # Safety
/// The call's arrays are there, as the ABI says.
pub(crate) unsafe fn arrays<const N: usize>(call: &abi::Call) -> Result<Arrays<N>> {
    if call.n_inputs != N || call.n_outputs != 1 || call.inputs.is_null() || call.outputs.is_null() {
        let (inputs, outputs, plural) = (call.n_inputs, call.n_outputs, if N == 1 { "" } else { "s" });
        return Err(Error::new(format!(
            "expected {N} input{plural} and 1 output from the host, found {inputs} and {outputs}"
        )));
    }
    // SAFETY: there are N and 1, says the call.
    let (inputs, output) = unsafe { (slice::from_raw_parts(call.inputs, N), &*call.outputs) };
    let output = matrix(output, ArrayAccess::Write, "the output")?;
    let mut found = [output; N];
    for (found, tensor) in found.iter_mut().zip(inputs) {
        let input = matrix(tensor, ArrayAccess::Read, "an input")?;
        if (input.rows, input.cols) != (output.rows, output.cols) {
            let sizes = [input.rows, input.cols, output.rows, output.cols];
            let [rows, cols, out_rows, out_cols] = sizes;
            return Err(Error::new(format!(
                "the host passed an input [{rows}, {cols}] for an output [{out_rows}, {out_cols}]"
            )));
        }
        if input.overlaps(output) {
            return Err(Error::new("the host passed an output that overlaps an input"));
        }
        *found = input;
    }
    Ok(Arrays { inputs: found, output })
}

/// The views of a call for a component that takes rows of one array and gives rows.
///
/// # Safety
/// The call conforms to the ABI and lives for `'a`.
pub(crate) unsafe fn plain<'a>(
    call: &'a abi::Call,
    weights: &'a [abi::Tensor],
) -> Result<(Rows<'a>, RowsMut<'a>, Host<'a>)> {
    // SAFETY: the caller's promise.
    let Arrays { inputs: [x], output } = unsafe { arrays::<1>(call)? };
    let host = Host::of(call, weights, output.rows);
    // SAFETY: checked; the output overlaps no input, and the host gives both for the call.
    Ok(unsafe { (Rows::of(x), RowsMut::of(output), host) })
}

/// The views of a mixer's call.
///
/// # Safety
/// As [`plain`].
pub(crate) unsafe fn mixing<'a>(call: &'a abi::Call, weights: &'a [abi::Tensor]) -> Result<Call<'a>> {
    // SAFETY: the caller's promise.
    let Arrays { inputs: [x], output } = unsafe { arrays::<1>(call)? };
    // SAFETY: the caller's promise.
    unsafe { step(call, weights, x, output) }
}

/// The views of a feed-forward's call.
///
/// # Safety
/// As [`plain`].
pub(crate) unsafe fn feeding<'a>(
    call: &'a abi::Call,
    weights: &'a [abi::Tensor],
) -> Result<(Call<'a>, Raw<'a>)> {
    // SAFETY: the caller's promise.
    let Arrays { inputs: [x, stream, block], output } = unsafe { arrays::<3>(call)? };
    // SAFETY: checked; inputs may be the same rows, which nobody writes.
    unsafe { Ok((step(call, weights, x, output)?, Raw { stream: Rows::of(stream), block: Rows::of(block) })) }
}

/// # Safety
/// As [`plain`]; the matrices were checked.
unsafe fn step<'a>(
    call: &'a abi::Call,
    weights: &'a [abi::Tensor],
    x: RowArray,
    output: RowArray,
) -> Result<Call<'a>> {
    let rows = output.rows;
    // SAFETY: each is there, as the ABI says, for the call.
    unsafe {
        Ok(Call {
            x: Rows::of(x),
            output: RowsMut::of(output),
            sequences: Sequences::of(call.sequences, call.n_sequences, rows)?,
            states: States::of(call.states, call.n_sequences, call.n_states)?,
            slots: Slots::of(call.slots, call.n_slots, rows)?,
            token_ids: token_ids(call, rows),
            host: Host::of(call, weights, rows),
        })
    }
}

/// The ids of the tokens; `None` if the step was given embeddings.
///
/// # Safety
/// The call is what the ABI says, of so many rows, and lives for `'a`.
pub(crate) unsafe fn token_ids(call: &abi::Call, rows: usize) -> Option<&[u32]> {
    match call.token_ids {
        ids if ids.is_null() => None,
        // SAFETY: not null; there is one for each row, says the ABI.
        ids => Some(unsafe { slice::from_raw_parts(ids, rows) }),
    }
}
