//! [`Host`]: services of the host during a call.

use crate::abi::{self, OK, Tensor};
use crate::build::{Linear, Weight};
use crate::caught::caught;
use crate::error::{Error, Result};
use crate::rows::{Rows, RowsMut};
use crate::split::Split;
use crate::states::TokenState;
use std::ffi::c_void;
use std::slice;
use std::sync::OnceLock;

/// Services of the host during a call: products, threads, memory.
///
/// It can only be used on the thread of the call, not in a body of [`Host::parallel_for`]:
///
/// ```compile_fail,E0277
/// # use menagerie_plugin::*;
/// fn nested(host: &Host) -> Result<()> {
///     host.parallel_for(4, |_| host.parallel_for(4, |_| ()).unwrap_or(()))
/// }
/// ```
#[derive(Debug)]
pub struct Host<'a> {
    call: &'a abi::Call,
    weights: &'a [Tensor],
    rows: usize,
    /// Makes the type `!Sync`: most functions may only be called on the thread of the call.
    thread: std::marker::PhantomData<*mut c_void>,
}

/// The position of rows of a state per token, for [`Host::stored`].
#[derive(Clone, Copy, Debug)]
pub struct StoredRows {
    /// A sequence of the step.
    pub sequence: usize,
    /// The first token.
    pub first: usize,
}

impl<'a> Host<'a> {
    pub(crate) fn of(call: &'a abi::Call, weights: &'a [Tensor], rows: usize) -> Host<'a> {
        Host { call, weights, rows, thread: std::marker::PhantomData }
    }

    /// Number of threads of [`Host::parallel_for`], at least 1.
    pub fn threads(&self) -> usize {
        (self.call.threads as usize).max(1)
    }

    /// Computes `y = W x + b` for every row of `x [n, inputs]`, into `y [n, outputs]`, on the host's threads. Adapters are
    /// applied if `n` is the number of rows of the step.
    ///
    /// # Errors
    /// Rows of another size or with gaps; an error of the host.
    pub fn linear(&self, linear: &Linear, x: Rows, y: &mut RowsMut) -> Result<()> {
        let (inputs, outputs) = (linear.inputs(), linear.outputs());
        let fits = x.cols() == inputs && y.cols() == outputs && x.rows() == y.rows();
        let (true, Some(from), Some(to)) = (fits, x.as_slice(), y.as_mut_slice()) else {
            let [x_rows, x_cols, y_rows, y_cols] = [x.rows(), x.cols(), y.rows(), y.cols()];
            return Err(Error::new(format!(
                "a linear of {inputs} to {outputs} elements: expected contiguous rows [n, {inputs}] and [n, {outputs}], found [{x_rows}, {x_cols}] and [{y_rows}, {y_cols}]"
            )));
        };
        let x = Tensor::rows(from.as_ptr().cast_mut(), x.rows(), inputs, Tensor::READ_ONLY);
        let y = Tensor::rows(to.as_mut_ptr(), y.rows(), outputs, 0);
        // SAFETY: the call's function with the call's context, on its thread; both arrays are borrowed meanwhile.
        noted(unsafe { (self.call.linear)(self.call.context, linear.number(), &x, &y) })
    }

    /// [`Host::linear`] into scratch memory of this call.
    ///
    /// # Errors
    /// As [`Host::linear`].
    pub fn product(&self, linear: &Linear, x: Rows) -> Result<RowsMut<'a>> {
        let mut y = self.scratch_rows(x.rows(), linear.outputs())?;
        self.linear(linear, x, &mut y)?;
        Ok(y)
    }

    /// Calls `body(i)` for every `i` below `n`, on the host's threads.
    ///
    /// # Errors
    /// An error of the host.
    ///
    /// # Panics
    /// If a body panics.
    pub fn parallel_for(&self, n: usize, body: impl Fn(usize) + Sync) -> Result<()> {
        if n <= 1 {
            (0..n).for_each(body);
            return Ok(());
        }
        let job = ParallelJob { body, n, panic: OnceLock::new() };
        // SAFETY: the call's function with the call's context; it ends before the job does.
        let status = unsafe {
            (self.call.parallel_for)(
                self.call.context,
                n as u64,
                run_of(&job),
                (&raw const job).cast_mut().cast(),
            )
        };
        if let Some(text) = job.panic.into_inner() {
            std::panic::resume_unwind(Box::new(text));
        }
        noted(status)
    }

    /// Calls `body(i, part)` for every part of `split`, on the host's threads.
    ///
    /// # Errors
    /// As [`Host::parallel_for`]; arrays with different numbers of parts.
    ///
    /// # Panics
    /// If a body panics.
    pub fn parallel_over<S: Split>(&self, split: S, body: impl Fn(usize, S::Part) + Sync) -> Result<()> {
        let parts = split.parts()?;
        let (split, body) = (&split, &body);
        self.parallel_for(parts, move |index| {
            // SAFETY: below the number of parts; the host calls each index once.
            body(index, unsafe { split.part(index) });
        })
    }

    /// Scratch memory for this call: `len` elements with unspecified values.
    ///
    /// # Errors
    /// Out of memory.
    pub fn scratch(&self, len: usize) -> Result<&'a mut [f32]> {
        if len == 0 {
            return Ok(&mut []);
        }
        let refused = || Error::new(format!("the host has no memory for {len} numbers of a call"));
        let bytes = len.checked_mul(size_of::<f32>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(refused)?;
        // SAFETY: the call's function with the call's context, on its thread.
        let data =
            unsafe { (self.call.scratch)(self.call.context, bytes as u64, SCRATCH_ALIGN) }.cast::<f32>();
        if data.is_null() || !data.is_aligned() {
            return Err(refused());
        }
        // SAFETY: the host gives every request memory of its own that holds numbers and lives as long as the call.
        Ok(unsafe { slice::from_raw_parts_mut(data, len) })
    }

    /// Scratch memory for rows of this call, with unspecified values.
    ///
    /// # Errors
    /// As [`Host::scratch`]; rows of no elements.
    pub fn scratch_rows(&self, rows: usize, cols: usize) -> Result<RowsMut<'a>> {
        let len =
            rows.checked_mul(cols).ok_or_else(|| Error::new(format!("{rows} rows of {cols} overflow")))?;
        RowsMut::new(self.scratch(len)?, cols)
    }

    /// A tensor as the file stores it.
    ///
    /// # Errors
    /// A weight of another instance.
    pub fn weight(&self, weight: &Weight) -> Result<&'a [u8]> {
        let tensor = self.weights.get(weight.index).filter(|tensor| tensor.byte_len == weight.bytes as u64);
        let tensor = tensor.ok_or_else(|| Error::new("the weight belongs to another instance"))?;
        if weight.bytes == 0 {
            return Ok(&[]);
        }
        // SAFETY: the host keeps it for the life of the instance, which the call borrows; checked when it was given.
        Ok(unsafe { slice::from_raw_parts(tensor.data.cast(), weight.bytes) })
    }

    /// Stores a row for every row of the step: `x [T, heads * head_dim]`.
    ///
    /// # Errors
    /// Rows of another size or with gaps; an error of the host.
    pub fn store(&self, state: &TokenState, x: Rows) -> Result<()> {
        let (Some(data), true) = (x.as_slice(), (x.rows(), x.cols()) == (self.rows, state.cols)) else {
            let (rows, cols, wanted) = (x.rows(), x.cols(), [self.rows, state.cols]);
            return Err(Error::new(format!(
                "a state stores contiguous rows {wanted:?}, found [{rows}, {cols}]"
            )));
        };
        let x = Tensor::rows(data.as_ptr().cast_mut(), x.rows(), x.cols(), Tensor::READ_ONLY);
        // SAFETY: the call's function with the call's context, on its thread; the array is borrowed meanwhile.
        noted(unsafe { (self.call.store)(self.call.context, state.number, &x) })
    }

    /// Reads stored rows of tokens, including those of this step: as many as `y` has rows.
    ///
    /// # Errors
    /// Missing tokens; rows of another size or with gaps.
    pub fn stored(&self, state: &TokenState, from: StoredRows, y: &mut RowsMut) -> Result<()> {
        let (rows, cols) = (y.rows(), y.cols());
        let (Some(data), true) = (y.as_mut_slice(), cols == state.cols) else {
            let wanted = state.cols;
            return Err(Error::new(format!(
                "expected contiguous rows of {wanted} elements for the rows of a state, found [{rows}, {cols}]"
            )));
        };
        let y = Tensor::rows(data.as_mut_ptr(), rows, cols, 0);
        let StoredRows { sequence, first } = from;
        // SAFETY: as in `store`.
        noted(unsafe {
            (self.call.stored)(self.call.context, state.number, sequence as u64, first as u64, &y)
        })
    }
}

/// The size of a cache line.
const SCRATCH_ALIGN: u64 = 64;

/// The result of a service; the host has recorded the reason of a failure.
fn noted(status: abi::Status) -> Result<()> {
    if status == OK { Ok(()) } else { Err(Error::noted()) }
}

struct ParallelJob<F> {
    body: F,
    n: usize,
    panic: OnceLock<String>,
}

/// The function that runs a job of this type.
fn run_of<F: Fn(usize) + Sync>(_job: &ParallelJob<F>) -> unsafe extern "C" fn(*mut c_void, u64) {
    run::<F>
}

/// # Safety
/// `argument` points to a live job of this type.
unsafe extern "C" fn run<F: Fn(usize) + Sync>(argument: *mut c_void, index: u64) {
    // SAFETY: the promise above; jobs are shared.
    let job = unsafe { &*argument.cast::<ParallelJob<F>>() };
    let index = index as usize;
    if index < job.n {
        if let Err(text) = caught(|| (job.body)(index)) {
            // The first one is told.
            let _ = job.panic.set(text);
        }
    }
}
