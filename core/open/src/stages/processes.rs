//! [`chain_of_processes`]: stages as processes of this machine.

use super::identity::identity;
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::resolved::ResolvedFile;
use crate::stage_options::{StageLauncher, StageOptions, StageStart};
use menagerie_assembly::{Assembly, StagePlan};
use menagerie_model::{Compute, Executor};
use menagerie_stages::{ChainFacts, SharedLibrary, SocketTransport, StageChain, StageReach};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time that processes have to end after their links are closed.
const ENDING: Duration = Duration::from_secs(2);

/// Processes that end with the chain that they serve. Those that do not end by themselves are killed.
struct Processes(Mutex<Vec<Child>>);

impl Drop for Processes {
    fn drop(&mut self) {
        let children = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let by = Instant::now() + ENDING;
        for child in children {
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

/// Slots that are declared before each stage of a plan.
fn starts(plan: &StagePlan, whole: &Assembly) -> Vec<StageStart> {
    let specs = whole.slots.specs();
    let start = |(index, layers): (usize, &std::ops::Range<usize>)| {
        let before = whole.slots_before.get(layers.start).copied().unwrap_or(0);
        let slots = specs.iter().take(before).map(|slot| (slot.name.clone(), slot.width)).collect();
        StageStart { index, layers: plan.stages().to_vec(), slots }
    };
    plan.stages().iter().enumerate().map(start).collect()
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
    let facts = whole.facts().ok_or_else(|| failed("an encoder cannot be split into stages".to_owned()))?;
    let pair = || UnixStream::pair().map_err(|error| failed(format!("no sockets: {error}")));
    let (own, mut before) = pair()?;
    let processes = Processes(Mutex::default());
    for start in starts(plan, whole) {
        let (next, after) = pair()?;
        let mut command = (launcher.0)(&start).map_err(failed)?;
        let command =
            command.stdin(Stdio::from(OwnedFd::from(before))).stdout(Stdio::from(OwnedFd::from(next)));
        // Ctrl-C goes to the process of the chain, which decides what the stages do.
        let child = command.process_group(0).spawn();
        let child = child.map_err(|error| failed(format!("stage {} did not start: {error}", start.index)))?;
        processes.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        before = after;
    }
    let transport = SocketTransport::new(before, own).map_err(|error| failed(error.to_string()))?;
    let shared = Arc::new(SharedLibrary::new(StageReach::OtherProcess));
    let identity = identity(resolved, options, compute)?;
    let waits = options.placement.stages.as_ref().map(StageOptions::chain).unwrap_or_default();
    let opening = waits.opening + loading_time(resolved, options);
    let waits = waits.with_opening(opening);
    let chain = StageChain::connect(facts, Box::new(transport), super::names(plan), &identity, shared, waits);
    Ok(chain.map_err(|fault| failed(fault.to_string()))?.with_hosts(Box::new(processes)))
}

/// The time that stages may take to read or quantize their weights, in addition to opening a mapped file: one second for
/// each MiB of the whole model.
fn loading_time(resolved: &ResolvedFile, options: &LoadOptions) -> Duration {
    match super::takes_copies(options) {
        true => Duration::from_secs(resolved.file.bytes() >> 20),
        false => Duration::ZERO,
    }
}

/// The facts of a model that a pipeline needs.
trait Facts {
    fn facts(&self) -> Option<ChainFacts>;
}

impl Facts for Assembly {
    fn facts(&self) -> Option<ChainFacts> {
        match &self.model {
            menagerie_assembly::AssembledModel::Whole(model) => {
                Some(ChainFacts::of_whole(model as &dyn Executor))
            }
            _ => None,
        }
    }
}
