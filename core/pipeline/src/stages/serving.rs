//! [`serve_stage`]: a process as a stage.

use super::identity::identity;
use super::start::StageStart;
use super::{StageOptions, names};
use crate::adapters::GivenFiles;
use crate::device::DeviceOptions;
use crate::load_error::LoadError;
use crate::options::LoadOptions;
use crate::recipe::applied;
use crate::resolve::ResolvedFile;
use menagerie_assembly::{Assembly, open_model};
use menagerie_model::Compute;
use menagerie_registry::Registry;
use menagerie_stages::{
    NamedAdapters, PipelineTransport, SocketTransport, StageName, StageWorker, WorkerParts,
};
use std::path::Path;
use std::sync::Arc;

/// Serves a stage of the model at `path` over standard input and output until the chain ends; `options` are those that the
/// chain's process opens the model with. Only the weights of its layers are read.
///
/// # Errors
/// The links are none. What is wrong with the model or the stage is told to the chain.
pub fn serve_stage(
    path: &Path,
    registry: &Registry,
    options: &LoadOptions,
    start: &StageStart,
) -> Result<(), LoadError> {
    let file = path.display().to_string();
    let failed = |reason: String| LoadError::Stages { file: file.clone(), reason };
    let transport = SocketTransport::of_standard_streams().map_err(|error| failed(error.to_string()))?;
    match parts(path, registry, options, start) {
        Ok(parts) => {
            let parts = WorkerParts { cancelled: Some(transport.gone()), ..parts };
            if let Err(fault) = StageWorker::new(parts, Box::new(transport)).run() {
                // The chain says it, in the process that somebody looks at.
                tracing::debug!(%fault, "stage ended");
            }
            Ok(())
        }
        Err(error) => {
            let layers = start.layers.get(start.index).cloned().unwrap_or_default();
            let (first, end) = (layers.start as u32, layers.end as u32);
            let stage = StageName { index: start.index as u16, first, end };
            let transport: Box<dyn PipelineTransport> = Box::new(transport);
            StageWorker::refuse(transport, stage, &error.to_string());
            Ok(())
        }
    }
}

/// What the stage is made of.
fn parts(
    path: &Path,
    registry: &Registry,
    options: &LoadOptions,
    start: &StageStart,
) -> Result<WorkerParts, LoadError> {
    let (path, options) = applied(path, registry, options)?;
    let taken = DeviceOptions { threads: options.threads, half_prompts: options.half_prompts };
    let compute = Compute::new(options.device.backend(taken)?, options.arithmetic);
    let resolved = ResolvedFile::new(open_model(&path, true)?, registry, options.keys())?;
    let plan = StageOptions::layers(start.layers.clone()).plan(&resolved)?;
    let file = resolved.file_name();
    let none =
        || LoadError::Stages { file: file.clone(), reason: format!("there is no stage {}", start.index) };
    let layers = plan.stages().get(start.index).ok_or_else(none)?.clone();
    let (position, slots) = (plan.position(start.index), start.declared());
    let (assembly, sites) = resolved.assemble_stage(&compute, (position, layers), slots)?;
    let adapters = GivenFiles::read(&options.adapters)?.fit_stage(&sites, &resolved, &compute)?;
    Ok(WorkerParts {
        stage: Assembly::into_stage(assembly).ok_or_else(none)?,
        compute,
        identity: identity(&resolved, &options)?,
        adapters: Arc::new(NamedAdapters::new(adapters)),
        names: names(&plan),
        index: start.index,
        credits: StageOptions::count(plan.stages().len()).chain().credits,
        cancelled: None,
    })
}
