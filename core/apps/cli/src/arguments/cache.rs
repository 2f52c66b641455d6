//! `--cache DIR` of `run`, `chat`, `batch` and `serve`: states of prompts and answers on disk.

use crate::arguments::plugins::plugin_names;
use crate::failure::Failure;
use crate::output;
use crate::screen::report;
use clap::Args;
use menagerie::engine::{DiskCache, DiskCacheCounts, DiskCacheOptions, TextPipeline};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const DAY: u64 = 24 * 3600;

/// The cache of states on disk.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CacheArguments {
    /// Store the states of prompts and answers in a folder, and start with them when a prompt begins in the same way
    ///
    /// The answers are the same as without it. Several processes and models may share the folder, and `menagerie cache`
    /// lists and clears it
    #[arg(long, hide_short_help = true, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Maximum size of the folder of --cache in MiB; the files used least recently are removed [default: 8192]
    #[arg(long, hide_short_help = true, value_name = "MIB", requires = "cache")]
    cache_size: Option<u32>,
    /// Remove files of the folder of --cache that were not used for this number of days [default: 30]
    #[arg(long, hide_short_help = true, value_name = "DAYS", requires = "cache", value_parser = clap::value_parser!(u32).range(1..))]
    cache_days: Option<u32>,
}

/// The open cache of a command; empty without `--cache`.
#[derive(Clone, Default)]
pub(crate) struct OpenCache(Option<Arc<DiskCache>>);

impl CacheArguments {
    /// Refuses the cache for a model that generates no text.
    pub(crate) fn check_text<T>(&self, text: &Result<T, String>) -> Result<(), Failure> {
        match (&self.cache, text) {
            (Some(_), Err(reason)) => Err(Failure::Usage(format!("--cache: {reason}"))
                .with_help("the cache holds states of text; leave it out")),
            _ => Ok(()),
        }
    }

    /// Opens the cache for the sessions and queues of `pipeline`. Its hooks must be installed.
    pub(crate) fn install(
        &self,
        pipeline: &mut LoadedModel<TextPipeline>,
        installed: &Environment,
    ) -> Result<OpenCache, Failure> {
        let Some(folder) = &self.cache else { return Ok(OpenCache::default()) };
        let mut options = DiskCacheOptions::default();
        if let Some(mib) = self.cache_size {
            options = options.with_max_bytes(u64::from(mib) << 20);
        }
        if let Some(days) = self.cache_days {
            options = options.with_max_age(Duration::from_secs(u64::from(days) * DAY));
        }
        let cache = Arc::new(DiskCache::open(folder, options, pipeline, plugin_names(installed))?);
        pipeline.cache_on_disk(Some(Arc::clone(&cache)));
        Ok(OpenCache(Some(cache)))
    }
}

impl OpenCache {
    /// Prints a note about the first fault of the cache, if there was one since the last call.
    pub(crate) fn note_fault(&self) {
        if let Some(fault) = self.0.as_ref().and_then(|cache| cache.take_fault()) {
            report::note(&fault);
        }
    }

    /// Waits until everything is written, and returns what the cache did.
    pub(crate) fn finish(&self) -> Option<DiskCacheCounts> {
        let cache = self.0.as_ref()?;
        cache.flush();
        self.note_fault();
        Some(cache.counts())
    }

    /// What the cache did, for `--verbose`.
    pub(crate) fn line(counts: &DiskCacheCounts) -> String {
        let DiskCacheCounts { read_tokens, read_bytes, written_bytes, .. } = *counts;
        format!(
            "disk cache: {} read ({}), {} written",
            output::counted(read_tokens as usize, "token"),
            output::bytes(read_bytes),
            output::bytes(written_bytes)
        )
    }
}
