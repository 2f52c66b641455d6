//! Layer hooks, which observe or replace the rows between the layers of a model.

use crate::abi;
use crate::call::{arrays, token_ids};
use crate::component::Component;
use crate::descriptor::{ArrayAccess, RowArray, matrix};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::rows::{Rows, RowsMut};
use crate::sequences::{Phase, Sequences};

/// A side of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before the layer: its input.
    Before,
    /// After the layer: its output.
    After,
}

/// Observes the rows between layers. One instance serves all layers and may be called from several threads at once; it can
/// write its results when it is dropped.
pub trait LayerObserver: Component {
    /// Where it is called.
    const POINTS: &'static [Point] = &[Point::After];

    /// The phases for which it is called: prompts, generation, or both.
    const PHASES: &'static [Phase] = &[Phase::Prefill, Phase::Decode];

    /// Observes the rows of a layer.
    ///
    /// # Errors
    /// An error ends the request.
    fn observe(&self, call: LayerCall) -> Result<()>;
}

/// Replaces the rows between layers. One instance serves all layers and may be called from several threads at once. A new
/// row may only depend on the old row, its token, the layer, the position and the options, because prompts are computed in
/// chunks and computed states are reused.
pub trait LayerReplacer: Component {
    /// Where it is called.
    const POINTS: &'static [Point] = &[Point::After];

    /// The phases for which it is called: prompts, generation, or both.
    const PHASES: &'static [Phase] = &[Phase::Prefill, Phase::Decode];

    /// Computes every element of `output [T, D]` from `call.x [T, D]`.
    ///
    /// # Errors
    /// An error ends the request.
    fn replace(&self, call: LayerCall, output: RowsMut) -> Result<()>;
}

/// The arguments of a layer hook: the rows of all sequences of a step that are in one of its phases.
#[derive(Debug)]
#[non_exhaustive]
pub struct LayerCall<'a> {
    /// The rows, `[T, D]`.
    pub x: Rows<'a>,
    /// The layer, 0-based as in `blk.N`; [`Build::layers`](crate::Build::layers) says how many there are.
    pub layer: usize,
    /// Before or after the layer.
    pub point: Point,
    /// The sequences of the rows.
    pub sequences: Sequences<'a>,
    /// The ids of the tokens; `None` if the step was given embeddings.
    pub token_ids: Option<&'a [u32]>,
    /// Threads and memory; layer hooks have no linears.
    pub host: Host<'a>,
}

/// The bits of [`abi::Component::flags`] for a hook.
pub(crate) fn flags(effect: u32, points: &[Point], phases: &[Phase]) -> u32 {
    let point = |point: &Point| match point {
        Point::Before => abi::Component::BEFORE_LAYERS,
        Point::After => abi::Component::AFTER_LAYERS,
    };
    let phase = |phase: &Phase| match phase {
        Phase::Prefill => abi::Component::IN_PREFILL,
        Phase::Decode => abi::Component::IN_DECODE,
    };
    points.iter().map(point).chain(phases.iter().map(phase)).fold(effect, |all, bit| all | bit)
}

/// The views of an observer's call.
///
/// # Safety
/// The call conforms to the ABI and lives for `'a`.
pub(crate) unsafe fn observing(call: &abi::HookCall) -> Result<LayerCall<'_>> {
    // SAFETY: the caller's promise.
    let inner = unsafe { abi::checked(call.call) }.map_err(Error::new)?;
    if inner.n_inputs != 1 || inner.n_outputs != 0 || inner.inputs.is_null() {
        let (inputs, outputs) = (inner.n_inputs, inner.n_outputs);
        return Err(Error::new(format!(
            "expected 1 input and no output from the host, found {inputs} and {outputs}"
        )));
    }
    // SAFETY: there is one, says the call.
    let x = matrix(unsafe { &*inner.inputs }, ArrayAccess::Read, "the rows")?;
    // SAFETY: checked; the caller's promise.
    unsafe { shown(call, inner, x) }
}

/// The views of a replacer's call.
///
/// # Safety
/// As [`observing`].
pub(crate) unsafe fn replacing(call: &abi::HookCall) -> Result<(LayerCall<'_>, RowsMut<'_>)> {
    // SAFETY: the caller's promise.
    let inner = unsafe { abi::checked(call.call) }.map_err(Error::new)?;
    // SAFETY: as above; the output overlaps no input.
    unsafe {
        let arrays = arrays::<1>(inner)?;
        Ok((shown(call, inner, arrays.inputs[0])?, RowsMut::of(arrays.output)))
    }
}

/// # Safety
/// As [`observing`]; the matrix was checked.
unsafe fn shown<'a>(call: &abi::HookCall, inner: &'a abi::Call, x: RowArray) -> Result<LayerCall<'a>> {
    let point = match call.point {
        abi::HookCall::BEFORE => Point::Before,
        abi::HookCall::AFTER => Point::After,
        other => return Err(Error::new(format!("the host calls at the unknown point {other}"))),
    };
    let layer = usize::try_from(call.layer).map_err(|_| Error::new("the layer is larger than memory"))?;
    // SAFETY: each is there, as the ABI says, for the call.
    unsafe {
        Ok(LayerCall {
            x: Rows::of(x),
            layer,
            point,
            sequences: Sequences::of(inner.sequences, inner.n_sequences, x.rows)?,
            token_ids: token_ids(inner, x.rows),
            host: Host::of(inner, &[], x.rows),
        })
    }
}
