//! [`ClusterSource`]: waits for the stages of a model and opens pipelines with them.

use super::search::StageSearch;
use super::{ClusterHead, OpenPipeline, OpeningFault, WantedModel};
use crate::description::{StageDescription, StageState};
use crate::error::ClusterError;
use menagerie_stages::{FaultKind, PipelineDemand, PipelineLinks, PipelineSource, StageFault, StageName};
use std::time::{Duration, Instant};

/// How long stages may take to answer what they are.
const ANSWERS: Duration = Duration::from_secs(1);

/// How long a head waits for a change before it asks again.
const AGAIN: Duration = Duration::from_millis(250);

/// How long a head waits before it says what it waits for: usually all is there within milliseconds.
const QUIET: Duration = Duration::from_secs(1);

/// How long a head waits for stages that are right beside stages that differ, and for stages that serve another head,
/// before it gives up: nodes find each other one after the other, and a stage takes a moment to leave a head that ended.
const SETTLING: Duration = Duration::from_secs(3);

/// Waits for the stages of a model and opens pipelines with them.
pub struct ClusterSource {
    head: ClusterHead,
    wanted: WantedModel,
}

/// The limits of a wait for stages.
struct StageWait<'a> {
    by: Instant,
    since: Instant,
    /// Whether an earlier pipeline was lost: then stages that cannot be used now may come back.
    is_renewal: bool,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl ClusterSource {
    pub(super) fn new(head: ClusterHead, wanted: WantedModel) -> Self {
        Self { head, wanted }
    }

    /// Waits until a pipeline is complete and opens it.
    ///
    /// # Errors
    /// Layers are missing until `by`; stages differ from the head; a stage serves another head; the network failed.
    pub fn open(&self, by: Instant) -> Result<OpenPipeline, ClusterError> {
        let wait = StageWait { by, since: Instant::now(), is_renewal: false, is_cancelled: &|| false };
        self.open_within(&wait)
    }

    fn open_within(&self, wait: &StageWait) -> Result<OpenPipeline, ClusterError> {
        let (membership, mut said) = (&self.head.0.membership, String::new());
        loop {
            let seen = membership.changes();
            let found = self.head.search(&self.wanted, self.head.node().describe(ANSWERS)?);
            let mut state = match found.ready.clone() {
                Some(stages) => match self.head.open(&self.wanted, stages) {
                    Ok(pipeline) => return Ok(pipeline),
                    Err(fault) => self.refusal(&fault)?,
                },
                None => self.waiting(&found),
            };
            if let Some(error) = self.verdict(&found, wait, &state) {
                return Err(error);
            }
            if state != said && wait.since.elapsed() >= QUIET {
                (self.head.0.progress)(&state);
                said = std::mem::take(&mut state);
            }
            membership.wait(seen, Instant::now() + AGAIN);
        }
    }

    /// What a refusal means: the text of a temporary one, or the error.
    fn refusal(&self, fault: &OpeningFault) -> Result<String, ClusterError> {
        let who = fault
            .stage
            .as_ref()
            .map_or_else(|| "the pipeline".to_owned(), |stage| format!("the stage with {stage}"));
        let text = format!("{who} does not accept this head: {}", fault.refused.reason);
        if fault.refused.is_temporary { Ok(text) } else { Err(ClusterError::Refused(self.about(&text))) }
    }

    fn about(&self, text: &str) -> String {
        format!("cluster {}: {text}", self.head.node().cluster())
    }

    /// What the head waits for, as text.
    fn waiting(&self, found: &StageSearch) -> String {
        match found.busy.first() {
            Some(stage) => format!("the stage with {stage} {}", doing(stage)),
            None => {
                let mut text = format!("waiting for {}", found.missing);
                for (stage, difference) in &found.different {
                    text += &format!("; the stage with {stage} cannot be used: {difference}");
                }
                text
            }
        }
    }

    /// The error if the wait ends.
    fn verdict(&self, found: &StageSearch, wait: &StageWait, state: &str) -> Option<ClusterError> {
        let now = Instant::now();
        let is_settled = now >= wait.since + SETTLING && !wait.is_renewal;
        if (wait.is_cancelled)() {
            return Some(ClusterError::Incomplete(self.about("the wait for stages was cancelled")));
        }
        if is_settled && found.ready.is_none() && found.busy.is_empty() && !found.different.is_empty() {
            for (stage, _) in &found.different {
                self.head.tell(&self.wanted, stage);
            }
            let text = |(stage, difference): &(StageDescription, String)| {
                format!("the stage with {stage}: {difference}")
            };
            let all: Vec<String> = found.different.iter().map(text).collect();
            return Some(ClusterError::Different(self.about(&format!(
                "{} {}; start head and stages with the same model file, options, plugins and program",
                all.join("; "),
                format_args!("({} missing)", found.missing)
            ))));
        }
        if is_settled && (!found.busy.is_empty() || found.ready.is_some()) {
            return Some(ClusterError::Refused(self.about(&format!(
                "{state}; wait until that head has ended, or start another replica (--replica)"
            ))));
        }
        (now >= wait.by).then(|| {
            let seconds = now.duration_since(wait.since).as_secs();
            let seen = self.head.node().describe(ANSWERS).map(|all| shown(&all)).unwrap_or_default();
            ClusterError::Incomplete(self.about(&format!(
                "{state} for {seconds} s; {seen}; start the missing stages with `menagerie stage` and check the addresses \
                 of --connect"
            )))
        })
    }
}

/// What a stage does that serves no further head.
fn doing(stage: &StageDescription) -> String {
    match &stage.state {
        StageState::Ready => "is ready".to_owned(),
        StageState::Serving(head) => format!("serves another head, {head}"),
        StageState::Draining => "is drained and accepts no further head".to_owned(),
    }
}

/// The stages of a cluster for a message.
fn shown(all: &[StageDescription]) -> String {
    let text = |stage: &StageDescription| format!("{} (model {})", stage, stage.model);
    match all {
        [] => "no node of this cluster serves a stage".to_owned(),
        all => format!("there are {}", all.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

impl PipelineSource for ClusterSource {
    fn connect(&mut self, demand: &PipelineDemand) -> Result<PipelineLinks, StageFault> {
        let by = match demand.lost {
            Some(_) => demand.by,
            None => demand.by.min(Instant::now() + self.head.0.options.wait),
        };
        let wait = StageWait {
            by,
            since: Instant::now(),
            is_renewal: demand.lost.is_some(),
            is_cancelled: &|| demand.cancelled.is_requested(),
        };
        let opened = self.open_within(&wait);
        let OpenPipeline { transport, names, .. } = opened.map_err(|error| {
            let kind = match error {
                ClusterError::Different(_) | ClusterError::Refused(_) if demand.lost.is_none() => {
                    FaultKind::Refused
                }
                _ => FaultKind::Closed,
            };
            let stage = demand.lost.map_or(StageName { index: 0, first: 0, end: 0 }, |lost| lost.stage);
            StageFault { kind, stage, request: 0, position: 0, rows: 0, detail: error.to_string() }
        })?;
        Ok(PipelineLinks { transport: Box::new(transport), names })
    }
}
