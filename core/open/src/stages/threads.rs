//! [`chain_of_threads`]: stages as threads of this process.

use crate::error::LoadError;
use crate::stage_options::StageOptions;
use menagerie_assembly::Assembly;
use menagerie_model::{Compute, Stage};
use menagerie_stages::{
    ChainFacts, Identity, SharedLibrary, StageChain, StageName, StageReach, StageWorker, WorkerParts, ring,
};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Threads that end with the chain that they serve.
struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // The panic of a thread was reported when it happened.
            drop(thread.join());
        }
    }
}

/// A chain whose stages are threads of this process and share its thread pool.
///
/// # Errors
/// An encoder; a thread that does not start; stages that do not agree.
pub(crate) fn chain_of_threads(
    file: &str,
    assemblies: Vec<Assembly>,
    names: &[StageName],
    compute: &Compute,
    options: &StageOptions,
) -> Result<StageChain, LoadError> {
    let failed = |reason: String| LoadError::Stages { file: file.to_owned(), reason };
    let stages: Option<Vec<Stage>> = assemblies.into_iter().map(Assembly::into_stage).collect();
    let stages = stages.ok_or_else(|| failed("an encoder cannot be split into stages".to_owned()))?;
    let facts = ChainFacts::of(&stages)
        .ok_or_else(|| failed("the stages have no embedding or no head".to_owned()))?;
    let mut channels = ring(stages.len() + 1).into_iter();
    let end = channels.next().ok_or_else(|| failed("no stages".to_owned()))?;
    let shared = Arc::new(SharedLibrary::new(StageReach::SameProcess));
    let mut threads = Threads(Vec::with_capacity(stages.len()));
    for (index, (stage, channel)) in stages.into_iter().zip(channels).enumerate() {
        let parts = WorkerParts {
            stage,
            compute: compute.clone(),
            identity: Identity::default(),
            library: Arc::clone(&shared) as _,
            names: names.to_vec(),
            index,
            credits: options.chain().credits,
            cancelled: None,
            guard: None,
            state_memory: None,
            meter: Arc::default(),
        };
        let mut worker = StageWorker::new(parts, Box::new(channel));
        let thread = std::thread::Builder::new().name(format!("menagerie-stage-{index}"));
        let run = move || {
            if let Err(fault) = worker.run() {
                tracing::debug!(%fault, "stage ended");
            }
        };
        threads.0.push(
            thread.spawn(run).map_err(|error| failed(format!("stage {index} did not start: {error}")))?,
        );
    }
    let chain = StageChain::connect(
        facts,
        Box::new(end),
        names.to_vec(),
        &Identity::default(),
        shared,
        options.chain().with_overlap(options.overlap.of_threads()),
    );
    Ok(chain.map_err(|fault| failed(fault.to_string()))?.with_hosts(Box::new(threads)))
}
