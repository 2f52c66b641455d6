//! Attention over the cache: streaming softmax, grouped key-value heads, windows, any number of sequences.
//!
//! Keys are processed in blocks of 64 and parts of 512 at absolute positions, so that a row's result depends on its own
//! keys only: not on threads, not on the other rows of the call, not on how a prompt is split, not on the instruction
//! set. The parts of a single row (decode) are computed in any order and merged in their own order.

mod biases;
mod cache;
mod decode;
mod online_softmax;
mod parts;
mod prefill;
mod products;
mod rows;
mod shape;
pub use biases::{AttentionBiases, alibi_slope};
pub use shape::AttentionSequence;

use crate::cpu::Cpu;
use crate::error::KernelError;
use crate::memory::Scratch;
use crate::pool::{Pool, SendPointer};
use crate::simd::{LANES, dispatch};
use biases::DistanceBias;
use cache::CacheRows;
use decode::Decode;
use menagerie_formulas::AttentionShape;
use parts::{Combine, Partials};
use prefill::Prefill;
use shape::CacheHeads;

/// Keys per block of the streaming softmax.
pub(crate) const BLOCK: usize = 64;
/// Rows (queries times heads of a group) that share a tile of keys and values.
const ROWS_PER_TASK: usize = 192;
/// Decode tasks per thread that suffice to distribute the work evenly.
const TASKS_PER_THREAD: usize = 4;
/// Bytes of a row of keys that one decode task reads at most.
const BYTES_TOGETHER: usize = 2048;
/// Multiplications below which a second thread does not pay.
const SERIAL_BELOW: usize = 160_000;
/// Floats of unfinished results below which a second thread does not pay to merge them.
const MERGED_SERIALLY_BELOW: usize = 1 << 15;

/// Scaled dot product attention (Vaswani et al. 2017) of every row of `q`, `[T, heads, key_dim]`, over its own
/// sequence's cache, into `out`, `[T, heads, value_dim]`. Rows that belong to no sequence are left alone.
///
/// # Errors
/// [`KernelError::Shape`]: lengths and shapes that do not fit, pages that are not held or lie outside the cache's
/// buffer. [`KernelError::JobPanicked`].
pub fn attention(
    cpu: &Cpu,
    shape: &AttentionShape,
    sequences: &[AttentionSequence],
    q: &[f32],
    biases: AttentionBiases,
    out: &mut [f32],
) -> Result<(), KernelError> {
    shape::check(CacheHeads::Own, shape, sequences, q, biases, out)?;
    run(cpu, &call_of(shape, sequences, q, biases, out))
}

/// Like [`attention`], over caches of one head that serves every key-value head of the shape. The cached head may be
/// longer than the part that is read: with latent attention the values are the first part of the keys. The number of
/// key-value heads that the query heads are grouped into changes no result, only how the work is divided.
///
/// # Errors
/// As [`attention`].
pub fn attention_to_one_head(
    cpu: &Cpu,
    shape: &AttentionShape,
    sequences: &[AttentionSequence],
    q: &[f32],
    biases: AttentionBiases,
    out: &mut [f32],
) -> Result<(), KernelError> {
    shape::check(CacheHeads::One, shape, sequences, q, biases, out)?;
    run(cpu, &call_of(shape, sequences, q, biases, out))
}

fn call_of<'a>(
    shape: &'a AttentionShape,
    sequences: &'a [AttentionSequence<'a>],
    q: &'a [f32],
    biases: AttentionBiases<'a>,
    out: &mut [f32],
) -> AttentionCall<'a> {
    let distance = DistanceBias::new(shape, biases);
    AttentionCall { shape, sequences, q, sinks: biases.sinks, distance, out: SendPointer(out.as_mut_ptr()) }
}

fn run(cpu: &Cpu, call: &AttentionCall) -> Result<(), KernelError> {
    let (tasks, partials) = call.plan(cpu.pool());
    let job = |index: usize, scratch: &mut Scratch| call.work(cpu, &tasks[index], &partials, scratch);
    if call.multiplications() < SERIAL_BELOW {
        cpu.pool().with_scratch(|scratch| (0..tasks.len()).for_each(|index| job(index, scratch)));
    } else {
        cpu.pool().run_with_scratch(tasks.len(), &job)?;
    }
    // Sixteen heads of a split row in each task.
    let strips = call.shape.heads.div_ceil(LANES);
    let merge = |index: usize| {
        let (sequence, first) = (index / strips, index % strips * LANES);
        let heads = first..(first + LANES).min(call.shape.heads);
        dispatch(cpu, Combine { call, sequence, heads, partials: &partials });
    };
    let merges = partials.sequences() * strips;
    if partials.floats() < MERGED_SERIALLY_BELOW {
        (0..merges).for_each(merge);
        return Ok(());
    }
    cpu.pool().run(merges, &merge)
}

/// The checked arguments of a call. Every task writes its own heads and rows of `out`.
pub(crate) struct AttentionCall<'a> {
    pub(crate) shape: &'a AttentionShape,
    pub(crate) sequences: &'a [AttentionSequence<'a>],
    pub(crate) q: &'a [f32],
    pub(crate) sinks: Option<&'a [f32]>,
    /// The bias that the distance of a key adds to its score.
    distance: Option<DistanceBias<'a>>,
    pub(crate) out: SendPointer<f32>,
}

/// The unit of work of one thread.
enum AttentionTask {
    /// The rows `first..first + count` of a sequence for one key-value head.
    Many { sequence: usize, kv_head: usize, first: usize, count: usize },
    /// The only row of a sequence, for some heads and the keys of one part.
    One { sequence: usize, heads: DecodeHeads, part: usize },
}

/// The heads of a decode task: all query heads of some key-value heads, or some query heads of one.
#[derive(Clone, Copy)]
struct DecodeHeads {
    /// The first key-value head, and how many.
    kv_head: usize,
    kv_heads: usize,
    /// The first query head of each, and how many.
    first: usize,
    group: usize,
}

impl AttentionCall<'_> {
    /// Keys and values of a sequence, as the shape sees them.
    fn rows<'a>(&self, sequence: &AttentionSequence<'a>) -> (CacheRows<'a>, CacheRows<'a>) {
        let AttentionShape { kv_heads, key_dim, value_dim, .. } = *self.shape;
        let total = sequence.total();
        let keys = CacheRows::new(sequence.keys, kv_heads, key_dim, total);
        (keys, CacheRows::new(sequence.values, kv_heads, value_dim, total))
    }

    /// Query heads per key-value head.
    pub(crate) fn group(&self) -> usize {
        self.shape.heads / self.shape.kv_heads
    }

    /// The tasks, longest first, and the memory for the parts of rows that are split.
    fn plan(&self, pool: &Pool) -> (Vec<AttentionTask>, Partials) {
        let kv_heads = self.shape.kv_heads;
        let heads = self.decode_heads(pool.threads());
        let (mut tasks, mut partials) = (Vec::new(), Partials::new(self.shape));
        let rows = (ROWS_PER_TASK / self.group()).max(1);
        for (sequence, given) in self.sequences.iter().enumerate() {
            if given.row_count == 1 {
                let parts = parts::parts(self.shape, given);
                partials.reserve(sequence, parts.clone());
                let of_part =
                    |part| heads.iter().map(move |&heads| AttentionTask::One { sequence, heads, part });
                tasks.extend(parts.flat_map(of_part));
                continue;
            }
            for block in (0..given.row_count.div_ceil(rows)).rev() {
                let first = block * rows;
                let count = rows.min(given.row_count - first);
                let heads = 0..kv_heads;
                tasks.extend(heads.map(|kv_head| AttentionTask::Many { sequence, kv_head, first, count }));
            }
        }
        partials.allocate(pool.buffers());
        tasks.sort_by_key(|task| std::cmp::Reverse(self.task_keys(task)));
        (tasks, partials)
    }

    /// How many keys the rows of a task see, about.
    fn task_keys(&self, task: &AttentionTask) -> usize {
        match *task {
            AttentionTask::Many { sequence, first, count, .. } => {
                let last = self.sequences[sequence].first_position + first + count - 1;
                count * self.shape.mask.visible(last, self.sequences[sequence].total()).len()
            }
            AttentionTask::One { sequence, part, heads } => {
                let seen = parts::keys(self.shape, &self.sequences[sequence], part);
                seen.len() * heads.kv_heads
            }
        }
    }

    /// The heads of the decode tasks of a part. With fewer parts and key-value heads than threads, the query heads of a
    /// key-value head are divided too. (No result depends on it.)
    fn decode_heads(&self, threads: usize) -> Vec<DecodeHeads> {
        let (kv_heads, group) = (self.shape.kv_heads, self.group());
        let single = self.sequences.iter().filter(|sequence| sequence.row_count == 1);
        let parts: usize = single.map(|sequence| parts::parts(self.shape, sequence).len()).sum();
        let together = self.heads_together(threads, parts);
        let share = group.div_ceil((threads / (parts * kv_heads).max(1)).clamp(1, group));
        let of = |kv_head: usize| {
            let kv_heads = together.min(kv_heads - kv_head);
            let firsts = (0..group).step_by(share);
            firsts.map(move |first| DecodeHeads { kv_head, kv_heads, first, group: share.min(group - first) })
        };
        (0..kv_heads).step_by(together).flat_map(of).collect()
    }

    /// How many key-value heads a decode task computes: all heads of a row if there are enough parts for all threads;
    /// fewer if not, or if rows are so long that the next block would not stay in the second-level cache. (No result
    /// depends on it.)
    fn heads_together(&self, threads: usize, parts: usize) -> usize {
        let single = self.sequences.iter().filter(|sequence| sequence.row_count == 1);
        // Heads that read the same rows read as much together as one of them alone.
        let apart = single.filter(|one| one.keys.heads == self.shape.kv_heads);
        let head_bytes = apart.map(|one| one.keys.row_bytes().unwrap_or(0) / self.shape.kv_heads).max();
        let by_threads = parts * self.shape.kv_heads / (TASKS_PER_THREAD * threads);
        by_threads.min(BYTES_TOGETHER / head_bytes.unwrap_or(1).max(1)).clamp(1, self.shape.kv_heads)
    }

    fn work(&self, cpu: &Cpu, task: &AttentionTask, partials: &Partials, scratch: &mut Scratch) {
        match *task {
            AttentionTask::Many { sequence, kv_head, first, count } => {
                dispatch(cpu, Prefill { call: self, sequence, kv_head, first, count, scratch });
            }
            AttentionTask::One { sequence, heads, part } => {
                dispatch(cpu, Decode { call: self, sequence, heads, part, partials, scratch });
            }
        }
    }

    /// An estimate of the work.
    fn multiplications(&self) -> usize {
        let keys = |sequence: &AttentionSequence| {
            let last = sequence.first_position + sequence.row_count.saturating_sub(1);
            sequence.row_count * self.shape.mask.visible(last, sequence.total()).len()
        };
        let pairs: usize = self.sequences.iter().map(keys).sum();
        pairs.saturating_mul(self.shape.heads * (self.shape.key_dim + self.shape.value_dim))
    }
}
