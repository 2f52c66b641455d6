//! [`EngineWorker`]: the thread of a model, seen from outside.

mod engine_loop;
mod job;
mod request_class;

pub(crate) use job::{AdmittedRequests, AnswerMessage, AnswersJob, CancelGuard, EngineJob, VectorsJob};

pub(crate) use request_class::RequestClass;

use crate::fault::ApiFault;
use engine_loop::EngineLoop;
use menagerie::engine::{GenerateError, Queue, VectorQueue};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// The size of the queue of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerLimits {
    /// The most requests that run together.
    pub(crate) parallel: usize,
    /// The most requests that wait beside them.
    pub(crate) queue: usize,
    /// The time of a step of vectors while answers are generated.
    pub(crate) step_time: Option<Duration>,
}

/// The thread of a model.
pub(crate) struct EngineWorker {
    jobs: Sender<EngineJob>,
    /// Why the thread ended, if it failed.
    failed: Arc<OnceLock<String>>,
    open: Arc<AtomicUsize>,
    /// Open lines of batches, which take no places of clients.
    lines: Arc<AtomicUsize>,
    limits: WorkerLimits,
}

/// Makes the queue of a model; it is called on the thread that will own it.
pub(crate) type MakeQueue = Box<dyn FnOnce() -> Result<Queue, GenerateError> + Send>;

/// The handle of a thread.
pub(crate) type WorkerThread = JoinHandle<()>;

impl EngineWorker {
    /// Starts the thread, and waits until it has its queue.
    pub(crate) fn start(
        name: &str,
        text: Option<MakeQueue>,
        vectors: Option<VectorQueue>,
        limits: WorkerLimits,
    ) -> Result<(Self, WorkerThread), String> {
        let (jobs, received) = channel();
        let (ready, is_ready) = channel();
        let failed = Arc::new(OnceLock::new());
        let reason = Arc::clone(&failed);
        let work = move || {
            let queue = match text.map(|make| make()).transpose() {
                Ok(queue) => queue,
                Err(error) => return drop(ready.send(Err(error.to_string()))),
            };
            drop(ready.send(Ok(())));
            let mut engine = EngineLoop::new(queue, vectors, limits.step_time);
            // The reason stands before the loop drops the channels of the open requests, which then report it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| engine.run(&received))) {
                let _ = reason.set(format!("the thread of the model panicked: {}", said(&*panic)));
            }
        };
        let thread = std::thread::Builder::new().name(format!("menagerie-{name}")).spawn(work);
        let thread = thread.map_err(|error| format!("cannot start the thread of the model: {error}"))?;
        is_ready.recv().unwrap_or_else(|_| Err("the thread of the model ended at its start".to_owned()))?;
        let worker = Self { jobs, failed, open: Arc::default(), lines: Arc::default(), limits };
        Ok((worker, thread))
    }

    /// Why the model cannot compute any more.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// The error of a request whose channel was closed without an end.
    pub(crate) fn closed(&self) -> ApiFault {
        ApiFault::of_panic(self.failure().unwrap_or("the thread of the model ended"))
    }

    /// Admits requests, if the queue has room for them.
    pub(crate) fn admit(&self, count: usize) -> Result<AdmittedRequests, ApiFault> {
        if self.failure().is_some() {
            return Err(self.closed());
        }
        let WorkerLimits { parallel, queue, .. } = self.limits;
        let most = parallel.saturating_add(queue);
        if count > most {
            let reason = format!(
                "{count} answers; the queue has room for {most} (--parallel {parallel}, --queue {queue})"
            );
            return Err(ApiFault::new(400, reason).with_param("n"));
        }
        AdmittedRequests::within(most, &self.open, count).map_err(|open| {
            let reason = format!("{open} requests are running or waiting, and the queue has room for {most}");
            let turns = open.div_ceil(parallel.max(1)) as u64;
            ApiFault::new(429, reason)
                .with_code("queue_full")
                .with_retry_after(Duration::from_secs(turns.min(30)))
        })
    }

    /// [`Self::admit`] for a request of this class. Lines of batches are bounded by those who read the batches.
    pub(crate) fn admit_in(&self, class: RequestClass, count: usize) -> Result<AdmittedRequests, ApiFault> {
        match class {
            RequestClass::Client => self.admit(count),
            RequestClass::BatchLine if self.failure().is_some() => Err(self.closed()),
            RequestClass::BatchLine => {
                AdmittedRequests::within(usize::MAX, &self.lines, count).map_err(|_| self.closed())
            }
        }
    }

    /// Sends a job to the thread.
    pub(crate) fn send(&self, job: EngineJob) -> Result<(), ApiFault> {
        self.jobs.send(job).map_err(|_| self.closed())
    }

    /// The most requests that run together.
    pub(crate) fn parallel(&self) -> usize {
        self.limits.parallel
    }

    /// Requests that have been admitted and have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// The message of a panic.
pub(crate) fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
