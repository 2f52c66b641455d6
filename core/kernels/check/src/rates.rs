//! The limits of this machine, measured with the same pool: speeds are compared with them.

use std::hint::black_box;
use std::time::{Duration, Instant};

#[cfg(any(test, target_arch = "x86_64"))]
use menagerie_kernels::Isa;
use menagerie_kernels::{ActivationCache, Activations, Arithmetic, Cpu, KernelError, Matrix, matmul};

use crate::weights::activations;

/// The bytes one task of `read_rate` reads.
const READ_TASK: usize = 1 << 20;
/// The least time of one run of `product_rate`.
const RUN: Duration = Duration::from_millis(20);
/// How many runs `product_rate` makes.
const RUNS: usize = 9;
/// How long each thread multiplies in `int8_rate`.
const SPIN: Duration = Duration::from_millis(40);

/// Reads all of `bytes` once with all threads and returns bytes per second: the limit of one-row products on weights in
/// main memory. Pass the mapped weights themselves; a second call measures without page faults.
///
/// # Errors
/// [`KernelError::JobPanicked`].
pub fn read_rate(cpu: &Cpu, bytes: &[u8]) -> Result<f64, KernelError> {
    let kernel: unsafe fn(&[u8]) -> u64 = match cpu.isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => read_avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => read_avx2,
        _ => read_portable,
    };
    let clock = Clock::start(cpu);
    cpu.pool().run(bytes.len().div_ceil(READ_TASK), &|task| {
        let end = ((task + 1) * READ_TASK).min(bytes.len());
        // SAFETY: the kernel was chosen for the instruction set of `cpu`, which is available.
        black_box(unsafe { kernel(&bytes[task * READ_TASK..end]) });
    })?;
    Ok(bytes.len() as f64 / clock.seconds().max(1e-9))
}

fn read_portable(bytes: &[u8]) -> u64 {
    read(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn read_avx2(bytes: &[u8]) -> u64 {
    read(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn read_avx512(bytes: &[u8]) -> u64 {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_si512(); 4];
    for part in bytes.chunks_exact(256) {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `part` has 256 bytes.
            *sum = _mm512_xor_si512(*sum, unsafe { _mm512_loadu_si512(part.as_ptr().add(64 * i).cast()) });
        }
    }
    let sum = _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
    _mm512_reduce_or_epi64(sum) as u64
}

#[inline(always)]
fn read(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 16];
    for part in bytes.as_chunks::<128>().0 {
        for (sum, v) in sums.iter_mut().zip(part.as_chunks::<8>().0) {
            *sum ^= u64::from_le_bytes(*v);
        }
    }
    sums.into_iter().fold(0, |a, b| a ^ b)
}

/// Multiplies 8-bit numbers in registers with all threads for some 40 ms and returns multiplications (with their
/// additions) per second: the limit of many-row products.
///
/// # Errors
/// [`KernelError::JobPanicked`].
pub fn int8_rate(cpu: &Cpu) -> Result<f64, KernelError> {
    let kernel: unsafe fn(usize) -> usize = match cpu.isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => spin_avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => spin_avx2,
        _ => spin_portable,
    };
    let threads = cpu.pool().threads();
    let rates: Vec<std::sync::atomic::AtomicU64> = (0..threads).map(|_| 0.into()).collect();
    cpu.pool().run(threads, &|thread| {
        let (clock, mut work) = (Clock::of_thread(), 0);
        while clock.began.elapsed() < SPIN {
            // SAFETY: the kernel was chosen for the instruction set of `cpu`, which is available.
            work += unsafe { kernel(black_box(10_000)) };
        }
        let rate = work as f64 / clock.seconds();
        rates[thread].store(rate.to_bits(), std::sync::atomic::Ordering::Relaxed);
    })?;
    Ok(rates.into_iter().map(|rate| f64::from_bits(rate.into_inner())).sum())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn spin_avx512(rounds: usize) -> usize {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_si512(); 16];
    let (a, b) = (_mm512_set1_epi8(black_box(3)), _mm512_set1_epi8(black_box(5)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    black_box(sums);
    rounds * 16 * 64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn spin_avx2(rounds: usize) -> usize {
    use std::arch::x86_64::*;
    let mut sums = [_mm256_setzero_si256(); 8];
    let b: [__m256i; 8] = std::array::from_fn(|i| _mm256_set1_epi8(black_box(i as i8)));
    let mut a = _mm256_set1_epi8(black_box(3));
    for _ in 0..rounds {
        // The changing factor keeps the products in the loop.
        a = _mm256_add_epi8(a, b[1]);
        for (sum, b) in sums.iter_mut().zip(b) {
            *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(a, b));
        }
    }
    black_box(sums);
    rounds * 8 * 32
}

fn spin_portable(rounds: usize) -> usize {
    let (mut sums, a, b) = ([0i32; 64], black_box([3i8; 64]), black_box([5i8; 64]));
    for round in 0..rounds {
        for i in 0..64 {
            sums[i] = sums[i].wrapping_add((i32::from(a[i]) * i32::from(b[i])) ^ round as i32);
        }
    }
    black_box(sums);
    rounds * 64
}

/// The time of a product with each of these numbers of rows of activations, relative to the first, their rounding
/// included: the median of nine rounds in each of which all take turns, so that other processes slow down all of them.
///
/// # Errors
/// As [`matmul`].
pub fn row_costs(
    cpu: &Cpu,
    arithmetic: Arithmetic,
    w: &Matrix,
    rows: &[usize],
) -> Result<Vec<f64>, KernelError> {
    let most = rows.iter().copied().max().unwrap_or(0);
    let (values, mut y) = (activations(most * w.cols()), vec![0f32; most * w.rows()]);
    let mut ratios = vec![Vec::new(); rows.len()];
    for round in 0..=RUNS {
        let mut first = None;
        for (&rows, ratios) in rows.iter().zip(&mut ratios) {
            let (clock, mut count) = (Clock::start(cpu), 0u32);
            while count == 0 || clock.began.elapsed() < RUN {
                let cache = ActivationCache::default();
                let x =
                    Activations { values: &values[..rows * w.cols()], rows, cols: w.cols(), cache: &cache };
                matmul(cpu, arithmetic, w, &x, &mut y[..rows * w.rows()])?;
                count += 1;
            }
            let seconds = (clock.seconds() / f64::from(count)).max(1e-12);
            // The first round is not counted: pages and caches are cold.
            if round > 0 {
                ratios.push(seconds / *first.get_or_insert(seconds));
            } else {
                first.get_or_insert(seconds);
            }
        }
    }
    let median = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    };
    Ok(ratios.into_iter().map(median).collect())
}

/// How fast one product runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductRate {
    /// Bytes of weights per second: the measure for one row of activations.
    pub bytes_per_second: f64,
    /// Multiplications, with their additions, per second: the measure for many rows.
    pub products_per_second: f64,
}

/// Measures `matmul` of `w` with `tokens` rows of activations, including their rounding: the best of nine runs of at
/// least 20 ms each, because other processes can only slow it down. Compare one row with `read_rate` of the same bytes,
/// many rows with `int8_rate`; weights that fit in a cache are read from there. With a pool of one thread only the time
/// that the thread was running counts.
///
/// # Errors
/// As [`matmul`].
pub fn product_rate(
    cpu: &Cpu,
    arithmetic: Arithmetic,
    w: &Matrix,
    tokens: usize,
) -> Result<ProductRate, KernelError> {
    let values = activations(tokens * w.cols());
    let mut y = vec![0f32; tokens * w.rows()];
    let mut once = || {
        let cache = ActivationCache::default();
        let x = Activations { values: &values, rows: tokens, cols: w.cols(), cache: &cache };
        matmul(cpu, arithmetic, w, &x, &mut y)
    };
    once()?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let (clock, mut rounds) = (Clock::start(cpu), 0u32);
        while clock.began.elapsed() < RUN {
            once()?;
            rounds += 1;
        }
        best = best.min(clock.seconds() / f64::from(rounds.max(1)));
    }
    let second = best.max(1e-12);
    let products = w.rows() as f64 * w.cols() as f64 * tokens as f64;
    Ok(ProductRate {
        bytes_per_second: w.bytes().len() as f64 / second,
        products_per_second: products / second,
    })
}

/// A stopwatch: of a thread's own time, which other work on the machine does not affect, or of elapsed time.
struct Clock {
    began: Instant,
    running: Option<f64>,
}

impl Clock {
    /// Measures the calling thread if it is the whole pool, else elapsed time.
    fn start(cpu: &Cpu) -> Clock {
        match cpu.pool().threads() {
            1 => Clock::of_thread(),
            _ => Clock { began: Instant::now(), running: None },
        }
    }

    fn of_thread() -> Clock {
        Clock { began: Instant::now(), running: running() }
    }

    fn seconds(&self) -> f64 {
        let own = self.running.zip(running()).map(|(then, now)| now - then);
        own.unwrap_or_else(|| self.began.elapsed().as_secs_f64())
    }
}

/// Seconds that this thread has been running, if the system reports them.
#[cfg(unix)]
fn running() -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in a `timespec` of its own.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    (result == 0).then_some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

#[cfg(not(unix))]
fn running() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::RandomWeights;
    use menagerie_kernels::BlockType;

    #[test]
    fn rates_are_positive_numbers() {
        for isa in Isa::available() {
            let cpu = Cpu::with_isa(Some(2), isa).unwrap();
            let read = read_rate(&cpu, &vec![1; 3 << 20]).unwrap();
            let multiply = int8_rate(&cpu).unwrap();
            assert!(read > 1e6 && read.is_finite() && multiply > 1e6 && multiply.is_finite());
        }
        assert!(read_rate(&Cpu::with_isa(Some(1), Isa::Portable).unwrap(), &[]).unwrap() == 0.0);
    }

    #[test]
    fn a_product_is_measured() {
        let weights = RandomWeights::new(BlockType::Q8_0, 64, 32).unwrap();
        for threads in [1, 2] {
            let cpu = Cpu::new(Some(threads)).unwrap();
            let costs = row_costs(&cpu, Arithmetic::Fast, &weights.matrix().unwrap(), &[1, 64]).unwrap();
            assert!(costs[0] == 1.0 && costs[1] > 1.0, "{costs:?}");
            let rate = product_rate(&cpu, Arithmetic::Fast, &weights.matrix().unwrap(), 3).unwrap();
            assert!(rate.bytes_per_second > 1e3 && rate.products_per_second > 1e3);
        }
    }
}
