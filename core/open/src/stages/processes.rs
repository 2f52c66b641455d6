//! [`chain_of_processes`]: stages as processes of this machine.

use super::identity::identity;
use super::whole::{facts_of, starts};
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::resolved::ResolvedFile;
use crate::stage_options::{StageLauncher, StageOptions, StageRestart, StageStart};
use menagerie_assembly::{Assembly, StagePlan};
use menagerie_model::Compute;
use menagerie_stages::{
    ChainFacts, ChainOptions, FaultKind, Identity, PipelineDemand, PipelineLinks, PipelineSource,
    SharedLibrary, SocketTransport, StageChain, StageFault, StageName, StageReach,
};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that processes have to end after their links are closed.
const ENDING: Duration = Duration::from_secs(2);

/// The processes of the stages of a chain. Those that do not end by themselves are killed.
#[derive(Default)]
struct Processes(Vec<Child>);

impl Processes {
    /// Ends them after their links were closed; kills those that have not ended after this time.
    fn end(&mut self, within: Duration) {
        let by = Instant::now() + within;
        for mut child in self.0.drain(..) {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < by {
                std::thread::sleep(Duration::from_millis(5));
            }
            if matches!(child.try_wait(), Ok(None)) {
                tracing::warn!(process = child.id(), "a stage did not end and is killed");
                // The process may have ended meanwhile.
                drop(child.kill());
            }
            drop(child.wait());
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end(ENDING);
    }
}

/// Starts the stages of a chain as processes of this machine, and again after one of them was lost.
struct ProcessSource {
    launcher: StageLauncher,
    /// For each stage, what its process needs to know, and its name.
    stages: Vec<(StageStart, StageName)>,
    processes: Processes,
}

impl ProcessSource {
    /// Starts all stages, linked by sockets.
    fn start(&mut self) -> Result<(SocketTransport, Vec<StageName>), StageFault> {
        let unlinked = |stage: StageName, error: std::io::Error| {
            fault(FaultKind::Closed, stage, format!("cannot be linked: {error}"))
        };
        let first = self.stages.first().map(|(_, name)| *name);
        let first = first.unwrap_or(StageName { index: 0, first: 0, end: 0 });
        let (own, mut before) = UnixStream::pair().map_err(|error| unlinked(first, error))?;
        for (start, name) in &self.stages {
            let (next, after) = UnixStream::pair().map_err(|error| unlinked(*name, error))?;
            let refused = |reason| fault(FaultKind::Refused, *name, format!("cannot be started: {reason}"));
            let mut command = (self.launcher.0)(start).map_err(refused)?;
            let command =
                command.stdin(Stdio::from(OwnedFd::from(before))).stdout(Stdio::from(OwnedFd::from(next)));
            // Ctrl-C goes to the process of the chain, which decides what the stages do.
            let child = command.process_group(0).spawn();
            let child =
                child.map_err(|error| fault(FaultKind::Closed, *name, format!("did not start: {error}")))?;
            self.processes.0.push(child);
            before = after;
        }
        let transport = SocketTransport::new(before, own).map_err(|error| unlinked(first, error))?;
        Ok((transport, self.stages.iter().map(|(_, name)| *name).collect()))
    }
}

fn fault(kind: FaultKind, stage: StageName, detail: String) -> StageFault {
    StageFault { kind, stage, request: 0, position: 0, rows: 0, detail }
}

impl PipelineSource for ProcessSource {
    fn connect(&mut self, _: &PipelineDemand) -> Result<PipelineLinks, StageFault> {
        // A stage that is stopped does not end by itself.
        self.processes.end(Duration::ZERO);
        let (transport, names) = self.start()?;
        Ok(PipelineLinks { transport: Box::new(transport), names })
    }
}

/// A chain whose stages are processes of this machine, linked by sockets. `whole` is the model over the mapped file, of
/// which only the facts are used; the process that has the chain touches none of its matrices.
///
/// # Errors
/// A process that does not start, or does not agree.
pub(crate) fn chain_of_processes(
    resolved: &ResolvedFile,
    whole: &Assembly,
    plan: &StagePlan,
    launcher: &StageLauncher,
    compute: &Compute,
    options: &LoadOptions,
) -> Result<StageChain, LoadError> {
    let file = resolved.file_name();
    let failed = |reason: String| LoadError::Stages { file: file.clone(), reason };
    let facts = facts_of(whole).ok_or_else(|| failed("an encoder cannot be split into stages".to_owned()))?;
    let stages = starts(plan, whole).into_iter().zip(super::names(plan)).collect();
    let source = ProcessSource { launcher: launcher.clone(), stages, processes: Processes::default() };
    let shared = Arc::new(SharedLibrary::new(StageReach::OtherProcess));
    let identity = identity(resolved, options, compute)?;
    let stages = options.placement.stages.as_ref();
    let overlap = stages.map(|stages| stages.overlap).unwrap_or_default();
    let overlap = overlap.of_processes(plan.stages().len(), options.placement.threads);
    let waits = stages.map(StageOptions::chain).unwrap_or_default().with_overlap(overlap);
    let loading = loading_time(resolved, options);
    let waits = waits.clone().with_opening(waits.opening + loading).with_restoring(waits.restoring + loading);
    let restart = stages.map_or(StageRestart::default(), |stages| stages.restart);
    let chain = match restart {
        StageRestart::WhenLost => StageChain::over(Box::new(source), facts, identity, shared, waits),
        StageRestart::Never => once(source, facts, &identity, shared, waits),
    };
    chain.map_err(|fault| failed(fault.to_string()))
}

/// A chain whose processes are started once.
fn once(
    mut source: ProcessSource,
    facts: ChainFacts,
    identity: &Identity,
    shared: Arc<SharedLibrary>,
    waits: ChainOptions,
) -> Result<StageChain, StageFault> {
    let (transport, names) = source.start()?;
    let chain = StageChain::connect(facts, Box::new(transport), names, identity, shared, waits)?;
    Ok(chain.with_hosts(Box::new(source)))
}

/// The time that stages may take to read or quantize their weights, in addition to opening a mapped file: one second for
/// each MiB of the whole model.
fn loading_time(resolved: &ResolvedFile, options: &LoadOptions) -> Duration {
    match super::takes_copies(options) {
        true => Duration::from_secs(resolved.file.bytes() >> 20),
        false => Duration::ZERO,
    }
}
