//! Chooses kernels, cuts products into tasks and runs them in one parallel region.

use super::job::{Form, Input, Job, Kernel, Output, Tokens};
use super::tiles::LANES;
use super::{Arithmetic, float, generic};
use crate::activations::Activations;
use crate::blocks::{BlockType, Matrix};
use crate::{Cpu, Isa, KernelError};

/// One matrix times some rows of the input.
pub(super) struct Product<'a> {
    /// The weights.
    pub(super) w: Matrix<'a>,
    /// Which rows of the input.
    pub(super) tokens: Tokens<'a>,
    /// Where the results go: `[tokens, w.rows]`.
    pub(super) output: Output<'a>,
}

/// A kernel, the form of input it wants and the number of weight rows it likes to do together.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) kernel: Kernel,
    /// The form of activations it wants.
    pub(super) form: Form,
    /// Tasks hold a multiple of this many rows, but for the last.
    pub(super) tile: usize,
}

/// A list of products with the same input.
pub(super) struct Plan<'a> {
    cpu: &'a Cpu,
    arithmetic: Arithmetic,
    x: Activations<'a>,
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    kernel: Kernel,
    job: Job<'a>,
    tile: usize,
    rows_per_task: usize,
    first_task: usize,
}

/// Tasks per thread that are aimed at, so that threads which lose time to others end together.
const TASKS_PER_THREAD: usize = 8;
/// The bytes of weights that a task of the one-row kernels reads, at least and at most: long enough for the
/// prefetchers, short enough that threads end together.
const ONE_ROW_TASK_BYTES: [usize; 2] = [12 << 10, 512 << 10];
/// The multiplications of a task of the many-row kernels, at least and at most, unless a single tile has more.
const MANY_ROWS_TASK_WORK: [usize; 2] = [1 << 20, 16 << 20];

impl<'a> Plan<'a> {
    /// An empty list.
    pub(super) fn new(cpu: &'a Cpu, arithmetic: Arithmetic, x: &Activations<'a>) -> Self {
        Plan { cpu, arithmetic, x: *x, parts: Vec::new() }
    }

    /// Adds a product whose lengths were checked.
    pub(super) fn push(&mut self, product: Product<'a>) -> Result<(), KernelError> {
        let x = self.x;
        self.push_with(product, &x)
    }

    /// Adds a product with an input of its own, of the same class as the list's.
    pub(super) fn push_with(&mut self, product: Product<'a>, x: &Activations<'a>) -> Result<(), KernelError> {
        let (w, tokens) = (product.w, product.tokens);
        if w.rows() == 0 || tokens.len() == 0 {
            return Ok(());
        }
        let choice = choose(self.cpu.isa(), self.arithmetic, w.block(), self.one());
        let input = match choice.form {
            Form::Float => Input::Float(*x),
            Form::Rounded(width) => Input::Rounded(x.quantised(self.cpu, width)?),
            Form::Halves => Input::Halves(x.halves(self.cpu)?),
        };
        let job = Job { w, first_row: 0, x: input, tokens, output: product.output };
        self.parts.push(Part {
            kernel: choice.kernel,
            job,
            tile: choice.tile,
            rows_per_task: 0,
            first_task: 0,
        });
        Ok(())
    }

    /// Whether the one-row kernels serve. The class goes by the whole input, so that a row's result never depends
    /// on how many rows share its expert.
    fn one(&self) -> bool {
        self.x.rows == 1
    }

    /// Cuts the products into tasks of about the same work; returns how many.
    fn divide(&mut self) -> usize {
        let one = self.one();
        let work = |job: &Job| {
            if one {
                job.w.bytes().len()
            } else {
                job.tokens.len().saturating_mul(job.w.rows() * job.w.cols())
            }
        };
        let [least, most] = if one { ONE_ROW_TASK_BYTES } else { MANY_ROWS_TASK_WORK };
        let threads = self.cpu.pool().threads();
        let total = self.parts.iter().fold(0usize, |sum, part| sum.saturating_add(work(&part.job)));
        let wanted = (total / (threads * TASKS_PER_THREAD)).clamp(least, most);
        let mut tasks = 0;
        for part in &mut self.parts {
            let rows = part.job.w.rows();
            let pieces = work(&part.job).div_ceil(wanted).clamp(1, rows);
            let tile = if rows < 2 * threads * part.tile { part.tile.min(LANES) } else { part.tile };
            part.rows_per_task = rows.div_ceil(pieces).next_multiple_of(tile);
            part.first_task = tasks;
            tasks += rows.div_ceil(part.rows_per_task);
        }
        tasks
    }

    /// Computes all products.
    pub(super) fn run(mut self) -> Result<(), KernelError> {
        let tasks = self.divide();
        let parts = &self.parts;
        self.cpu.pool().run(tasks, &|task| {
            let at = parts.partition_point(|part| part.first_task <= task);
            let Some(part) = at.checked_sub(1).and_then(|at| parts.get(at)) else { return };
            let first_row = (task - part.first_task) * part.rows_per_task;
            let w = part.job.w.rows_range(first_row..first_row + part.rows_per_task);
            let job = Job { w, first_row, ..part.job };
            // SAFETY: the kernel was chosen for the instruction set of `cpu`, which is available; tasks are
            // disjoint ranges of rows, and each runs once.
            unsafe { (part.kernel)(&job) }
        })
    }
}

/// The kernel for a block type; `one`: the input has a single row.
pub(super) fn choose(isa: Isa, arithmetic: Arithmetic, block: BlockType, one: bool) -> Choice {
    let float = arithmetic == Arithmetic::Exact || block.is_float();
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => super::avx512::choose(block, arithmetic, one),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if float => super::avx2::choose_float(one),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => super::avx2::choose(block, one),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon if float => super::neon::choose_float(one),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => super::neon::choose(block, one),
        _ if float => float::choose(one),
        _ => generic::choose(block, one),
    }
}
