//! Restoring a chain after a stage was lost: links to another pipeline, with the same identity.

use super::head::ChainHead;
use super::renewal::ChainRenewal;
use super::{ChainFacts, ChainOptions, StageChain};
use crate::fault::{FaultKind, StageFault};
use crate::identity::Identity;
use crate::library::SharedLibrary;
use crate::source::{PipelineDemand, PipelineSource};
use menagerie_model::{Cancellation, ModelError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pause after the first failed attempt, and the longest pause; each is twice as long as the one before it.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// The most attempts after one fault: stages that always die must not be started forever.
const ATTEMPTS: usize = 6;

/// How often a pause is interrupted to see whether the request was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl StageChain {
    /// Connects to the stages of a source as [`Self::connect`], and again after one of them was lost. All states are lost
    /// then; requests compute them again.
    ///
    /// # Errors
    /// As [`Self::connect`]; the source has no complete pipeline.
    pub fn over(
        mut source: Box<dyn PipelineSource>,
        facts: ChainFacts,
        identity: Identity,
        library: Arc<SharedLibrary>,
        options: ChainOptions,
    ) -> Result<Self, StageFault> {
        let links = source.connect(&PipelineDemand::first(Instant::now() + options.opening))?;
        let mut chain = Self::connect(facts, links.transport, links.names, &identity, library, options)?;
        chain.head().restores = true;
        chain.renewal = Some(ChainRenewal { source: Mutex::new(source), identity });
        Ok(chain)
    }

    /// Restores the links, if the fault of a step needs it. Returns whether lost states can be computed again.
    ///
    /// # Errors
    /// There is no other pipeline within [`ChainOptions::restoring`], or the wait for it was cancelled.
    pub(super) fn restored(&self, fault: &StageFault, cancelled: Cancellation) -> Result<bool, ModelError> {
        if !fault.is_of_links() || fault.kind == FaultKind::Refused {
            return Ok(false);
        }
        let mut head = self.head();
        let (lost, renewal) = match (head.lost_links(), &self.renewal) {
            (None, _) => return Ok(fault.kind != FaultKind::Timeout || self.renewal.is_some()),
            (Some(_), None) => return Ok(false),
            (Some(lost), Some(renewal)) => (lost, renewal),
        };
        if let Some(unrestored) = head.unrestored() {
            return Err(unrestored.into());
        }
        tracing::warn!(fault = %lost, "a stage was lost: its pipeline is restored");
        let (since, mut pause) = (Instant::now(), PAUSES[0]);
        let by = since + head.options().restoring;
        for attempt in 1.. {
            let Err(failed) = self.renew(&mut head, renewal, &PipelineDemand::after(&lost, by, cancelled))
            else {
                tracing::warn!(attempt, time = ?since.elapsed(), "the pipeline is restored; states are computed again");
                return Ok(true);
            };
            if cancelled.is_requested() {
                head.end(lost);
                return Err(ModelError::Cancelled);
            }
            tracing::warn!(attempt, %failed, "the pipeline was not restored");
            let is_last = attempt >= ATTEMPTS || Instant::now() + pause >= by;
            if is_last || failed.kind == FaultKind::Refused {
                let detail = format!(
                    "{}; its pipeline was not restored (attempts: {attempt}, in {:.1} s; the last one: {failed}); send the \
                     request again later",
                    lost.detail,
                    since.elapsed().as_secs_f64()
                );
                head.end(lost.clone());
                let unrestored = StageFault { detail, ..lost };
                head.note_unrestored(unrestored.clone());
                return Err(unrestored.into());
            }
            wait(pause, cancelled);
            pause = (pause * 2).min(PAUSES[1]);
        }
        Ok(false)
    }

    /// One attempt to get links to a pipeline with the chain's identity.
    fn renew(
        &self,
        head: &mut ChainHead,
        renewal: &ChainRenewal,
        demand: &PipelineDemand,
    ) -> Result<(), StageFault> {
        head.close_links();
        let links = renewal.source.lock().unwrap_or_else(PoisonError::into_inner).connect(demand)?;
        head.renew(links)?;
        let within = demand.by.saturating_duration_since(Instant::now());
        head.agree(&renewal.identity, self.facts.states.len(), within, demand.cancelled)
    }
}

/// Waits, unless it is cancelled.
fn wait(pause: Duration, cancelled: Cancellation) {
    let by = Instant::now() + pause;
    while Instant::now() < by && !cancelled.is_requested() {
        std::thread::sleep(POLL_INTERVAL.min(by.saturating_duration_since(Instant::now())));
    }
}
