//! The services of a call: callbacks for the plugin, such as [`menagerie_plugin::abi::Call::linear`].

use crate::calling::{ActiveCall, StepAccess, here};
use crate::instance::InstanceState;
use menagerie_model::{HostOperand, LinearInput, ModelError, Result, RowOrigins, Rows, StateSpec, Terms};
use menagerie_plugin::abi::{ERROR, OK, Status, Tensor, device, dtype};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::atomic::Ordering;

/// Contiguous rows of f32 of the plugin.
struct ServiceRows {
    data: *mut f32,
    rows: usize,
    cols: usize,
}

/// Whether input and output rows do not overlap.
fn apart(x: &ServiceRows, y: &ServiceRows) -> bool {
    let range = |given: &ServiceRows| {
        let start = given.data as usize;
        (start, start + given.rows * given.cols * size_of::<f32>())
    };
    let (x, y) = (range(x), range(y));
    x.1 <= y.0 || y.1 <= x.0
}

/// Runs a service and stores its error, so that the call fails even if the plugin ignores the status.
///
/// # Safety
/// `context` is that of a running call.
unsafe fn serve(
    context: *mut c_void,
    what: &str,
    work: impl FnOnce(&mut ActiveCall<'_, '_>) -> Result<()>,
) -> Status {
    let calling = context.cast::<ActiveCall<'_, '_>>();
    // SAFETY: as this function asks; a field that nobody changes, and two that may be shared.
    let (thread, in_region, misused) =
        unsafe { ((*calling).thread, &(*calling).in_region, &(*calling).misused) };
    if thread != here() || in_region.load(Ordering::Relaxed) {
        misused.store(true, Ordering::Relaxed);
        return ERROR;
    }
    // SAFETY: on the thread of the call and outside of `parallel_for`, which shares it with bodies: nothing else uses it while
    // the plugin waits for this.
    let calling = unsafe { &mut *calling };
    let done = catch_unwind(AssertUnwindSafe(|| work(calling)));
    let failed = match done {
        Ok(Ok(())) => return OK,
        Ok(Err(error)) => error,
        Err(_) => calling.instance.error(format!("the host panicked in {what} (a defect: please report it)")),
    };
    calling.failed.get_or_insert(failed);
    ERROR
}

impl ActiveCall<'_, '_> {
    /// An operand of a service, as rows.
    ///
    /// # Safety
    /// If not null, it is a descriptor.
    unsafe fn given(&self, tensor: *const Tensor, what: &str) -> Result<ServiceRows> {
        if tensor.is_null() {
            return Err(self.instance.error(format!("{what} is a null pointer")));
        }
        // SAFETY: not null, a descriptor by the caller's word.
        let tensor = unsafe { tensor.read() };
        let size = |at: usize| usize::try_from(tensor.shape[at]).unwrap_or(usize::MAX);
        let (rows, cols) = (size(0), size(1));
        let bytes = rows.checked_mul(cols).and_then(|elements| elements.checked_mul(size_of::<f32>()));
        let flat = tensor.strides[1] == 1 && (rows <= 1 || tensor.strides[0] == tensor.shape[1]);
        let plain = tensor.dtype == dtype::F32 && tensor.device_type == device::CPU && tensor.ndim == 2;
        let whole = bytes.is_some_and(|bytes| bytes as u64 <= tensor.byte_len);
        let data = tensor.data.cast::<f32>();
        if !plain || !flat || !whole || (data.is_null() && bytes != Some(0)) || !data.is_aligned() {
            return Err(self.instance.error(format!(
                "{what} is not rows [T, D] of f32 in memory, one after the other: dtype {}, {} dimensions, shape {:?}, strides \
                 {:?}, {} bytes",
                tensor.dtype, tensor.ndim, tensor.shape, tensor.strides, tensor.byte_len
            )));
        }
        Ok(ServiceRows { data, rows, cols })
    }

    fn expect(&self, given: &ServiceRows, rows: usize, cols: usize, what: &str) -> Result<()> {
        if (given.rows, given.cols) == (rows, cols) {
            return Ok(());
        }
        Err(ModelError::Shape {
            what: format!("{what} of component `{}`", self.instance.described.name),
            expected: format!("[{rows}, {cols}]"),
            found: format!("[{}, {}]", given.rows, given.cols),
        })
    }

    /// Rows of the plugin as rows of the backend.
    fn taken(&self, given: &ServiceRows) -> Result<Rows> {
        let Some(context) = self.step.context() else { return Err(self.sees_nothing()) };
        context.compute.backend.written(given.rows, given.cols, &mut |to| {
            // SAFETY: `given` has found as many elements; the plugin lends them for the service.
            to.copy_from_slice(unsafe { from_raw_parts(given.data, to.len()) });
            Ok(())
        })
    }

    /// Copies rows into memory of the plugin.
    fn hand_over(&self, rows: &Rows, to: &ServiceRows) -> Result<()> {
        let Some(context) = self.step.context() else { return Err(self.sees_nothing()) };
        self.expect(to, rows.rows(), rows.cols(), "where rows are to be written")?;
        let values = context.compute.backend.read(rows)?;
        // SAFETY: as many elements as `given` has found; the plugin lends them to be written.
        unsafe { from_raw_parts_mut(to.data, values.len()) }.copy_from_slice(&values);
        Ok(())
    }

    fn sees_nothing(&self) -> ModelError {
        let family = self.instance.described.work.family();
        self.instance
            .error(format!("its family ({family}) only has access to its rows, not to linears or states"))
    }

    fn linear(&mut self, number: u32, x: &ServiceRows, y: &ServiceRows) -> Result<()> {
        let Some(kept) = self.instance.kept.linears.get(number as usize) else {
            return Err(self.instance.error(format!("requests linear {number}, which it does not have")));
        };
        let Some(context) = self.step.context() else { return Err(self.sees_nothing()) };
        self.expect(x, x.rows, kept.inputs, "what goes into a linear")?;
        self.expect(y, x.rows, kept.outputs, "where a linear writes")?;
        if x.rows == 0 {
            return Ok(());
        }
        if !context.adapters.is_empty() && x.rows != context.layout.rows() {
            return Err(self.instance.error(format!(
                "requests a product of {} rows, but the step has {}, so adapters cannot be applied; run the model without \
                 adapters",
                x.rows,
                context.layout.rows()
            )));
        }
        let own = self.inputs.iter().flatten().find(|input| {
            input.data == x.data.cast_const()
                && input.activated.rows().rows() == x.rows
                && input.activated.rows().cols() == x.cols
        });
        let origins = own.map_or(RowOrigins::of_step(x.rows), |input| input.activated.origins());
        let product = kept.linear.terms(origins, context).and_then(Terms::alone);
        if let Some(product) = product.filter(|_| apart(x, y)) {
            let compute = context.compute;
            // SAFETY: as many elements as `given` has found; the plugin lends them, `x` to be read and `y` to be written.
            let (values, y) = unsafe {
                (from_raw_parts(x.data, x.rows * x.cols), from_raw_parts_mut(y.data, y.rows * y.cols))
            };
            context.reads(&[product]);
            let x = own.map_or(HostOperand::Values(values), |input| HostOperand::Rows(&input.activated));
            return compute.backend.product_between(&product, x, y, compute.arithmetic);
        }
        let rows = match own {
            Some(input) => kept.linear.forward(&input.activated, context)?,
            None => kept.linear.forward(&LinearInput::new(&self.taken(x)?), context)?,
        };
        self.hand_over(&rows, y)
    }

    fn per_token(&self, state: u32) -> Result<&InstanceState> {
        let kept = self.instance.kept.states.get(state as usize);
        let kept = kept.filter(|kept| matches!(kept.spec, StateSpec::PerToken { .. }));
        kept.ok_or_else(|| {
            self.instance.error(format!("state {state} is not a state per token that it declared"))
        })
    }

    fn store(&mut self, state: u32, x: &ServiceRows) -> Result<()> {
        let kept = self.per_token(state)?;
        let (id, width) = (kept.id, kept.spec.elements());
        let rows = self.step.context().map_or(0, |context| context.layout.rows());
        self.expect(x, rows, width, "what goes into a state")?;
        let rows = self.taken(x)?;
        match &mut self.step {
            StepAccess::Owned(context) => {
                let compute = context.compute;
                compute.backend.store(id, &rows, context.state_step())
            }
            StepAccess::Shared(_) | StepAccess::Hooked(..) | StepAccess::RowsOnly => Err(self.sees_nothing()),
        }
    }

    fn stored(&self, state: u32, sequence: u64, first: u64, y: &ServiceRows) -> Result<()> {
        let kept = self.per_token(state)?;
        let Some(context) = self.step.context() else { return Err(self.sees_nothing()) };
        self.expect(y, y.rows, kept.spec.elements(), "where rows of a state are read to")?;
        let part = usize::try_from(sequence).ok().and_then(|index| context.layout.sequences().get(index));
        let Some(part) = part else {
            return Err(self
                .instance
                .error(format!("requests rows of sequence {sequence}, which is not in the step")));
        };
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let end = context.states.len(part.sequence)? + part.rows.len();
        let Some(last) = first.checked_add(y.rows).filter(|last| *last <= end) else {
            return Err(self
                .instance
                .error(format!("requests {} rows of a state from row {first} on; it has {end}", y.rows)));
        };
        let rows = context.compute.backend.stored(kept.id, part.sequence, first..last, context.states)?;
        self.hand_over(&rows, y)
    }
}

/// See [`menagerie_plugin::abi::Call::linear`].
pub(crate) unsafe extern "C" fn linear(
    context: *mut c_void,
    number: u32,
    x: *const Tensor,
    y: *const Tensor,
) -> Status {
    // SAFETY: the ABI: `context` is the call's, `x` and `y` are descriptors.
    unsafe {
        serve(context, "linear", |calling| {
            let (x, y) =
                (calling.given(x, "what goes into a linear")?, calling.given(y, "where a linear writes")?);
            calling.linear(number, &x, &y)
        })
    }
}

/// The argument of a plugin's body, for the threads of the host.
#[derive(Clone, Copy)]
struct Argument(*mut c_void);

// SAFETY: the ABI: a body that is given to `parallel_for` may be called from several threads at once.
unsafe impl Sync for Argument {}

impl Argument {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// See [`menagerie_plugin::abi::Call::parallel_for`].
pub(crate) unsafe extern "C" fn parallel_for(
    context: *mut c_void,
    n: u64,
    body: unsafe extern "C" fn(argument: *mut c_void, index: u64),
    argument: *mut c_void,
) -> Status {
    // SAFETY: the ABI: `context` is that of a call under way, which waits for this and for its bodies; nothing of it is
    // changed meanwhile.
    let calling = unsafe { &*context.cast::<ActiveCall<'_, '_>>() };
    let argument = Argument(argument);
    let Ok(tasks) = usize::try_from(n) else { return ERROR };
    // SAFETY: the plugin's body, with the argument it wants; no panic leaves it, by the ABI.
    let job = |index: usize| unsafe { body(argument.get(), index as u64) };
    let backend = calling.step.compute().map(|compute| &compute.backend);
    // Inside a body, the threads of the pool are already busy.
    let outermost = calling.thread == here() && !calling.in_region.swap(true, Ordering::Relaxed);
    let done = match backend.filter(|_| outermost) {
        Some(backend) => catch_unwind(AssertUnwindSafe(|| backend.parallel(tasks, &job).is_ok())),
        None => {
            (0..tasks).for_each(job);
            Ok(true)
        }
    };
    if outermost {
        calling.in_region.store(false, Ordering::Relaxed);
    }
    if done.unwrap_or(false) { OK } else { ERROR }
}

/// See [`menagerie_plugin::abi::Call::scratch`].
pub(crate) unsafe extern "C" fn scratch(context: *mut c_void, bytes: u64, align: u64) -> *mut c_void {
    let mut memory = null_mut();
    // SAFETY: the ABI: `context` is the call's.
    unsafe {
        serve(context, "scratch", |calling| {
            memory = calling.frame.scratch(bytes, align);
            Ok(())
        })
    };
    memory
}

/// See [`menagerie_plugin::abi::Call::store`].
pub(crate) unsafe extern "C" fn store(context: *mut c_void, state: u32, x: *const Tensor) -> Status {
    // SAFETY: as in `linear`.
    unsafe {
        serve(context, "store", |calling| {
            let x = calling.given(x, "what goes into a state")?;
            calling.store(state, &x)
        })
    }
}

/// See [`menagerie_plugin::abi::Call::stored`].
pub(crate) unsafe extern "C" fn stored(
    context: *mut c_void,
    state: u32,
    sequence: u64,
    first: u64,
    y: *const Tensor,
) -> Status {
    // SAFETY: as in `linear`.
    unsafe {
        serve(context, "stored", |calling| {
            let y = calling.given(y, "where rows of a state are read to")?;
            calling.stored(state, sequence, first, &y)
        })
    }
}
