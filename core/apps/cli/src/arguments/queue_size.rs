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
        let engine = pipeline.engine();
        let parallel = self.parallel as usize;
        let step_tokens = self.step_tokens.map_or(engine.chunk, |tokens| tokens as usize);
        let free = engine.compute.backend.free_memory();
        let aside = match (self.aside_memory, free) {
            (Some(mib), _) => u64::from(mib) << 20,
            (None, free) => free.unwrap_or(0) / ASIDE_SHARE,
        };
        let options = |capacity_tokens| {
            SchedulerOptions::default()
                .with_sequences(parallel)
                .with_prefixes(parallel)
                .with_capacity_tokens(capacity_tokens)
                .with_step_tokens(step_tokens)
                .with_swap_bytes(usize::try_from(aside).unwrap_or(usize::MAX))
        };
        if let Some(tokens) = self.cache_tokens {
            return options(tokens as usize);
        }
        let mut capacity = engine.context.saturating_mul(parallel);
        let half = free.map(|free| free / 2);
        let bytes = |capacity| {
            let room = engine.pool_options(2 * parallel, capacity).with_step_tokens(step_tokens);
            room.with_sets(engine.model.state_sets()).memory(engine.model.states())
        };
        while capacity > engine.context
            && half.is_some_and(|half| bytes(capacity).is_ok_and(|bytes| bytes > half))
        {
            capacity = (capacity / 2).max(engine.context);
        }
        options(capacity)
    }
}
