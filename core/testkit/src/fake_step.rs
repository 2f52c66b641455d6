//! [`FakeStep`]: a step of a [`crate::FakeModel`] that overlaps steps.

use menagerie_model::{
    ModelError, Result, Rows, SequenceFailure, SequenceId, StepEnding, StepInFlight, TransformContext,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sequences of the steps in flight, the oldest step first, and the most steps that were in flight at once.
#[derive(Debug, Default)]
pub(crate) struct FakeFlights {
    steps: Vec<(u64, Vec<SequenceId>)>,
    begun: u64,
    pub(crate) most: usize,
}

/// A step that is computed when it begins, and whose result is hidden until it ends.
pub(crate) struct FakeStep {
    number: u64,
    result: Result<Rows>,
    failures: Vec<SequenceFailure>,
    flights: Arc<Mutex<FakeFlights>>,
}

pub(crate) fn lock(flights: &Mutex<FakeFlights>) -> MutexGuard<'_, FakeFlights> {
    flights.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeStep {
    /// Computes a step with `execute`.
    ///
    /// # Panics
    /// One of its sequences is in flight.
    pub(crate) fn begin(
        flights: &Arc<Mutex<FakeFlights>>,
        context: &mut TransformContext,
        execute: impl FnOnce(&mut TransformContext) -> Result<Rows>,
    ) -> Self {
        let (layout, mut failures) = (context.layout, Vec::new());
        let own: Vec<SequenceId> = layout.sequences().iter().map(|part| part.sequence).collect();
        let number = {
            let mut known = lock(flights);
            for (_, others) in &known.steps {
                assert!(own.iter().all(|one| !others.contains(one)), "a sequence is in two steps");
            }
            known.begun += 1;
            let number = known.begun;
            known.steps.push((number, own));
            known.most = known.most.max(known.steps.len());
            number
        };
        let mut pass = context.pass(layout);
        pass.failures = Some(&mut failures);
        let result = execute(&mut pass);
        Self { number, result, failures, flights: Arc::clone(flights) }
    }
}

impl StepInFlight for FakeStep {
    fn finish(mut self: Box<Self>, ending: &mut StepEnding) -> Result<Rows> {
        let oldest = lock(&self.flights).steps.first().map(|(number, _)| *number);
        assert_eq!(oldest, Some(self.number), "steps end in the order in which they began");
        ending.failures.append(&mut self.failures);
        if ending.cancelled.is_requested() {
            return Err(ModelError::Cancelled);
        }
        std::mem::replace(&mut self.result, Err(ModelError::Cancelled))
    }
}

impl Drop for FakeStep {
    fn drop(&mut self) {
        lock(&self.flights).steps.retain(|(number, _)| *number != self.number);
    }
}
