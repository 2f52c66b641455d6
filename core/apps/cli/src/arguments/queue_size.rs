//! [`QueueArguments`]: how many requests run together, and their memory.

use clap::Args;
use menagerie::engine::{SchedulerOptions, TextPipeline};

/// The default share of free memory for swapped states.
const ASIDE_SHARE: u64 = 8;

/// The size of a queue.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueueArguments {
    /// Number of requests that are computed at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Queue")]
    pub(crate) parallel: u32,
    /// Maximum number of tokens per step for all requests together; smaller steps reduce the time to the next token
    /// [default: the value of --chunk]
    #[arg(long, hide_short_help = true, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Queue")]
    step_tokens: Option<u32>,
    /// Size of the KV cache for all requests together in tokens, in pages of 256. The last page of each running request and
    /// of each cached prefix may be partly empty, so memory for 2 x --parallel - 1 more pages is allocated. Requests that do
    /// not fit are preempted and recomputed later [default: one context per request, at most half of the free memory]
    #[arg(long, hide_short_help = true, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Queue")]
    cache_tokens: Option<u32>,
    /// Memory in MiB for the swapped state of preempted requests; state that does not fit is recomputed [default: an eighth
    /// of the free memory]
    #[arg(long, hide_short_help = true, value_name = "MIB", help_heading = "Queue")]
    aside_memory: Option<u32>,
}

impl QueueArguments {
    /// The sizes of the scheduler and its memory.
    pub(crate) fn scheduler(&self, pipeline: &TextPipeline) -> SchedulerOptions {
        let free = pipeline.engine().compute.backend.free_memory();
        let aside = match (self.aside_memory, free) {
            (Some(mib), _) => u64::from(mib) << 20,
            (None, free) => free.unwrap_or(0) / ASIDE_SHARE,
        };
        self.sized(pipeline, free.map(|free| free / 2))
            .with_swap_bytes(usize::try_from(aside).unwrap_or(usize::MAX))
    }

    /// [`Self::scheduler`], for one of several models: its states take at most `most` bytes, if it is not told otherwise,
    /// and swapped ones at most as much again.
    #[cfg(feature = "serve")]
    pub(crate) fn scheduler_within(&self, pipeline: &TextPipeline, most: Option<u64>) -> SchedulerOptions {
        let options = self.sized(pipeline, most);
        let aside = match (self.aside_memory, most) {
            (Some(mib), _) => u64::from(mib) << 20,
            (None, most) => {
                most.map_or(0, |most| most / ASIDE_SHARE).min(Self::state_bytes(pipeline, &options))
            }
        };
        options.with_swap_bytes(usize::try_from(aside).unwrap_or(usize::MAX))
    }

    /// Bytes of the states of a queue of this size, without the swapped ones.
    pub(crate) fn state_bytes(pipeline: &TextPipeline, options: &SchedulerOptions) -> u64 {
        let engine = pipeline.engine();
        let sequences = options.sequences + options.prefixes;
        let room =
            engine.pool_options(sequences, options.capacity_tokens).with_step_tokens(options.step_tokens);
        // The queue reports what is wrong with its size.
        room.with_sets(engine.model.state_sets()).memory(engine.model.states()).unwrap_or(0)
    }

    /// The sizes without memory for swapped states; the others take at most `most` bytes, if it is not told otherwise.
    fn sized(&self, pipeline: &TextPipeline, most: Option<u64>) -> SchedulerOptions {
        let engine = pipeline.engine();
        let parallel = self.parallel as usize;
        let step_tokens = self.step_tokens.map_or(engine.chunk, |tokens| tokens as usize);
        let options = |capacity_tokens| {
            SchedulerOptions::default()
                .with_sequences(parallel)
                .with_prefixes(parallel)
                .with_capacity_tokens(capacity_tokens)
                .with_step_tokens(step_tokens)
        };
        if let Some(tokens) = self.cache_tokens {
            return options(tokens as usize);
        }
        let mut capacity = engine.context.saturating_mul(parallel);
        let bytes = |capacity| Self::state_bytes(pipeline, &options(capacity));
        while capacity > engine.context && most.is_some_and(|most| bytes(capacity) > most) {
            capacity = (capacity / 2).max(engine.context);
        }
        options(capacity)
    }
}
