//! Elementwise operations on rows, in place where blocks need that; parallel only when large.

mod activation;
pub use activation::{activate, gated};

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::simd::{Kernel, LANES, Simd, dispatch, tanh};

/// The fewest elements for which a second thread is used: below, waking it costs more than it saves.
pub(crate) const PARALLEL_ABOVE: usize = 32 * 1024;
/// Elements per task of a parallel call: small enough to distribute evenly, large enough to hide the cost of taking a
/// task.
const CHUNK: usize = 16 * 1024;

/// One elementwise operation of one or two operands, written once for every instruction set.
pub(crate) trait Pointwise: Copy + Send + Sync {
    /// The result for sixteen elements of the operands; must be `#[inline(always)]`.
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F;
}

/// `x += y`, element by element.
///
/// # Errors
/// [`KernelError::Shape`]: different lengths.
pub fn add(cpu: &Cpu, x: &mut [f32], y: &[f32]) -> Result<(), KernelError> {
    check_len("add: y", y.len(), x.len())?;
    combine_into(cpu, Add, x, y)
}

/// `x *= y`, element by element.
///
/// # Errors
/// [`KernelError::Shape`]: different lengths.
pub fn multiply(cpu: &Cpu, x: &mut [f32], y: &[f32]) -> Result<(), KernelError> {
    check_len("multiply: y", y.len(), x.len())?;
    combine_into(cpu, Multiply, x, y)
}

/// Adds `bias` to every row of `x`; rows are as long as `bias`.
///
/// # Errors
/// [`KernelError::Shape`]: `x` is not a whole number of rows.
pub fn add_bias(cpu: &Cpu, x: &mut [f32], bias: &[f32]) -> Result<(), KernelError> {
    check_rows("add_bias: x", x.len(), bias.len())?;
    for_rows(cpu, x, bias.len(), &|_, row| dispatch(cpu, Into { op: Add, x: row, y: bias }))
}

/// `x *= factor`.
///
/// # Errors
/// [`KernelError::JobPanicked`].
pub fn scale(cpu: &Cpu, x: &mut [f32], factor: f32) -> Result<(), KernelError> {
    map(cpu, MultiplyBy(factor), x)
}

/// Multiplies row `t` of `x` (rows of `width`) by `per_row[t]`.
///
/// # Errors
/// [`KernelError::Shape`]: the number of factors differs from the number of rows.
pub fn scale_rows(cpu: &Cpu, x: &mut [f32], per_row: &[f32], width: usize) -> Result<(), KernelError> {
    check_rows("scale_rows: x", x.len(), width)?;
    check_len("scale_rows: per_row", per_row.len(), x.len() / width)?;
    for_rows(cpu, x, width, &|index, row| dispatch(cpu, Unary { op: MultiplyBy(per_row[index]), x: row }))
}

/// `cap * tanh(x / cap)`, the soft cap of Gemma 2's scores and logits.
///
/// # Errors
/// [`KernelError::Shape`]: the cap is not positive.
pub fn softcap(cpu: &Cpu, cap: f32, x: &mut [f32]) -> Result<(), KernelError> {
    if cap.is_nan() || cap <= 0.0 {
        return Err(KernelError::shape("softcap", format!("a cap of {cap}; it must be positive")));
    }
    map(cpu, Softcap(cap), x)
}

/// `1 / (1 + exp(-x))`, in place.
///
/// # Errors
/// [`KernelError::JobPanicked`].
pub fn sigmoid(cpu: &Cpu, x: &mut [f32]) -> Result<(), KernelError> {
    map(cpu, activation::Sigmoid, x)
}

/// `x = op(x)`.
pub(crate) fn map<P: Pointwise>(cpu: &Cpu, op: P, x: &mut [f32]) -> Result<(), KernelError> {
    if x.len() < PARALLEL_ABOVE {
        dispatch(cpu, Unary { op, x });
        return Ok(());
    }
    cpu.pool().run_chunks(x, CHUNK, &|_, x| dispatch(cpu, Unary { op, x }))
}

/// `x = op(x, y)`; the caller checked that the lengths are equal.
pub(crate) fn combine_into<P: Pointwise>(
    cpu: &Cpu,
    op: P,
    x: &mut [f32],
    y: &[f32],
) -> Result<(), KernelError> {
    if x.len() < PARALLEL_ABOVE {
        dispatch(cpu, Into { op, x, y });
        return Ok(());
    }
    cpu.pool().run_chunks(x, CHUNK, &|index, x| {
        let y = &y[index * CHUNK..][..x.len()];
        dispatch(cpu, Into { op, x, y });
    })
}

/// `out = op(a, b)`; the caller checked that the lengths are equal.
pub(crate) fn combine<P: Pointwise>(
    cpu: &Cpu,
    op: P,
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    if out.len() < PARALLEL_ABOVE {
        dispatch(cpu, PointwiseOutput { op, a, b, out });
        return Ok(());
    }
    cpu.pool().run_chunks(out, CHUNK, &|index, out| {
        let (a, b) = (&a[index * CHUNK..][..out.len()], &b[index * CHUNK..][..out.len()]);
        dispatch(cpu, PointwiseOutput { op, a, b, out });
    })
}

/// Fails unless `len` is a whole number of rows of `width`.
pub(crate) fn check_rows(what: &'static str, len: usize, width: usize) -> Result<(), KernelError> {
    if width > 0 && len.is_multiple_of(width) {
        return Ok(());
    }
    Err(KernelError::shape(what, format!("{len} values are not rows of {width}")))
}

/// Calls `job(t, row t)` for every row of `width`, on several threads if there is enough work.
pub(crate) fn for_rows(
    cpu: &Cpu,
    x: &mut [f32],
    width: usize,
    job: &(dyn Fn(usize, &mut [f32]) + Sync),
) -> Result<(), KernelError> {
    let rows = |first: usize, part: &mut [f32]| {
        for (index, row) in part.chunks_exact_mut(width).enumerate() {
            job(first + index, row);
        }
    };
    if x.len() < PARALLEL_ABOVE {
        rows(0, x);
        return Ok(());
    }
    let rows_per_task = (CHUNK / width).max(1);
    cpu.pool().run_chunks(x, rows_per_task * width, &|index, part| rows(index * rows_per_task, part))
}

#[derive(Clone, Copy)]
struct Add;

impl Pointwise for Add {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

#[derive(Clone, Copy)]
struct Multiply;

impl Pointwise for Multiply {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.mul(a, b)
    }
}

#[derive(Clone, Copy)]
struct MultiplyBy(f32);

impl Pointwise for MultiplyBy {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        s.mul(a, s.splat(self.0))
    }
}

/// `cap * tanh(x / cap)`.
#[derive(Clone, Copy)]
pub(crate) struct Softcap(pub(crate) f32);

impl Pointwise for Softcap {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        s.mul(s.splat(self.0), tanh(s, s.div(a, s.splat(self.0))))
    }
}

struct Unary<'a, P> {
    op: P,
    x: &'a mut [f32],
}

impl<P: Pointwise> Kernel for Unary<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (vectors, rest) = self.x.as_chunks_mut::<LANES>();
        for vector in vectors {
            let value = s.load(vector);
            s.store(vector, self.op.apply(s, value, value));
        }
        if !rest.is_empty() {
            let value = load_part(s, rest);
            store_part(s, rest, self.op.apply(s, value, value));
        }
    }
}

struct Into<'a, P> {
    op: P,
    x: &'a mut [f32],
    y: &'a [f32],
}

impl<P: Pointwise> Kernel for Into<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (vectors, rest) = self.x.as_chunks_mut::<LANES>();
        let (seconds, second_rest) = self.y.as_chunks::<LANES>();
        for (vector, second) in vectors.iter_mut().zip(seconds) {
            let value = self.op.apply(s, s.load(vector), s.load(second));
            s.store(vector, value);
        }
        if !rest.is_empty() {
            let value = self.op.apply(s, load_part(s, rest), load_part(s, second_rest));
            store_part(s, rest, value);
        }
    }
}

/// `out = op(a, b)` on this thread; the lengths are equal.
pub(crate) struct PointwiseOutput<'a, P> {
    pub(crate) op: P,
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) out: &'a mut [f32],
}

impl<P: Pointwise> Kernel for PointwiseOutput<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (vectors, rest) = self.out.as_chunks_mut::<LANES>();
        let (firsts, first_rest) = self.a.as_chunks::<LANES>();
        let (seconds, second_rest) = self.b.as_chunks::<LANES>();
        for ((vector, first), second) in vectors.iter_mut().zip(firsts).zip(seconds) {
            s.store(vector, self.op.apply(s, s.load(first), s.load(second)));
        }
        if !rest.is_empty() {
            let value = self.op.apply(s, load_part(s, first_rest), load_part(s, second_rest));
            store_part(s, rest, value);
        }
    }
}

/// Fewer than sixteen elements, followed by zeros.
#[inline(always)]
pub(crate) fn load_part<S: Simd>(s: S, from: &[f32]) -> S::F {
    let mut full = [0.0; LANES];
    full[..from.len()].copy_from_slice(from);
    s.load(&full)
}

/// The first lanes, as many as fit (fewer than sixteen).
#[inline(always)]
pub(crate) fn store_part<S: Simd>(s: S, to: &mut [f32], value: S::F) {
    let lanes = s.lanes(value);
    to.copy_from_slice(&lanes[..to.len()]);
}
