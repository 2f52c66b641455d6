//! The host's side of [`abi::Call`]: one forward and its services.

use crate::component::Forward;
use crate::finite;
use crate::instance::Instance;
use crate::operands;
use crate::output_check::{self, OutputCheck};
use crate::scratch::Frame;
use crate::services;
use menagerie_model::{Compute, LinearInput, ModelError, Result, Rows, TransformContext};
use menagerie_plugin::abi::{self, Header, Status, Tensor};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicBool;

/// Maximum number of inputs of a family.
pub(crate) const MOST_INPUTS: usize = 3;

thread_local! {
    /// Its address identifies the thread.
    static HERE: u8 = const { 0 };
}

/// An address that is unique to this thread.
pub(crate) fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

/// Access of a call to its step.
pub(crate) enum StepAccess<'c, 'm> {
    /// For mixers and feed-forwards, which may change states.
    Owned(&'c mut TransformContext<'m>),
    /// For norms.
    Shared(&'c TransformContext<'m>),
    /// For layer hooks: the context of the rows if they were computed in this process, and the ids of their tokens.
    Hooked(Option<&'c Compute>, Option<&'c [u32]>),
    /// For activations, which only have access to their rows.
    RowsOnly,
}

impl<'m> StepAccess<'_, 'm> {
    pub(crate) fn context(&self) -> Option<&TransformContext<'m>> {
        match self {
            Self::Owned(context) => Some(context),
            Self::Shared(context) => Some(context),
            Self::Hooked(..) | Self::RowsOnly => None,
        }
    }

    /// Ids of the tokens of this number of rows; `None` if the step was given embeddings. Norms have no ids, because their
    /// rows may be heads, or only some rows of the step.
    fn tokens(&self, rows: usize) -> Option<&[u32]> {
        let tokens = match self {
            Self::Hooked(_, tokens) => *tokens,
            Self::Owned(context) => context.input.tokens(),
            Self::Shared(_) | Self::RowsOnly => None,
        };
        tokens.filter(|tokens| tokens.len() == rows)
    }

    /// The backend of the rows.
    pub(crate) fn compute(&self) -> Option<&Compute> {
        match self {
            Self::Hooked(compute, _) => *compute,
            Self::Owned(_) | Self::Shared(_) | Self::RowsOnly => {
                self.context().map(|context| context.compute)
            }
        }
    }
}

/// Input rows, with their address for the plugin.
pub(crate) struct Input<'c> {
    pub(crate) activated: LinearInput<'c>,
    pub(crate) data: *const f32,
}

/// A running call with the data for its services.
pub(crate) struct ActiveCall<'c, 'm> {
    pub(crate) instance: &'c Instance,
    pub(crate) step: StepAccess<'c, 'm>,
    pub(crate) inputs: [Option<Input<'c>>; MOST_INPUTS],
    pub(crate) frame: Frame,
    pub(crate) thread: usize,
    /// Whether the thread of the call runs bodies of `parallel_for`, which share this value.
    pub(crate) in_region: AtomicBool,
    /// Whether a service was called where it is not allowed.
    pub(crate) misused: AtomicBool,
    /// The first error of a service.
    pub(crate) failed: Option<ModelError>,
}

/// A function of the plugin: its name for errors, and a closure that calls it with an instance and a call.
pub(crate) type PluginFunction<'f> = (&'f str, &'f dyn Fn(*mut c_void, &abi::Call) -> Status);

/// Calls `forward`: rows `[T, D]` in, rows `[T, D]` out.
///
/// # Errors
/// An error of the plugin or of a service; values that are not finite.
pub(crate) fn forward(
    instance: &Instance,
    run: Forward,
    inputs: &[&Rows],
    mut step: StepAccess<'_, '_>,
) -> Result<Rows> {
    let mut frame = Frame::take();
    let copied = match &mut step {
        StepAccess::Owned(context) => operands::describe(instance, context, &mut frame)?,
        StepAccess::Shared(_) | StepAccess::Hooked(..) | StepAccess::RowsOnly => {
            operands::DeviceCopies::default()
        }
    };
    let (Some(compute), Some(first)) = (step.context().map(|context| context.compute), inputs.first()) else {
        return Err(instance.error("it received no rows"));
    };
    let backend = &*compute.backend;
    let (rows, cols) = (first.rows(), first.cols());
    let mut seen = [const { None }; MOST_INPUTS];
    let mut tensors = [Tensor::rows(null_mut(), 0, 0, Tensor::READ_ONLY); MOST_INPUTS];
    let mut given = [const { None }; MOST_INPUTS];
    for (at, input) in inputs.iter().enumerate().take(MOST_INPUTS) {
        let values = seen[at].insert(backend.read(input)?);
        let data = values.as_ptr();
        tensors[at] = Tensor::rows(data.cast_mut(), input.rows(), input.cols(), Tensor::READ_ONLY);
        given[at] = Some(Input { activated: LinearInput::new(input), data });
    }
    let mut calling = ActiveCall::new(instance, step, given, frame);
    let tensors = &tensors[..inputs.len().min(MOST_INPUTS)];
    let made = backend.written(rows, cols, &mut |out| {
        // SAFETY: the plugin's `forward` of this instance; what the call points to outlives it.
        calling.write(("forward", &|handle, call| unsafe { run(handle, call) }), tensors, cols, out)
    });
    let ActiveCall { mut step, frame, .. } = calling;
    let made = made.and_then(|made| {
        if let StepAccess::Owned(context) = &mut step {
            operands::take_back(instance, context, &frame, &copied)?;
        }
        Ok(made)
    });
    frame.give();
    made
}

/// Calls `forward` of a component that only has access to its rows `x [T, width]`.
///
/// # Errors
/// An error of the plugin; values that are not finite.
pub(crate) fn alone(
    instance: &Instance,
    run: Forward,
    x: &[f32],
    width: usize,
    out: &mut [f32],
) -> Result<()> {
    if width == 0 || !x.len().is_multiple_of(width) || x.len() != out.len() {
        return Err(instance.error(format!("{} values are not a multiple of the row width {width}", x.len())));
    }
    let input = Tensor::rows(x.as_ptr().cast_mut(), x.len() / width, width, Tensor::READ_ONLY);
    let inputs = [const { None }; MOST_INPUTS];
    let mut calling = ActiveCall::new(instance, StepAccess::RowsOnly, inputs, Frame::take());
    // SAFETY: as in `forward`.
    let asked: PluginFunction = ("forward", &|handle, call| unsafe { run(handle, call) });
    let done = calling.write(asked, &[input], width, out);
    calling.frame.give();
    done
}

impl<'c, 'm> ActiveCall<'c, 'm> {
    /// A call on this thread.
    pub(crate) fn new(
        instance: &'c Instance,
        step: StepAccess<'c, 'm>,
        inputs: [Option<Input<'c>>; MOST_INPUTS],
        frame: Frame,
    ) -> Self {
        let (in_region, misused) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { instance, step, inputs, frame, thread: here(), in_region, misused, failed: None }
    }

    /// Calls a function that writes rows into `out`.
    ///
    /// # Errors
    /// An error of the plugin or of a service; values that are not finite.
    pub(crate) fn write(
        &mut self,
        asked: PluginFunction<'_>,
        inputs: &[Tensor],
        cols: usize,
        out: &mut [f32],
    ) -> Result<()> {
        let how = output_check::how();
        if how == OutputCheck::EveryRow {
            out.fill(f32::NAN);
        }
        let output = Tensor::rows(out.as_mut_ptr(), out.len() / cols.max(1), cols, 0);
        self.ask(asked, inputs, &[output])?;
        self.check(inputs, cols, out, how)
    }

    /// Calls a function. All data of the call outlives it, and memory that the plugin may write is not shared during it.
    ///
    /// # Errors
    /// An error of the plugin or of a service.
    pub(crate) fn ask(
        &mut self,
        (name, run): PluginFunction<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Result<()> {
        let call = self.call(inputs, outputs);
        let called = self.instance.call(name, |handle| run(handle, &call));
        match self.failed.take() {
            Some(failed) => Err(failed),
            None if *self.misused.get_mut() => Err(self.instance.error(
                "it calls a host function from a body of `parallel_for` or from its own thread (a defect of the plugin)",
            )),
            None => called,
        }
    }

    fn call(&mut self, inputs: &[Tensor], outputs: &[Tensor]) -> abi::Call {
        let rows = inputs.first().and_then(|input| usize::try_from(input.shape[0]).ok());
        let tokens = rows.and_then(|rows| self.step.tokens(rows));
        let token_ids = tokens.map_or(null(), <[u32]>::as_ptr);
        let threads = self.step.compute().map_or(1, |compute| compute.backend.host_threads());
        abi::Call {
            header: Header::of::<abi::Call>(),
            inputs: inputs.as_ptr(),
            n_inputs: inputs.len(),
            outputs: outputs.as_ptr(),
            n_outputs: outputs.len(),
            sequences: self.frame.sequences.as_ptr(),
            n_sequences: self.frame.sequences.len(),
            states: self.frame.states.as_ptr(),
            n_states: self.instance.kept.states.len(),
            slots: self.frame.slots.as_ptr(),
            n_slots: self.frame.slots.len(),
            token_ids,
            threads: threads as u64,
            context: std::ptr::from_mut(self).cast(),
            linear: services::linear,
            parallel_for: services::parallel_for,
            scratch: services::scratch,
            store: services::store,
            stored: services::stored,
        }
    }

    /// Checks that output is finite.
    fn check(&self, inputs: &[Tensor], cols: usize, out: &[f32], how: OutputCheck) -> Result<()> {
        let rows = out.len() / cols.max(1);
        let row = |row: usize| out.get(row * cols..(row + 1) * cols).unwrap_or_default();
        let faulty = |at: usize| finite::first_fault(row(at)).map(|column| (at, column));
        let last_rows = || self.frame.sequences.iter().map(|one| (one.first_row + one.rows) as usize - 1);
        let found = match how {
            OutputCheck::EveryRow => (0..rows).find_map(faulty),
            // Normalized heads are separate rows, and norms have no sequences.
            OutputCheck::LastRows if self.frame.sequences.is_empty() => rows.checked_sub(1).and_then(faulty),
            OutputCheck::LastRows => last_rows().filter(|at| *at < rows).find_map(faulty),
        };
        let Some((at, column)) = found else { return Ok(()) };
        let value = row(at)[column];
        // SAFETY: the input has as many rows as the output, and the rows that went in are borrowed by the call.
        let given = |tensor: &Tensor| unsafe {
            std::slice::from_raw_parts(tensor.data.cast::<f32>().add(at * cols), cols)
        };
        if inputs.first().is_some_and(|input| finite::first_fault(given(input)).is_some()) {
            let was = "that is not finite: the cause is an earlier layer or the file";
            return Err(self.instance.error(format!("row {at} of its input has a value {was}")));
        }
        let never = if how == OutputCheck::EveryRow { ", or was never written" } else { "" };
        Err(self.instance.error(format!("value {column} of row {at} of its output is {value}{never}")))
    }
}
