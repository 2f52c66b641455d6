//! [`SchedulerCounts`]: what a scheduler did.

/// What a [`crate::Scheduler`] did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SchedulerCounts {
    /// Steps that computed something.
    pub steps: u64,
    /// Rows of all steps.
    pub rows: u64,
    /// Tokens that sequences began with because others had computed them.
    pub shared: u64,
    /// Times a sequence gave its state up for more urgent ones.
    pub preemptions: u64,
    /// Tokens whose state was given up so, to be computed again.
    pub preempted_tokens: u64,
    /// Of the times, those in which the state was kept in memory, to be put back.
    pub set_aside: u64,
    /// Tokens whose state was kept so.
    pub set_aside_tokens: u64,
    /// Sequences kept for others that were given up for their pages or their place.
    pub evictions: u64,
}

impl SchedulerCounts {
    /// What was done since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let Self {
            steps,
            rows,
            shared,
            preemptions,
            preempted_tokens,
            set_aside,
            set_aside_tokens,
            evictions,
        } = *self;
        Self {
            steps: steps - before.steps,
            rows: rows - before.rows,
            shared: shared - before.shared,
            preemptions: preemptions - before.preemptions,
            preempted_tokens: preempted_tokens - before.preempted_tokens,
            set_aside: set_aside - before.set_aside,
            set_aside_tokens: set_aside_tokens - before.set_aside_tokens,
            evictions: evictions - before.evictions,
        }
    }
}
