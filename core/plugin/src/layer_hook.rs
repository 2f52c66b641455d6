//! Layer hooks: what looks at the rows between the layers of a model, or puts others in their place.

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
    /// What the layer is going to read.
    Before,
    /// What the layer leaves.
    After,
}

/// Looks at the rows between layers. One instance is there for all layers; it may be called from several threads at once, and
/// what it is to write in the end it writes when it is dropped.
pub trait LayerObserver: Component {
    /// Where it is called.
    const POINTS: &'static [Point] = &[Point::After];

    /// What it is shown: prompts, what was generated, or both.
    const PHASES: &'static [Phase] = &[Phase::Prefill, Phase::Decode];

    /// Looks at the rows of a layer.
    ///
    /// # Errors
    /// What ends the request.
    fn observe(&self, call: LayerCall) -> Result<()>;
}

/// Puts rows in the place of those between layers. One instance is there for all layers; it may be called from several threads at
/// once. What takes the place of a row depends on this row, its token, the layer, the position and the options alone: prompts come in
/// chunks, and what was computed once is kept.
pub trait LayerReplacer: Component {
    /// Where it is called.
    const POINTS: &'static [Point] = &[Point::After];

    /// What it is shown: prompts, what was generated, or both.
    const PHASES: &'static [Phase] = &[Phase::Prefill, Phase::Decode];

    /// Rows `call.x [T, D]` to `output [T, D]`, every element.
    ///
    /// # Errors
    /// What ends the request.
    fn replace(&self, call: LayerCall, output: RowsMut) -> Result<()>;
}

/// What a layer hook is shown: the rows of all sequences of a step whose phase is one of its own.
#[derive(Debug)]
#[non_exhaustive]
pub struct LayerCall<'a> {
    /// The rows, `[T, D]`.
    pub x: Rows<'a>,
    /// The layer, 0-based as in `blk.N`; [`Build::layers`](crate::Build::layers) says how many there are.
    pub layer: usize,
    /// Which side of the layer.
    pub point: Point,
    /// Whose rows these are.
    pub sequences: Sequences<'a>,
    /// Ids of the rows' tokens; absent where rows were given in their place.
    pub token_ids: Option<&'a [u32]>,
    /// Threads and memory; it has no linears.
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
/// The call is what the ABI says and lives for `'a`.
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
