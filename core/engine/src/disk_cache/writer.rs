//! [`BlockWriter`]: a thread that writes blocks, so that no step waits for the disk.

use super::address::BlockAddress;
use super::block_file::{BlockFile, BlockKind};
use super::counts::CacheTally;
use super::folder::{CacheFolder, CacheGroup, touch};
use super::options::DiskCacheOptions;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The most bytes that wait to be written. If the disk is slower than the model, later blocks are skipped.
const MOST_WAITING: usize = 512 << 20;

/// After this share of the limit was written here, the folder is measured again, because other processes write, too.
const MEASURED_SHARE: u64 = 16;

/// A block to be written.
pub(crate) struct PendingBlock {
    pub(crate) kind: BlockKind,
    pub(crate) address: BlockAddress,
    pub(crate) depth: usize,
    /// The folder of the file.
    pub(crate) group: String,
    pub(crate) tokens: Vec<u32>,
    pub(crate) content: Vec<u8>,
}

/// Work of the thread.
enum CacheJob {
    Describe(String, CacheGroup),
    Write(PendingBlock),
    Touch(Vec<PathBuf>),
    /// Answers when everything before it is done.
    Flush(Sender<()>),
}

/// The thread, until it is dropped: then everything that waits is written.
#[derive(Debug)]
pub(super) struct BlockWriter {
    jobs: Mutex<Option<Sender<CacheJob>>>,
    /// Bytes that wait.
    waiting: Arc<AtomicUsize>,
    tally: Arc<CacheTally>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl BlockWriter {
    /// Starts the thread, which first applies the limits.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(super) fn start(
        folder: CacheFolder,
        options: DiskCacheOptions,
        tally: Arc<CacheTally>,
    ) -> io::Result<Self> {
        let (jobs, received) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut work = CacheWork {
            folder,
            options,
            tally: Arc::clone(&tally),
            waiting: Arc::clone(&waiting),
            used: 0,
            fresh: 0,
        };
        let run = move || work.run(&received);
        let thread = std::thread::Builder::new().name("menagerie-cache".to_owned()).spawn(run)?;
        let (jobs, thread) = (Mutex::new(Some(jobs)), Mutex::new(Some(thread)));
        Ok(Self { jobs, waiting, tally, thread })
    }

    /// Writes a block soon. `false` if too many wait.
    pub(super) fn write(&self, block: PendingBlock) -> bool {
        let bytes = block.content.len();
        if self.waiting.load(Ordering::Relaxed).saturating_add(bytes) > MOST_WAITING {
            CacheTally::add(&self.tally.skipped, 1);
            return false;
        }
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.send(CacheJob::Write(block))
    }

    /// Writes what a group is of.
    pub(super) fn describe(&self, group: String, about: CacheGroup) {
        self.send(CacheJob::Describe(group, about));
    }

    /// Marks files as used.
    pub(super) fn touch(&self, paths: Vec<PathBuf>) {
        if !paths.is_empty() {
            self.send(CacheJob::Touch(paths));
        }
    }

    /// Waits until everything is written.
    pub(super) fn flush(&self) {
        let (done, wait) = channel();
        if self.send(CacheJob::Flush(done)) && wait.recv().is_err() {
            self.tally.fault(|| "the disk cache's writer ended early".to_owned());
        }
    }

    fn send(&self, job: CacheJob) -> bool {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            self.tally.fault(|| "the disk cache's writer has ended; nothing more is written".to_owned());
        }
        sent
    }
}

impl Drop for BlockWriter {
    /// Waits until everything is written.
    fn drop(&mut self) {
        drop(self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            self.tally.fault(|| "the disk cache's writer panicked".to_owned());
        }
    }
}

/// The thread's side.
struct CacheWork {
    folder: CacheFolder,
    options: DiskCacheOptions,
    tally: Arc<CacheTally>,
    waiting: Arc<AtomicUsize>,
    /// Bytes in the folder when it was measured.
    used: u64,
    /// Bytes written since.
    fresh: u64,
}

impl CacheWork {
    fn run(&mut self, jobs: &Receiver<CacheJob>) {
        self.guarded(Self::evict);
        for job in jobs {
            self.guarded(|work| work.act(job));
        }
    }

    /// Runs a part of the work; a panic is a fault and does not end the thread.
    fn guarded(&mut self, part: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| part(self))).is_err() {
            self.tally.fault(|| "the disk cache's writer panicked while it wrote".to_owned());
        }
    }

    fn act(&mut self, job: CacheJob) {
        match job {
            CacheJob::Describe(group, about) => {
                let written = self.folder.describe(&group, &about);
                self.written(written);
            }
            CacheJob::Write(block) => {
                self.waiting.fetch_sub(block.content.len(), Ordering::Relaxed);
                let PendingBlock { kind, address, depth, group, tokens, content } = block;
                let file = BlockFile { kind, address, depth, tokens: &tokens };
                let written =
                    self.folder.put(&group, &file.name(), &|mut out| file.write(&mut out, &content));
                self.written(written);
            }
            CacheJob::Touch(paths) => paths.iter().for_each(|path| touch(path)),
            // Who waits may have given up.
            CacheJob::Flush(done) => drop(done.send(())),
        }
    }

    fn written(&mut self, written: io::Result<u64>) {
        match written {
            Ok(bytes) => {
                CacheTally::add(&self.tally.written_bytes, bytes);
                self.fresh += bytes;
                let most = self.options.max_bytes;
                if self.used.saturating_add(self.fresh) > most || self.fresh > most / MEASURED_SHARE {
                    self.evict();
                }
            }
            Err(error) => self.failed("write", &error),
        }
    }

    /// Applies the limits.
    fn evict(&mut self) {
        match self.folder.evict(self.options.max_bytes, self.options.max_age) {
            Ok(Some((used, removed))) => {
                (self.used, self.fresh) = (used, 0);
                CacheTally::add(&self.tally.evicted, removed);
            }
            // Another process does it: this one measures again later.
            Ok(None) => (self.used, self.fresh) = (0, 0),
            Err(error) => {
                (self.used, self.fresh) = (0, 0);
                self.failed("clean", &error);
            }
        }
    }

    fn failed(&self, action: &str, error: &io::Error) {
        let folder = self.folder.path().display();
        self.tally.fault(|| {
            format!("{folder}: cannot {action} the disk cache: {error}; the answer is not affected, and what is missing is computed again")
        });
    }
}
