//! The second product of low-rank adapters, added to the rows of the output.

use crate::blocks::{BlockType, FloatType, Matrix};
use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::memory::Scratch;
use crate::simd::{DenseProduct, Kernel, LANES, Simd, dispatch, fused};
use std::ops::Range;

/// The fewest multiplications of a task.
const LEAST_WORK: usize = 16 << 10;
/// The most columns of a task: a panel of a matrix of rank 16 is then half of a second-level cache.
const MOST_COLUMNS: usize = 4096;
/// The intended number of tasks per thread.
const TASKS_PER_THREAD: usize = 4;
/// Rows of a product that are computed together.
const ROWS: usize = 64;
/// The output's own values count in full.
const ONES: [f32; ROWS] = [1.0; ROWS];

/// A product that is added: `y[rows[t]] += narrow[t] up`.
#[derive(Clone, Copy, Debug)]
pub struct LowRankTerm<'a> {
    /// The narrow rows, `[T, rank]`.
    pub narrow: &'a [f32],
    /// The matrix, transposed: `[rank, width of y]`, in F32 or F16.
    pub up: Matrix<'a>,
    /// Row of `y` that each narrow row is added to; no row occurs twice. Absent: the row with the same index.
    pub rows: Option<&'a [u32]>,
}

/// Rows, and the products that are added to them in order.
#[derive(Debug)]
pub struct LowRankSum<'a> {
    /// `[rows, width]`.
    pub y: &'a mut [f32],
    /// Elements of a row.
    pub width: usize,
    /// What is added.
    pub terms: Vec<LowRankTerm<'a>>,
}

/// Adds products of low rank to rows, all in one parallel region. A term's sum is one chain over its rank that starts
/// from the value in the output, whatever the number of rows and threads.
///
/// # Errors
/// [`KernelError::Shape`]: lengths that do not fit, a matrix that is neither F32 nor F16. [`KernelError::JobPanicked`].
pub fn add_low_rank(cpu: &Cpu, sums: &mut [LowRankSum]) -> Result<(), KernelError> {
    for sum in sums.iter() {
        check(sum)?;
    }
    let mut parts: Vec<TermPart> = Vec::with_capacity(sums.len());
    let columns = columns_of_task(cpu, sums);
    let mut tasks = 0;
    for sum in sums.iter_mut().filter(|sum| !sum.terms.is_empty() && sum.width > 0) {
        parts.push(TermPart {
            y: SharedRows(sum.y.as_mut_ptr()),
            width: sum.width,
            terms: &sum.terms,
            first_task: tasks,
        });
        tasks += sum.width.div_ceil(columns);
    }
    cpu.pool().run_with_scratch(tasks, &|task, scratch| {
        let at = parts.partition_point(|part| part.first_task <= task);
        // The first part begins with task 0.
        let part = &parts[at - 1];
        let first = (task - part.first_task) * columns;
        part.add(cpu, first..part.width.min(first + columns), scratch);
    })
}

fn check(sum: &LowRankSum) -> Result<(), KernelError> {
    let rows = sum.y.len().checked_div(sum.width).unwrap_or(0);
    check_len("add_low_rank: y", sum.y.len(), rows * sum.width)?;
    for term in &sum.terms {
        check_len("add_low_rank: columns", term.up.cols(), sum.width)?;
        let count = term.narrow.len().checked_div(term.up.rows()).unwrap_or(0);
        check_len("add_low_rank: narrow", term.narrow.len(), count * term.up.rows())?;
        check_len("add_low_rank: rows", count, term.rows.map_or(rows, <[u32]>::len))?;
        let past = term.rows.and_then(|picked| picked.iter().find(|row| **row as usize >= rows));
        if let Some(row) = past {
            return Err(KernelError::shape("add_low_rank: rows", format!("row {row} of {rows}")));
        }
        if !matches!(term.up.block(), BlockType::Float(FloatType::F32 | FloatType::F16)) {
            let found = format!("a matrix of {:?}; F32 and F16 are added", term.up.block());
            return Err(KernelError::shape("add_low_rank: up", found));
        }
    }
    Ok(())
}

/// Columns of a task, in whole vectors.
fn columns_of_task(cpu: &Cpu, sums: &[LowRankSum]) -> usize {
    let wide: usize = sums.iter().map(|sum| sum.width).sum();
    let of_column = |sum: &LowRankSum| sum.terms.iter().map(|term| term.narrow.len()).sum();
    let work: usize = sums.iter().map(of_column).max().unwrap_or(1);
    let least = LEAST_WORK.div_ceil(work.max(1));
    let even = wide.div_ceil(cpu.pool().threads() * TASKS_PER_THREAD);
    even.max(least).clamp(LANES, MOST_COLUMNS).next_multiple_of(4 * LANES)
}

/// Rows that several tasks share; each task has its own columns.
struct SharedRows(*mut f32);

// SAFETY: it comes from an exclusive borrow that outlives the region; tasks write disjoint columns.
unsafe impl Send for SharedRows {}
// SAFETY: as above.
unsafe impl Sync for SharedRows {}

/// The rows of one sum, and its place among the tasks.
struct TermPart<'a> {
    y: SharedRows,
    width: usize,
    terms: &'a [LowRankTerm<'a>],
    first_task: usize,
}

impl TermPart<'_> {
    /// Adds all terms to some columns.
    fn add(&self, cpu: &Cpu, columns: Range<usize>, scratch: &mut Scratch) {
        for term in self.terms {
            let (rank, wide) = (term.up.rows(), columns.len() / LANES * LANES);
            let panel = RankPanel::of(cpu, term, &columns, wide, scratch);
            let count = term.narrow.len().checked_div(rank).unwrap_or(0);
            let mut first = 0;
            while first < count {
                let (row, together) = run(term.rows, first, count);
                let narrow = &term.narrow[first * rank..(first + together) * rank];
                // SAFETY: the row and the columns lie inside `y` (`check`), and no other task has these columns.
                let y = unsafe { self.y.0.add(row * self.width + columns.start) };
                let tile = RankTile { narrow, rank, y, stride: self.width, wide, panel };
                dispatch(cpu, tile);
                self.rest(&term.up, narrow, row, columns.start + wide..columns.end);
                first += together;
            }
        }
    }
}

impl TermPart<'_> {
    /// The columns past the last whole vector, in the same order of additions.
    fn rest(&self, up: &Matrix, narrow: &[f32], row: usize, columns: Range<usize>) {
        for (at, narrow) in narrow.chunks_exact(up.rows()).enumerate() {
            for column in columns.clone() {
                // SAFETY: the row and the column lie inside `y` (`check`), and no other task has this column.
                let y = unsafe { &mut *self.y.0.add((row + at) * self.width + column) };
                *y = narrow.iter().enumerate().fold(*y, |sum, (k, x)| fused(*x, value(up, k, column), sum));
            }
        }
    }
}

/// The row of `y` that a narrow row is added to, and how many narrow rows from there on are added to consecutive rows.
fn run(rows: Option<&[u32]>, first: usize, count: usize) -> (usize, usize) {
    let Some(rows) = rows else { return (first, ROWS.min(count - first)) };
    let from = &rows[first..];
    let together = (1..from.len().min(ROWS)).take_while(|&at| from[at] == from[0] + at as u32).count() + 1;
    (from[0] as usize, together)
}

/// Columns of a matrix as floats: in place, or widened into the scratch of the task.
#[derive(Clone, Copy)]
struct RankPanel {
    start: *const f32,
    stride: usize,
}

impl RankPanel {
    fn of(cpu: &Cpu, term: &LowRankTerm, columns: &Range<usize>, wide: usize, scratch: &mut Scratch) -> Self {
        let width = term.up.cols();
        if term.up.block() == BlockType::Float(FloatType::F32) {
            let start = term.up.bytes().as_ptr().cast::<f32>().wrapping_add(columns.start);
            return Self { start, stride: width };
        }
        let room = scratch.floats(term.up.rows() * wide);
        for (row, to) in room.chunks_exact_mut(wide.max(1)).enumerate() {
            let from = &term.up.row(row)[2 * columns.start..2 * (columns.start + wide)];
            dispatch(cpu, WidenColumns { from, to });
        }
        Self { start: room.as_ptr(), stride: wide }
    }
}

/// Sixteen halves at a time to floats.
struct WidenColumns<'a> {
    from: &'a [u8],
    to: &'a mut [f32],
}

impl Kernel for WidenColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (from, to) in self.from.chunks_exact(2 * LANES).zip(self.to.as_chunks_mut::<LANES>().0) {
            // SAFETY: sixteen halves.
            s.store(to, unsafe { s.load_f16_ptr(from.as_ptr()) });
        }
    }
}

/// Some rows times a panel, added to rows of `y`.
struct RankTile<'a> {
    narrow: &'a [f32],
    rank: usize,
    y: *mut f32,
    stride: usize,
    wide: usize,
    panel: RankPanel,
}

impl Kernel for RankTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let product = DenseProduct {
            rows: self.narrow.len() / self.rank,
            depth: self.rank,
            columns: self.wide,
            a: self.narrow.as_ptr(),
            a_stride: self.rank,
            b: self.panel.start,
            b_stride: self.panel.stride,
            c: self.y,
            c_stride: self.stride,
            alpha: ONES.as_ptr(),
        };
        // SAFETY: at most `ROWS` rows, whose factors are `ONES`; panel and rows of `y` have `wide` columns, in whole vectors.
        unsafe { product.run(s) }
    }
}

/// An element of a matrix of plain floats.
fn value(up: &Matrix, row: usize, column: usize) -> f32 {
    let bytes = up.row(row);
    match up.block() {
        BlockType::Float(FloatType::F32) => {
            let at = 4 * column;
            f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        }
        _ => half::f16::from_le_bytes([bytes[2 * column], bytes[2 * column + 1]]).to_f32(),
    }
}
