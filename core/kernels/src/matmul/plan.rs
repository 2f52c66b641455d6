//! Chooses kernels, cuts products into tasks and runs them in one parallel region.

use super::tiles::LANES;
use super::types::{
    BFloat16, Choice, Columns, Float, Int8Activations, IsaKernels, Job, Output, ProductKind, Tokens,
};
use crate::activations::{Activations, BFloat16Rows, Int8Rows, Rounding};
use crate::blocks::{BlockType, FloatType, Matrix};
use crate::cpu::HalfPrompts;
use crate::isa::Level;
use crate::memory::Scratch;
use crate::{Cpu, KernelError};
use menagerie_formulas::Arithmetic;

/// One matrix times some rows of the input.
pub(super) struct Product<'a> {
    /// The weights.
    pub(super) w: Matrix<'a>,
    /// Which rows of the input.
    pub(super) tokens: Tokens<'a>,
    /// Where the results go: `[tokens, w.rows]`.
    pub(super) output: Output<'a>,
}

/// A list of products with the same input.
pub(super) struct Plan<'a> {
    cpu: &'a Cpu,
    arithmetic: Arithmetic,
    x: Activations<'a>,
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    product: Product<'a>,
    work: Work<'a>,
    rows_per_task: usize,
    first_task: usize,
}

/// A kernel with the activations in its form.
enum Work<'a> {
    Float(Choice<Float>, Activations<'a>),
    Int8Activations(Choice<Int8Activations>, &'a Int8Rows),
    BFloat16(Choice<BFloat16>, &'a BFloat16Rows),
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
        if product.w.rows() > 0 && product.tokens.len() > 0 {
            let work = Work::choose(self.cpu, self.arithmetic, product.w.block(), x)?;
            self.parts.push(Part { product, work, rows_per_task: 0, first_task: 0 });
        }
        Ok(())
    }

    /// Cuts the products into tasks of about the same work; returns how many.
    fn divide(&mut self) -> usize {
        let kind = kind_of(&self.x);
        let work = |product: &Product| match kind {
            ProductKind::Gemv => product.w.bytes().len(),
            ProductKind::Gemm => product.tokens.len().saturating_mul(product.w.rows() * product.w.cols()),
        };
        let [least, most] = match kind {
            ProductKind::Gemv => ONE_ROW_TASK_BYTES,
            ProductKind::Gemm => MANY_ROWS_TASK_WORK,
        };
        let threads = self.cpu.pool().threads();
        let total = self.parts.iter().fold(0usize, |sum, part| sum.saturating_add(work(&part.product)));
        let wanted = (total / (threads * TASKS_PER_THREAD)).clamp(least, most);
        let mut tasks = 0;
        for part in &mut self.parts {
            let rows = part.product.w.rows();
            let pieces = work(&part.product).div_ceil(wanted).clamp(1, rows);
            let tile = part.work.tile();
            let tile = if rows < 2 * threads * tile { tile.min(LANES) } else { tile };
            part.rows_per_task = rows.div_ceil(pieces).next_multiple_of(tile);
            part.first_task = tasks;
            tasks += rows.div_ceil(part.rows_per_task);
        }
        tasks
    }

    /// Computes all products.
    pub(super) fn run(mut self) -> Result<(), KernelError> {
        let tasks = self.divide();
        let (cpu, parts) = (self.cpu, &self.parts);
        cpu.pool().run_with_scratch(tasks, &|task, scratch| {
            let at = parts.partition_point(|part| part.first_task <= task);
            // The first part begins with task 0.
            let part = &parts[at - 1];
            let first = (task - part.first_task) * part.rows_per_task;
            let w = part.product.w.rows_range(first..first + part.rows_per_task);
            // SAFETY: tasks are disjoint ranges of rows of their product, whose output is its own, and each runs once.
            let out = unsafe { part.product.output.columns(first..first + w.rows()) };
            let task = Task { w, tokens: part.product.tokens, out };
            part.work.run(cpu, task, scratch);
        })
    }
}

/// The rows of a product that a task computes.
struct Task<'a> {
    w: Matrix<'a>,
    tokens: Tokens<'a>,
    out: Columns<'a>,
}

/// The way to compute for an input.
fn kind_of(x: &Activations) -> ProductKind {
    if x.rows == 1 { ProductKind::Gemv } else { ProductKind::Gemm }
}

impl<'a> Work<'a> {
    /// The one place where kernels are chosen.
    fn choose(
        cpu: &Cpu,
        arithmetic: Arithmetic,
        block: BlockType,
        x: &Activations<'a>,
    ) -> Result<Self, KernelError> {
        let (level, kind) = (cpu.level(), kind_of(x));
        let kernels = kernels(&level);
        match (arithmetic, block) {
            (Arithmetic::Fast, BlockType::Quant(quant)) => {
                let (choice, x) = (kernels.int8(quant, kind), x.quantized(cpu, Rounding::of(quant))?);
                if let Some(layout) = choice.kernel.layout() {
                    x.arrange(cpu, layout)?;
                }
                for &scales in choice.kernel.lane_scales() {
                    x.spread(cpu, scales);
                }
                Ok(Work::Int8Activations(choice, x))
            }
            (Arithmetic::Fast, BlockType::BF16) => {
                Ok(Work::BFloat16(kernels.bfloat16(kind), x.bfloat16(cpu)?))
            }
            (Arithmetic::Fast, BlockType::F16) if cpu.half_prompts() == HalfPrompts::BFloat16 => {
                match kernels.native_bfloat16(FloatType::F16, kind) {
                    Some(choice) => Ok(Work::BFloat16(choice, x.bfloat16(cpu)?)),
                    None => Ok(Work::Float(kernels.float(block, kind), *x)),
                }
            }
            _ => Ok(Work::Float(kernels.float(block, kind), *x)),
        }
    }

    /// The number of weight rows that the kernel likes to do together.
    fn tile(&self) -> usize {
        match self {
            Work::Float(choice, _) => choice.tile,
            Work::Int8Activations(choice, _) => choice.tile,
            Work::BFloat16(choice, _) => choice.tile,
        }
    }

    fn run(&self, cpu: &Cpu, task: Task<'a>, scratch: &mut Scratch) {
        let Task { w, tokens, out } = task;
        let caches = cpu.caches();
        match self {
            Work::Float(choice, x) => {
                choice.kernel.run(&mut Job { w, x: *x, tokens, out, caches }, scratch);
            }
            Work::Int8Activations(choice, x) => {
                choice.kernel.run(&mut Job { w, x: *x, tokens, out, caches }, scratch);
            }
            Work::BFloat16(choice, x) => {
                choice.kernel.run(&mut Job { w, x: *x, tokens, out, caches }, scratch);
            }
        }
    }
}

/// The kernels of an instruction set, which its proof implements.
fn kernels(level: &Level) -> &dyn IsaKernels {
    match level {
        Level::Portable(isa) => isa,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(isa) => isa,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(isa) => isa,
        #[cfg(target_arch = "aarch64")]
        Level::Neon(isa) => isa,
    }
}
