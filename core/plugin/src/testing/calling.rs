//! The `Call` of the host for tests: products, threads, memory, rows of tokens.

use super::building::{Requests, SetupData};
use super::host_table::note;
use crate::abi::{self, Status, Tensor};
use crate::descriptor::{ArrayAccess, floats};
use std::cell::RefCell;
use std::ffi::c_void;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of a state per token, by sequence of the step and state.
#[derive(Debug)]
pub(super) struct TokenRows<'a> {
    pub(super) rows: &'a mut Vec<f32>,
    pub(super) cols: usize,
    pub(super) window: usize,
}

/// What the functions of a call work on.
#[derive(Debug)]
pub(super) struct TestCall<'a> {
    pub(super) made: &'a SetupData,
    pub(super) wanted: &'a Requests,
    pub(super) threads: usize,
    /// Rows of the step that a sequence has: first, how many, and how many tokens came before.
    pub(super) spans: Vec<[usize; 3]>,
    /// Of every sequence of the step, every state.
    pub(super) token_rows: RefCell<Vec<Vec<Option<TokenRows<'a>>>>>,
    pub(super) scratch: RefCell<Vec<Box<[Aligned]>>>,
}

/// Memory for calls.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Aligned(#[allow(dead_code)] [f32; 16]);

/// # Safety
/// `context` is a [`TestCall`] that lives.
unsafe fn noted(context: *mut c_void, function: impl FnOnce(&TestCall) -> Result<(), String>) -> Status {
    // SAFETY: the promise above.
    match function(unsafe { &*context.cast_const().cast::<TestCall>() }) {
        Ok(()) => abi::OK,
        Err(fault) => {
            note(fault);
            abi::ERROR
        }
    }
}

/// # Safety
/// The array is there, as the ABI says, and nobody writes it while the slice lives.
unsafe fn read<'a>(tensor: *const Tensor, what: &str) -> Result<(&'a [f32], usize), String> {
    // SAFETY: the promise above.
    let tensor = unsafe { tensor.as_ref() }.ok_or_else(|| format!("{what}: a null pointer"))?;
    let found = floats(tensor, ArrayAccess::Read, what).map_err(|error| error.to_string())?;
    // SAFETY: the promise above.
    Ok((unsafe { slice::from_raw_parts(found.data, found.len) }, tensor.shape[1] as usize))
}

/// # Safety
/// As [`read`]; and nobody else uses it.
unsafe fn write<'a>(tensor: *const Tensor, what: &str) -> Result<(&'a mut [f32], usize), String> {
    // SAFETY: the promise above.
    let tensor = unsafe { tensor.as_ref() }.ok_or_else(|| format!("{what}: a null pointer"))?;
    let found = floats(tensor, ArrayAccess::Write, what).map_err(|error| error.to_string())?;
    // SAFETY: the promise above.
    Ok((unsafe { slice::from_raw_parts_mut(found.data, found.len) }, tensor.shape[1] as usize))
}

pub(super) unsafe extern "C" fn linear(
    context: *mut c_void,
    number: u32,
    x: *const Tensor,
    y: *const Tensor,
) -> Status {
    let multiply = |calling: &TestCall| {
        let product = calling
            .wanted
            .linears
            .get(number as usize)
            .ok_or_else(|| format!("there is no linear {number}"))?;
        // SAFETY: the ABI's promise.
        let ((x, inputs), (y, outputs)) = unsafe { (read(x, "x of a linear")?, write(y, "y of a linear")?) };
        let (weight, bias) = (&product.weight, product.bias.as_deref());
        if (inputs, outputs) != (product.inputs, product.outputs)
            || x.len() / inputs.max(1) != y.len() / outputs.max(1)
        {
            return Err(format!(
                "{weight} was given rows of {inputs} and {outputs} elements, or not as many of each"
            ));
        }
        let (matrix, bias) = (calling.made.values(weight), bias.map(|bias| calling.made.values(bias)));
        for (x, y) in x.chunks_exact(inputs.max(1)).zip(y.chunks_exact_mut(outputs.max(1))) {
            for (row, y) in y.iter_mut().enumerate() {
                let weights = &matrix[row * inputs..][..inputs];
                let sum: f32 = weights.iter().zip(x).map(|(weight, x)| weight * x).sum();
                *y = sum + bias.map_or(0.0, |bias| bias[row]);
            }
        }
        Ok(())
    };
    // SAFETY: the ABI's promise.
    unsafe { noted(context, multiply) }
}

type Body = unsafe extern "C" fn(argument: *mut c_void, index: u64);

/// What threads call, and with what.
struct ParallelWork {
    body: Body,
    argument: *mut c_void,
}

// SAFETY: the ABI lets bodies run on several threads.
unsafe impl Sync for ParallelWork {}

impl ParallelWork {
    fn run(&self, index: u64) {
        // SAFETY: the ABI's promise.
        unsafe { (self.body)(self.argument, index) }
    }
}

pub(super) unsafe extern "C" fn parallel_for(
    context: *mut c_void,
    n: u64,
    body: Body,
    argument: *mut c_void,
) -> Status {
    let run = |calling: &TestCall| {
        let (work, next) = (ParallelWork { body, argument }, AtomicU64::new(0));
        let (work, next) = (&work, &next);
        // The last first: an order that a component cannot rely on.
        let take = move || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= n {
                    break;
                }
                work.run(n - 1 - index);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..calling.threads {
                scope.spawn(take);
            }
            take();
        });
        Ok(())
    };
    // SAFETY: the ABI's promise.
    unsafe { noted(context, run) }
}

pub(super) unsafe extern "C" fn scratch(context: *mut c_void, bytes: u64, align: u64) -> *mut c_void {
    // SAFETY: the ABI's promise.
    let calling = unsafe { &*context.cast_const().cast::<TestCall>() };
    let lines = bytes.div_ceil(64);
    if align > 64 || lines > 1 << 24 {
        return std::ptr::null_mut();
    }
    let mut kept = calling.scratch.borrow_mut();
    kept.push(vec![Aligned([f32::NAN; 16]); lines as usize].into_boxed_slice());
    kept.last_mut().map_or(std::ptr::null_mut(), |memory| memory.as_mut_ptr().cast())
}

pub(super) unsafe extern "C" fn store(context: *mut c_void, state: u32, x: *const Tensor) -> Status {
    let keep = |calling: &TestCall| {
        // SAFETY: the ABI's promise.
        let (x, cols) = unsafe { read(x, "rows to store")? };
        let mut all = calling.token_rows.borrow_mut();
        for (states, [first, rows, past]) in all.iter_mut().zip(&calling.spans) {
            let kept = states.get_mut(state as usize).and_then(Option::as_mut);
            let kept = kept.ok_or_else(|| format!("state {state} has no rows"))?;
            if kept.cols != cols || x.len() < (first + rows) * cols {
                return Err(format!(
                    "state {state}: expected rows of {} elements, found {} numbers in rows of {cols}",
                    kept.cols,
                    x.len()
                ));
            }
            kept.rows.truncate(past * cols);
            kept.rows.extend_from_slice(&x[first * cols..(first + rows) * cols]);
        }
        Ok(())
    };
    // SAFETY: the ABI's promise.
    unsafe { noted(context, keep) }
}

pub(super) unsafe extern "C" fn stored(
    context: *mut c_void,
    state: u32,
    sequence: u64,
    first: u64,
    y: *const Tensor,
) -> Status {
    let give = |calling: &TestCall| {
        // SAFETY: the ABI's promise.
        let (y, cols) = unsafe { write(y, "rows to read")? };
        let all = calling.token_rows.borrow();
        let kept = all.get(sequence as usize).and_then(|states| states.get(state as usize)?.as_ref());
        let kept = kept.ok_or_else(|| format!("state {state} of sequence {sequence} has no rows"))?;
        let [_, rows, past] = calling.spans[sequence as usize];
        let visible = if kept.window == 0 { 0 } else { (past + 1).saturating_sub(kept.window) };
        let start = first as usize;
        let range = start.checked_mul(cols).map(|from| from..from.saturating_add(y.len()));
        let found = range.and_then(|range| kept.rows.get(range));
        match found {
            Some(found) if start >= visible && cols == kept.cols => y.copy_from_slice(found),
            _ => {
                let tokens = y.len() / cols.max(1);
                return Err(format!(
                    "state {state}: {tokens} rows from token {start} on were requested, but only {} are stored, visible from token {visible} on",
                    past + rows
                ));
            }
        }
        Ok(())
    };
    // SAFETY: the ABI's promise.
    unsafe { noted(context, give) }
}
