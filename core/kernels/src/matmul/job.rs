//! What a kernel is given: some rows of a matrix, the rows of activations, and where results go.

use std::marker::PhantomData;

use crate::activations::{Activations, Halves, Quantised, Width};
use crate::blocks::{BlockType, Matrix};

/// Which rows of the activations take part in a product.
#[derive(Clone, Copy)]
pub(super) enum Tokens<'a> {
    /// The first so many.
    All(usize),
    /// These, checked to be in range.
    Some(&'a [u32]),
}

impl Tokens<'_> {
    /// How many there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        match self {
            Tokens::All(n) => *n,
            Tokens::Some(rows) => rows.len(),
        }
    }

    /// The row of the activations that is the `i`th here.
    #[inline(always)]
    pub(super) fn row(&self, i: usize) -> usize {
        match self {
            Tokens::All(_) => i,
            Tokens::Some(rows) => rows[i] as usize,
        }
    }
}

/// An output `[tokens, stride]` that several tasks fill, each its own columns.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    start: *mut f32,
    stride: usize,
    len: usize,
    life: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointer comes from an exclusive borrow that outlives `'a`, and tasks write disjoint columns
// (`Plan::run` gives every task its own range of weight rows).
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// Rows of `stride` values in `y`.
    pub(super) fn new(y: &'a mut [f32], stride: usize) -> Self {
        Output { start: y.as_mut_ptr(), stride, len: y.len(), life: PhantomData }
    }

    /// Stores `values` from column `column` on, for the `token`th row.
    ///
    /// # Safety
    /// No other thread may access these elements meanwhile.
    #[inline(always)]
    pub(super) unsafe fn store(&self, token: usize, column: usize, values: &[f32]) {
        let at = token * self.stride + column;
        assert!(column + values.len() <= self.stride && at + values.len() <= self.len);
        // SAFETY: in bounds by the assertion; exclusive by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.start.add(at), values.len()) }
    }
}

/// The activations in the form that the chosen kernel wants.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    /// As they are.
    Float(Activations<'a>),
    /// Rounded to 8 bits.
    Rounded(&'a Quantised),
    /// In bfloat16.
    Halves(&'a Halves),
}

/// The form of activations that a kernel wants.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// As they are.
    Float,
    /// Rounded to 8 bits.
    Rounded(Width),
    /// In bfloat16.
    Halves,
}

impl Form {
    /// The form that a block type's integer kernels want.
    pub(super) fn of(block: BlockType) -> Form {
        Width::of(block).map_or(Form::Float, Form::Rounded)
    }
}

/// One task: the rows `first_row..first_row + w.rows()` of a weight matrix times all tokens.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// The rows of the weights.
    pub(super) w: Matrix<'a>,
    /// The column of the output that the first of them goes to.
    pub(super) first_row: usize,
    /// The activations.
    pub(super) x: Input<'a>,
    /// Which of their rows.
    pub(super) tokens: Tokens<'a>,
    /// Where results go.
    pub(super) output: Output<'a>,
}

/// Computes a job. Unsafe to call: the processor must have the instruction set that the kernel was chosen for,
/// and no other thread may access the job's columns of the output.
pub(super) type Kernel = unsafe fn(&Job<'_>);
