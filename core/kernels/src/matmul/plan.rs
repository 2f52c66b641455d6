//! Chooses kernels, divides products into tasks and runs them in one parallel region.

use super::tiles::LANES;
use super::types::{
    BFloat16, Float, Int8Activations, IsaKernels, KernelChoice, MatmulJob, Output, OutputColumns,
    ProductKind, TokenSelection,
};
use crate::activations::{Activations, BFloat16Rows, Int8Rows, Rounding};
use crate::blocks::{BlockType, FloatType, Matrix};
use crate::cpu::HalfPrompts;
use crate::isa::DetectedIsa;
use crate::memory::Scratch;
use crate::{Cpu, KernelError};
use menagerie_formulas::Arithmetic;

/// One matrix times some rows of the input.
pub(super) struct PlannedProduct<'a> {
    /// The weights.
    pub(super) w: Matrix<'a>,
    /// Which rows of the input.
    pub(super) tokens: TokenSelection<'a>,
    /// Where the results go: `[tokens, w.rows]`.
    pub(super) output: Output<'a>,
}

/// A list of products with the same input.
pub(super) struct MatmulPlan<'a> {
    cpu: &'a Cpu,
    arithmetic: Arithmetic,
    x: Activations<'a>,
    parts: Vec<ProductPart<'a>>,
}

struct ProductPart<'a> {
    product: PlannedProduct<'a>,
    kind: ProductKind,
    work: BoundKernel<'a>,
    rows_per_task: usize,
    first_task: usize,
}

/// A kernel with the activations in the form that it reads.
enum BoundKernel<'a> {
    Float(KernelChoice<Float>, Activations<'a>),
    Int8Activations(KernelChoice<Int8Activations>, &'a Int8Rows),
    BFloat16(KernelChoice<BFloat16>, &'a BFloat16Rows),
}

/// The intended number of tasks per thread, so that threads end together even if some of them lose time.
const TASKS_PER_THREAD: usize = 8;
/// The least and the most bytes of weights of a task of the kernels for one row and for few: long enough for the
/// prefetchers, short enough that threads end together.
const FEW_ROWS_TASK_BYTES: [usize; 2] = [12 << 10, 512 << 10];
/// The least and the most multiplications, unpacking included, of a task of the many-row kernels, unless a single tile
/// has more.
const MANY_ROWS_TASK_WORK: [usize; 2] = [1 << 20, 16 << 20];
/// Unpacking a weight takes the many-row kernels about as long as so many multiplications, which counts with few rows.
const UNPACKING: usize = 8;

impl<'a> MatmulPlan<'a> {
    /// An empty list.
    pub(super) fn new(cpu: &'a Cpu, arithmetic: Arithmetic, x: &Activations<'a>) -> Self {
        MatmulPlan { cpu, arithmetic, x: *x, parts: Vec::new() }
    }

    /// Adds a product whose lengths were checked.
    pub(super) fn push(&mut self, product: PlannedProduct<'a>) -> Result<(), KernelError> {
        if self.x.rows > 1 && product.tokens.len() == 1 {
            // The kernels for one row read weights fastest.
            let x = self.x.alone(product.tokens.row(0))?;
            return self.push_with(PlannedProduct { tokens: TokenSelection::All(1), ..product }, &x);
        }
        let x = self.x;
        self.push_with(product, &x)
    }

    /// Adds a product with its own input, of the same class as the list's.
    pub(super) fn push_with(
        &mut self,
        product: PlannedProduct<'a>,
        x: &Activations<'a>,
    ) -> Result<(), KernelError> {
        if product.w.rows() > 0 && product.tokens.len() > 0 {
            let block = product.w.block();
            let kind = self.kind_of(block, product.tokens.len(), x);
            let work = BoundKernel::choose(self.cpu, (self.arithmetic, kind), block, x)?;
            self.parts.push(ProductPart { product, kind, work, rows_per_task: 0, first_task: 0 });
        }
        Ok(())
    }

    /// How a product with so many rows of the input is computed.
    fn kind_of(&self, block: BlockType, tokens: usize, x: &Activations) -> ProductKind {
        let rounded = self.arithmetic == Arithmetic::Fast && matches!(block, BlockType::Quant(_));
        match x.rows {
            1 => ProductKind::Gemv,
            _ if rounded && tokens <= kernels(&self.cpu.level()).few_rows() => ProductKind::FewRows,
            _ => ProductKind::Gemm,
        }
    }

    /// Divides the products into tasks of about the same work; returns how many.
    fn divide(&mut self) -> usize {
        let threads = self.cpu.pool().threads();
        let wanted = |many: bool, [least, most]: [usize; 2]| {
            let parts = self.parts.iter().filter(|part| part.has_many_rows() == many);
            let total = parts.fold(0usize, |sum, part| sum.saturating_add(part.amount()));
            (total / (threads * TASKS_PER_THREAD)).clamp(least, most)
        };
        let (few, many) = (wanted(false, FEW_ROWS_TASK_BYTES), wanted(true, MANY_ROWS_TASK_WORK));
        let mut tasks = 0;
        for part in &mut self.parts {
            let rows = part.product.w.rows();
            let wanted = if part.has_many_rows() { many } else { few };
            let pieces = part.amount().div_ceil(wanted).clamp(1, rows);
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
            // SAFETY: tasks are disjoint ranges of rows of their product, whose output belongs to it alone, and each
            // runs once.
            let out = unsafe { part.product.output.columns(first..first + w.rows()) };
            let task = MatmulTask { w, tokens: part.product.tokens, out };
            part.work.run(cpu, task, scratch);
        })
    }
}

impl ProductPart<'_> {
    /// Whether its kernel is one for many rows.
    fn has_many_rows(&self) -> bool {
        self.kind == ProductKind::Gemm
    }

    /// How much work it is: multiplications, unpacking included, for many rows; bytes of weights for few.
    fn amount(&self) -> usize {
        let PlannedProduct { w, tokens, .. } = &self.product;
        match self.has_many_rows() {
            true => (tokens.len() + UNPACKING).saturating_mul(w.rows() * w.cols()),
            false => w.bytes().len(),
        }
    }
}

/// The rows of a product that a task computes.
struct MatmulTask<'a> {
    w: Matrix<'a>,
    tokens: TokenSelection<'a>,
    out: OutputColumns<'a>,
}

impl<'a> BoundKernel<'a> {
    /// The only place where kernels are chosen.
    fn choose(
        cpu: &Cpu,
        (arithmetic, kind): (Arithmetic, ProductKind),
        block: BlockType,
        x: &Activations<'a>,
    ) -> Result<Self, KernelError> {
        let level = cpu.level();
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
                Ok(BoundKernel::Int8Activations(choice, x))
            }
            (Arithmetic::Fast, BlockType::BF16) => {
                Ok(BoundKernel::BFloat16(kernels.bfloat16(kind), x.bfloat16(cpu)?))
            }
            (Arithmetic::Fast, BlockType::F16) if cpu.half_prompts() == HalfPrompts::BFloat16 => {
                match kernels.native_bfloat16(FloatType::F16, kind) {
                    Some(choice) => Ok(BoundKernel::BFloat16(choice, x.bfloat16(cpu)?)),
                    None => Ok(BoundKernel::Float(kernels.float(block, kind), *x)),
                }
            }
            _ => Ok(BoundKernel::Float(kernels.float(block, kind), *x)),
        }
    }

    /// The number of weight rows that the kernel prefers to compute together.
    fn tile(&self) -> usize {
        match self {
            BoundKernel::Float(choice, _) => choice.tile,
            BoundKernel::Int8Activations(choice, _) => choice.tile,
            BoundKernel::BFloat16(choice, _) => choice.tile,
        }
    }

    fn run(&self, cpu: &Cpu, task: MatmulTask<'a>, scratch: &mut Scratch) {
        let MatmulTask { w, tokens, out } = task;
        let caches = cpu.caches();
        match self {
            BoundKernel::Float(choice, x) => {
                choice.kernel.run(&mut MatmulJob { w, x: *x, tokens, out, caches }, scratch);
            }
            BoundKernel::Int8Activations(choice, x) => {
                choice.kernel.run(&mut MatmulJob { w, x: *x, tokens, out, caches }, scratch);
            }
            BoundKernel::BFloat16(choice, x) => {
                choice.kernel.run(&mut MatmulJob { w, x: *x, tokens, out, caches }, scratch);
            }
        }
    }
}

/// The kernels of an instruction set, which its proof implements.
fn kernels(level: &DetectedIsa) -> &dyn IsaKernels {
    match level {
        DetectedIsa::Portable(isa) => isa,
        #[cfg(target_arch = "x86_64")]
        DetectedIsa::Avx2(isa) => isa,
        #[cfg(target_arch = "x86_64")]
        DetectedIsa::Avx512(isa) => isa,
        #[cfg(target_arch = "aarch64")]
        DetectedIsa::Neon(isa) => isa,
    }
}
