//! [`SchedulerCounts`]: what a scheduler has done.

/// What a [`crate::Scheduler`] has done since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SchedulerCounts {
    /// Steps that computed something.
    pub steps: u64,
    /// Rows of all steps.
    pub rows: u64,
    /// Tokens that sequences started with because others had computed them.
    pub shared: u64,
    /// Preemptions: a sequence gave up its pages for a more urgent one.
    pub preemptions: u64,
    /// Tokens whose state was dropped in preemptions, to be computed again.
    pub preempted_tokens: u64,
    /// Preemptions in which the state was swapped out to host memory.
    pub set_aside: u64,
    /// Tokens whose state was swapped out.
    pub set_aside_tokens: u64,
    /// Faults of stages after which states were computed again.
    pub restores: u64,
    /// Sequences whose lost state was computed again.
    pub replays: u64,
    /// Tokens whose state was lost and computed again.
    pub replayed_tokens: u64,
    /// Cached sequences that were dropped for their pages or their place.
    pub evictions: u64,
    /// Guesses of next tokens that steps computed.
    pub drafted: u64,
    /// Those of them that became tokens of answers.
    pub accepted: u64,
}

impl SchedulerCounts {
    /// The difference to `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let Self {
            steps,
            rows,
            shared,
            preemptions,
            preempted_tokens,
            set_aside,
            set_aside_tokens,
            restores,
            replays,
            replayed_tokens,
            evictions,
            drafted,
            accepted,
        } = *self;
        Self {
            steps: steps - before.steps,
            rows: rows - before.rows,
            shared: shared - before.shared,
            preemptions: preemptions - before.preemptions,
            preempted_tokens: preempted_tokens - before.preempted_tokens,
            set_aside: set_aside - before.set_aside,
            set_aside_tokens: set_aside_tokens - before.set_aside_tokens,
            restores: restores - before.restores,
            replays: replays - before.replays,
            replayed_tokens: replayed_tokens - before.replayed_tokens,
            evictions: evictions - before.evictions,
            drafted: drafted - before.drafted,
            accepted: accepted - before.accepted,
        }
    }
}
