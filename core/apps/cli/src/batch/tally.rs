//! [`BatchTally`]: counts of a batch run, as text and as JSON.

use crate::arguments::cache::OpenCache;
use crate::output;
use menagerie::engine::{DiskCacheCounts, SchedulerCounts};
use serde_json::{Value, json};
use std::time::Instant;

/// Counts of a run.
pub(crate) struct BatchTally {
    answered: usize,
    failed: usize,
    tokens: usize,
    started: Instant,
}

/// What the scheduler and the cache on disk did, if there are any.
pub(crate) struct BatchCounts {
    pub(crate) scheduler: Option<SchedulerCounts>,
    pub(crate) disk_cache: Option<DiskCacheCounts>,
}

impl BatchTally {
    /// Starts to count.
    pub(crate) fn begin() -> Self {
        Self { answered: 0, failed: 0, tokens: 0, started: Instant::now() }
    }

    /// Counts a result.
    pub(crate) fn line_done(&mut self, good: bool) {
        self.answered += usize::from(good);
        self.failed += usize::from(!good);
    }

    /// Counts a generated token.
    pub(crate) fn token(&mut self) {
        self.tokens += 1;
    }

    /// Lines that have a result.
    pub(crate) fn lines(&self) -> usize {
        self.answered + self.failed
    }

    /// The text of the progress bar.
    pub(crate) fn message(&self) -> String {
        format!("{} tokens, {:.0}/s", self.tokens, self.rate())
    }

    /// The summary as one line of text.
    pub(crate) fn line(&self, counts: &BatchCounts) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        let answers = output::counted(self.answered, "answer");
        let Some(scheduler) = &counts.scheduler else { return format!("{answers} in {seconds:.1} s") };
        let disk = counts.disk_cache.as_ref();
        let disk = disk.map_or_else(String::new, |disk| format!("; {}", OpenCache::line(disk)));
        format!(
            "{answers} in {seconds:.1} s: {} generated ({:.1}/s), {} from shared prefixes; after preemption {} restored and {} \
             recomputed{disk}",
            output::counted(self.tokens, "token"),
            self.rate(),
            output::counted(scheduler.shared as usize, "token"),
            scheduler.set_aside_tokens,
            scheduler.preempted_tokens,
        )
    }

    /// The summary as JSON; `[answered, failed]` are the lines of the whole file.
    pub(crate) fn json(&self, [answered, failed]: [usize; 2], counts: &BatchCounts) -> Value {
        json!({
            "results": { "answered": answered, "failed": failed },
            "answered": self.answered, "failed": self.failed, "generated_tokens": self.tokens,
            "seconds": self.started.elapsed().as_secs_f64(), "tokens_per_second": self.rate(), "scheduler": counts.scheduler,
            "disk_cache": counts.disk_cache,
        })
    }

    fn rate(&self) -> f64 {
        self.tokens as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }
}
