//! What all kernels of matrix products share: a job, the forms of its input, and kernels typed by that form. `unpacked`
//! and `tiles` use this module, the instruction sets use all three, and `plan` uses them all.

use std::marker::PhantomData;
use std::ops::Range;

use crate::activations::{ActivationLayout, Activations, BFloat16Rows, Int8Rows, LaneScales};
use crate::blocks::{BlockType, FloatType, Matrix, QuantType};
use crate::caches::Caches;
use crate::memory::Scratch;

/// Which rows of the activations take part in a product.
#[derive(Clone, Copy)]
pub(super) enum TokenSelection<'a> {
    /// The first so many.
    All(usize),
    /// These rows, checked to be in range.
    Some(&'a [u32]),
}

impl TokenSelection<'_> {
    /// How many there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        match self {
            TokenSelection::All(n) => *n,
            TokenSelection::Some(rows) => rows.len(),
        }
    }

    /// The row of the activations that is the `i`th here.
    #[inline(always)]
    pub(super) fn row(&self, i: usize) -> usize {
        match self {
            TokenSelection::All(_) => i,
            TokenSelection::Some(rows) => rows[i] as usize,
        }
    }
}

/// An output `[tokens, stride]` that several tasks fill, each its own columns.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    start: *mut f32,
    tokens: usize,
    stride: usize,
    life: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointer comes from an exclusive borrow that outlives `'a`; it is only written through `OutputColumns`,
// which are disjoint by the contract of `columns`.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// Whole rows of `stride` values in `y`.
    pub(super) fn new(y: &'a mut [f32], stride: usize) -> Self {
        let tokens = y.len().checked_div(stride).unwrap_or(0);
        Output { start: y.as_mut_ptr(), tokens, stride, life: PhantomData }
    }

    /// Some of the columns, for one task.
    ///
    /// # Safety
    /// No other `OutputColumns` with one of these columns may exist meanwhile.
    pub(super) unsafe fn columns(&self, columns: Range<usize>) -> OutputColumns<'a> {
        assert!(columns.start <= columns.end && columns.end <= self.stride);
        let start = self.start.wrapping_add(columns.start);
        OutputColumns {
            start,
            width: columns.len(),
            tokens: self.tokens,
            stride: self.stride,
            life: PhantomData,
        }
    }
}

/// The columns of an output that one task fills.
pub(super) struct OutputColumns<'a> {
    start: *mut f32,
    width: usize,
    tokens: usize,
    stride: usize,
    life: PhantomData<&'a mut [f32]>,
}

impl OutputColumns<'_> {
    /// Stores `values` from column `column` on, for the `token`th row.
    #[inline(always)]
    pub(super) fn store(&mut self, token: usize, column: usize, values: &[f32]) {
        assert!(token < self.tokens && column + values.len() <= self.width);
        let to = self.start.wrapping_add(token * self.stride + column);
        // SAFETY: inside the output by the assertion; no other value has these columns.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) }
    }
}

/// A form of the activations: a kernel has the form that it reads as its type, so no other form can be passed to it.
pub(super) trait InputForm {
    /// The rows in this form.
    type Rows<'a>: Copy;

    /// How many rows of how many values.
    fn shape(x: Self::Rows<'_>) -> (usize, usize);
}

/// As they are.
#[derive(Clone, Copy)]
pub(super) struct Float;
/// Rounded to 8 bits.
#[derive(Clone, Copy)]
pub(super) struct Int8Activations;
/// Rounded to bfloat16.
#[derive(Clone, Copy)]
pub(super) struct BFloat16;

impl InputForm for Float {
    type Rows<'a> = Activations<'a>;

    fn shape(x: Activations) -> (usize, usize) {
        (x.rows, x.cols)
    }
}

impl InputForm for Int8Activations {
    type Rows<'a> = &'a Int8Rows;

    fn shape(x: &Int8Rows) -> (usize, usize) {
        (x.rows(), x.cols())
    }
}

impl InputForm for BFloat16 {
    type Rows<'a> = &'a BFloat16Rows;

    fn shape(x: &BFloat16Rows) -> (usize, usize) {
        x.shape()
    }
}

/// One task: some rows of a weight matrix times all tokens.
pub(super) struct MatmulJob<'a, F: InputForm> {
    /// The rows of the weights.
    pub(super) w: Matrix<'a>,
    /// The activations.
    pub(super) x: F::Rows<'a>,
    /// Which of their rows.
    pub(super) tokens: TokenSelection<'a>,
    /// Where results go: one column per row of the weights, one row per token.
    pub(super) out: OutputColumns<'a>,
    /// By which tiles are cut.
    pub(super) caches: Caches,
}

/// The function of a kernel.
pub(super) type Function<F> = unsafe fn(&mut MatmulJob<'_, F>, &mut Scratch);

/// Computes jobs whose weights are of one type and whose activations are of one form.
pub(super) struct Kernel<F: InputForm> {
    block: BlockType,
    function: Function<F>,
    layout: Option<ActivationLayout>,
    lane_scales: &'static [LaneScales],
}

impl<F: InputForm> Clone for Kernel<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: InputForm> Copy for Kernel<F> {}

impl<F: InputForm> Kernel<F> {
    /// A kernel for weights of type `block`.
    ///
    /// # Safety
    /// This processor has the instructions that `function` was compiled for (name the token), and the function reads
    /// weights of this type.
    pub(super) unsafe fn new(block: impl Into<BlockType>, function: Function<F>) -> Self {
        Kernel { block: block.into(), function, layout: None, lane_scales: &[] }
    }

    /// The same kernel, which also reads the activations in a layout.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn with_layout(self, layout: Option<ActivationLayout>) -> Self {
        Kernel { layout, ..self }
    }

    /// The layout of the activations that it reads.
    pub(super) fn layout(self) -> Option<ActivationLayout> {
        self.layout
    }

    /// The same kernel, which also reads scales and sums broadcast to lanes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn with_lane_scales(self, lane_scales: &'static [LaneScales]) -> Self {
        Kernel { lane_scales, ..self }
    }

    /// The scales and sums that it reads broadcast to lanes.
    pub(super) fn lane_scales(self) -> &'static [LaneScales] {
        self.lane_scales
    }

    /// Computes a job.
    pub(super) fn run(self, job: &mut MatmulJob<'_, F>, scratch: &mut Scratch) {
        let (rows, cols) = F::shape(job.x);
        assert!(
            job.w.block() == self.block && job.w.cols() == cols,
            "a kernel for other weights or activations"
        );
        assert!(
            job.out.width == job.w.rows() && job.out.tokens == job.tokens.len(),
            "an output of another size"
        );
        assert!(job.tokens.len() == 0 || rows > 0);
        // SAFETY: promised where the kernel was made; the weights are of its type, and the activations have the same
        // width.
        unsafe { (self.function)(job, scratch) }
    }
}

/// A kernel and the number of weight rows that it prefers to compute together.
pub(super) struct KernelChoice<F: InputForm> {
    pub(super) kernel: Kernel<F>,
    /// Tasks hold a multiple of this many rows, except for the last.
    pub(super) tile: usize,
}

/// The ways to compute a product; they give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProductKind {
    /// The input has a single row.
    Gemv,
    /// It has several, of which at most [`IsaKernels::few_rows`] take part: sequences while they generate, or the rows of
    /// an expert.
    FewRows,
    /// More rows take part.
    Gemm,
}

/// The kernels of one instruction set: implemented by its token, so that every choice starts from the proof.
pub(super) trait IsaKernels {
    /// Weights of any type, f32 arithmetic.
    fn float(&self, block: BlockType, kind: ProductKind) -> KernelChoice<Float>;

    /// Quantized weights, activations rounded to 8 bits.
    fn int8(&self, quant: QuantType, kind: ProductKind) -> KernelChoice<Int8Activations>;

    /// The most rows of activations for which there are kernels of their own for quantized weights and activations
    /// rounded to 8 bits.
    fn few_rows(&self) -> usize {
        0
    }

    /// BF16 weights and activations rounded to bfloat16.
    fn bfloat16(&self, kind: ProductKind) -> KernelChoice<BFloat16>;

    /// The same for both types of 16-bit floats, where F16 weights are rounded too; none if the processor has no such
    /// products.
    fn native_bfloat16(&self, _: FloatType, _: ProductKind) -> Option<KernelChoice<BFloat16>> {
        None
    }
}
