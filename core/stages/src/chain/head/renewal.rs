//! Other links for the chain's end, after those to a pipeline were lost.

use super::answers::AwaitedAnswers;
use super::{ChainHead, ChainOptions};
use crate::chain::progress::StageProgress;
use crate::fault::{FaultKind, StageFault};
use crate::link::{CHAIN, Link};
use crate::source::PipelineLinks;
use crate::transport::ring;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How long a failure to renew the links is also the answer for other steps, such as those that were in flight.
const AGAIN: Duration = Duration::from_millis(500);

impl ChainHead {
    /// The deadlines and credits of the chain.
    pub(in crate::chain) fn options(&self) -> &ChainOptions {
        &self.options
    }

    /// The fault for which the links must be replaced: a stage is gone, or has not answered.
    pub(in crate::chain) fn lost_links(&self) -> Option<StageFault> {
        self.dead.clone().or_else(|| self.late.clone())
    }

    /// Ends the links for good, until they are renewed: every later step fails with this fault.
    pub(in crate::chain) fn end(&mut self, fault: StageFault) {
        self.close_links();
        (self.dead, self.late) = (Some(fault), None);
    }

    /// Notes why the links were not renewed.
    pub(in crate::chain) fn note_unrestored(&mut self, fault: StageFault) {
        self.unrestored = Some((fault, Instant::now()));
    }

    /// Why the links were not renewed a moment ago.
    pub(in crate::chain) fn unrestored(&self) -> Option<StageFault> {
        let (fault, at) = self.unrestored.as_ref()?;
        (at.elapsed() < AGAIN).then(|| fault.clone())
    }

    /// Closes the links, so that the stages at their other ends stop.
    pub(in crate::chain) fn close_links(&mut self) {
        // A link whose other end does not exist.
        if let Some(closed) = ring(2).into_iter().next() {
            self.link = Link::new(Box::new(closed), [CHAIN, 0], self.options.credits);
        }
    }

    /// Uses other links, to stages that know no request, adapter or hook: all states are lost.
    ///
    /// # Errors
    /// The pipeline has no stages.
    pub(in crate::chain) fn renew(&mut self, links: PipelineLinks) -> Result<(), StageFault> {
        let PipelineLinks { transport, names } = links;
        if names.is_empty() {
            return Err(self.fault(FaultKind::Refused, 0, "a pipeline without stages was found"));
        }
        let lost = self.lost_links();
        for session in self.sessions.iter().filter_map(Weak::upgrade) {
            session.lose(lost.as_ref());
        }
        self.pending.forget(0);
        self.answers = AwaitedAnswers::default();
        self.announced.clear();
        self.progress = StageProgress::new(names.len());
        self.link = Link::new(transport, [CHAIN, 0], self.options.credits);
        self.names = names;
        (self.dead, self.late, self.unrestored) = (None, None, None);
        Ok(())
    }
}
