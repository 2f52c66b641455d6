//! The one thread pool: workers spin briefly, then yield, then sleep; a panic in a job is that call's error.
//!
//! A region is published through one atomic word, the *gate*: an epoch, an `OPEN` flag and the number of workers
//! inside. A worker enters by incrementing the number while the gate is open. The caller takes part, closes the gate
//! when no task is left, and waits only for the workers inside. It does not wait for a worker that has not entered
//! (asleep, preempted).

mod gate;
mod queue;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::error::KernelError;
use crate::memory::{Buffers, Scratch};
use gate::RegionGate;
use queue::CallerQueue;

/// The most threads a pool may have: the gate counts workers in 14 bits.
const MOST_THREADS: usize = 8192;

/// A job of a region: called once for every task number, with the scratch of the thread that took it.
type Job<'a> = dyn Fn(usize, &mut Scratch) + Sync + 'a;

thread_local! {
    /// Whether this thread is inside a region (of any pool): a nested region then runs inline.
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
}

/// A fixed number of threads that work on one region at a time, the caller of `run` among them.
pub struct Pool {
    shared: Arc<PoolState>,
    workers: Vec<JoinHandle<()>>,
    queue: CallerQueue,
    /// Scratch for work outside of a region.
    spare: Mutex<Vec<Scratch>>,
    buffers: Arc<Buffers>,
}

/// The default number of threads: what the standard library reports of the affinity mask and the quota of the control
/// group.
pub(crate) fn usable_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// Aligned to its own cache line (and its neighbor), so that counting tasks does not disturb the gate.
#[repr(align(128))]
struct Apart<T>(T);

struct PoolState {
    gate: RegionGate,
    next: Apart<AtomicUsize>,
    region: UnsafeCell<Region>,
    panic: Mutex<Option<String>>,
}

/// What workers read after they enter: the job, with its lifetime erased, and the number of tasks.
struct Region {
    job: Option<*const Job<'static>>,
    tasks: usize,
}

// SAFETY: `region` is written only by the caller that holds the queue while the gate is closed and no worker
// is inside, and read only by threads inside an open gate; the gate's acquire/release order makes the write
// visible. The job behind the pointer is `Sync`.
unsafe impl Sync for PoolState {}
// SAFETY: as above; nothing in it belongs to one thread.
unsafe impl Send for PoolState {}

impl Pool {
    /// A pool of `threads` threads. One of them is the caller of `run`; the other `threads - 1` are started and named
    /// `menagerie-1` and so on.
    ///
    /// # Errors
    /// [`KernelError::Threads`]: zero threads, more than 8192, or a thread that the system refuses.
    pub fn new(threads: usize) -> Result<Pool, KernelError> {
        if threads == 0 || threads > MOST_THREADS {
            return Err(KernelError::Threads(format!(
                "{threads} threads asked for; give 1 to {MOST_THREADS}"
            )));
        }
        let shared = Arc::new(PoolState {
            gate: RegionGate::new(threads <= usable_threads()),
            next: Apart(AtomicUsize::new(0)),
            region: UnsafeCell::new(Region { job: None, tasks: 0 }),
            panic: Mutex::new(None),
        });
        let (spare, buffers) = (Mutex::default(), Arc::default());
        let mut pool = Pool { shared, workers: Vec::new(), queue: CallerQueue::new(), spare, buffers };
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new().name(format!("menagerie-{index}"));
            let handle = worker.spawn(move || shared.serve()).map_err(|error| {
                KernelError::Threads(format!("thread {index} of {threads} did not start: {error}"))
            })?;
            pool.workers.push(handle);
        }
        Ok(pool)
    }

    /// How many threads work on a region, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `job(i)` once for every `i` in `0..tasks`. All threads take tasks dynamically in ascending order; returns
    /// when all are done. Called from inside a job it runs inline; concurrent callers queue.
    ///
    /// # Errors
    /// [`KernelError::JobPanicked`]: tasks that had not begun were skipped; the pool stays usable.
    pub fn run(&self, tasks: usize, job: &(dyn Fn(usize) + Sync)) -> Result<(), KernelError> {
        self.run_with_scratch(tasks, &|task, _| job(task))
    }

    /// Like `run`; each call gets the scratch of its thread.
    pub(crate) fn run_with_scratch(&self, tasks: usize, job: &Job) -> Result<(), KernelError> {
        // A single task is not a region: regions that it opens may use all threads.
        if tasks <= 1 || IN_REGION.get() {
            return self.with_scratch(|scratch| run_inline(tasks, job, scratch));
        }
        let mut turn = self.queue.enter();
        if self.workers.is_empty() {
            IN_REGION.set(true);
            let outcome = run_inline(tasks, job, &mut turn);
            IN_REGION.set(false);
            return outcome;
        }
        self.shared.run_region(tasks, job, &mut turn)
    }

    /// Calls `work` on this thread with a scratch of its own.
    pub(crate) fn with_scratch<R>(&self, work: impl FnOnce(&mut Scratch) -> R) -> R {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = spare().pop().unwrap_or_default();
        let result = work(&mut scratch);
        spare().push(scratch);
        result
    }

    /// Large buffers that are reused.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// Divides `data` into pieces of `chunk` elements (the last may be shorter) and calls `job(i, piece)` for each,
    /// like `run`.
    ///
    /// # Errors
    /// [`KernelError::Shape`]: `chunk` is zero. [`KernelError::JobPanicked`].
    pub fn run_chunks<T: Send>(
        &self,
        data: &mut [T],
        chunk: usize,
        job: &(dyn Fn(usize, &mut [T]) + Sync),
    ) -> Result<(), KernelError> {
        if chunk == 0 {
            return Err(KernelError::shape("run_chunks", "a chunk of 0 elements"));
        }
        let length = data.len();
        let start = SendPointer(data.as_mut_ptr());
        self.run(length.div_ceil(chunk), &|index| {
            let begin = index * chunk;
            let size = chunk.min(length - begin);
            // SAFETY: every index is handed out once and is below ceil(length / chunk), so the pieces lie
            // inside `data`, which is mutably borrowed for the whole call, and do not overlap.
            let piece = unsafe { std::slice::from_raw_parts_mut(start.at(begin), size) };
            job(index, piece);
        })
    }
}

/// A pointer that jobs on several threads may use for disjoint pieces.
pub(crate) struct SendPointer<T>(pub(crate) *mut T);

// SAFETY: only moves `&mut [T]`-like access between threads, which `T: Send` allows; users keep pieces disjoint.
unsafe impl<T: Send> Sync for SendPointer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SendPointer<T> {}

impl<T> SendPointer<T> {
    /// The pointer to element `index`; in bounds by the caller's arithmetic.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.gate.shut();
        for worker in self.workers.drain(..) {
            // A worker ends only when the gate is shut; panics of its jobs were caught, so join cannot fail.
            let _ = worker.join();
        }
    }
}

impl PoolState {
    /// A worker's life.
    fn serve(&self) {
        IN_REGION.set(true);
        let mut scratch = Scratch::default();
        let mut seen = 0;
        while let Some(epoch) = self.gate.enter(seen) {
            seen = epoch;
            self.work(&mut scratch);
            self.gate.leave();
        }
    }

    /// Publishes the region, takes part and waits for the workers inside. The caller holds the queue.
    fn run_region(&self, tasks: usize, job: &Job, scratch: &mut Scratch) -> Result<(), KernelError> {
        // SAFETY: only the lifetime changes. The pointer is used by threads inside the gate, and this function
        // does not return (nor unwind: `work` catches) before the gate is closed and all workers have left.
        let erased = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) };
        // SAFETY: the caller holds the queue and the gate is closed and no worker is inside, so no thread reads it.
        unsafe { *self.region.get() = Region { job: Some(erased), tasks } };
        self.next.0.store(0, Ordering::Relaxed);
        self.gate.open(tasks - 1);
        IN_REGION.set(true);
        self.work(scratch);
        IN_REGION.set(false);
        self.gate.close();
        match self.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => Ok(()),
            Some(message) => Err(KernelError::JobPanicked(message)),
        }
    }

    /// Takes tasks until none is left. Called inside the gate, or by the caller while it holds it open.
    fn work(&self, scratch: &mut Scratch) {
        // SAFETY: no thread writes the region while a worker is inside the gate (see `Sync for PoolState`).
        let (job, tasks) = unsafe { ((*self.region.get()).job, (*self.region.get()).tasks) };
        let Some(job) = job else { return };
        // SAFETY: the job outlives the region: its owner waits in `run_region` for all workers inside the gate.
        let job: &Job<'static> = unsafe { &*job };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let task = self.next.0.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return;
                }
                job(task, scratch);
            }
        }));
        if let Err(payload) = outcome {
            self.next.0.store(tasks, Ordering::Relaxed);
            let message = panic_message(payload);
            let mut panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            panic.get_or_insert(message);
        }
    }
}

/// Runs the region on this thread alone; a panic is an error as in a region on several threads.
fn run_inline(tasks: usize, job: &Job, scratch: &mut Scratch) -> Result<(), KernelError> {
    let outcome = catch_unwind(AssertUnwindSafe(|| (0..tasks).for_each(|task| job(task, scratch))));
    outcome.map_err(|payload| KernelError::JobPanicked(panic_message(payload)))
}

/// The text of a panic, if it is text. This function never panics: a payload of another kind is leaked, because
/// dropping it could run anything, and unwinding out of a region would leave workers with a job that no longer exists.
fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<&'static str>() {
        Ok(text) => return (*text).to_owned(),
        Err(payload) => payload,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            std::mem::forget(payload);
            "a panic without a message".to_owned()
        }
    }
}
