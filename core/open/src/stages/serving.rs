//! [`serve_stage`]: a process as a stage.

use super::identity::identity;
use super::library::ProcessLibrary;
use super::names;
use crate::adapters::{GivenFiles, stage_of_xlora};
use crate::error::LoadError;
use crate::in_memory::InMemory;
use crate::mixture::{LoadedMixture, MixtureBase};
use crate::options::LoadOptions;
use crate::quantization::quantized;
use crate::recipe::applied;
use crate::resolved::{ResolvedFile, Wrappers};
use crate::stage_options::{StageOptions, StageStart};
use menagerie_assembly::{Assembly, open_model};
use menagerie_engine::HookTarget;
use menagerie_model::{AdapterSite, Compute, FeedForwardWrapper, ModelError, WeightGuard};
use menagerie_registry::Environment;
use menagerie_stages::{PipelineTransport, SocketTransport, StageName, StageWorker, WorkerParts};
use std::path::Path;
use std::sync::Arc;

/// Serves a stage of the model at `path` over standard input and output until the chain ends; `options` are those that the
/// chain's process opens the model with. Only the weights of its layers are read.
///
/// # Errors
/// The links are none. What is wrong with the model or the stage is told to the chain.
pub fn serve_stage(
    path: impl AsRef<Path>,
    environment: &Environment,
    options: &LoadOptions,
    start: &StageStart,
) -> Result<(), LoadError> {
    let path = path.as_ref();
    let file = path.display().to_string();
    let failed = |reason: String| LoadError::Stages { file: file.clone(), reason };
    let transport = SocketTransport::of_standard_streams().map_err(|error| failed(error.to_string()))?;
    match parts(path, environment, options, start) {
        Ok(parts) => {
            let parts = WorkerParts { cancelled: Some(transport.gone()), ..parts };
            if let Err(fault) = StageWorker::new(parts, Box::new(transport)).run() {
                // The chain says it, in the process that somebody looks at.
                tracing::debug!(%fault, "stage ended");
            }
            Ok(())
        }
        Err(error) => {
            refuse(transport, start, &error.to_string());
            Ok(())
        }
    }
}

/// Tells the chain over standard input and output why this process is no stage of it.
///
/// # Errors
/// The links are none.
pub fn refuse_stage(start: &StageStart, reason: &str) -> Result<(), LoadError> {
    let transport = SocketTransport::of_standard_streams().map_err(|error| LoadError::Stages {
        file: format!("stage {}", start.index),
        reason: format!("{reason} ({error})"),
    })?;
    refuse(transport, start, reason);
    Ok(())
}

fn refuse(transport: SocketTransport, start: &StageStart, reason: &str) {
    let layers = start.layers.get(start.index).cloned().unwrap_or_default();
    let (first, end) = (layers.start as u32, layers.end as u32);
    let stage = StageName { index: start.index as u16, first, end };
    let transport: Box<dyn PipelineTransport> = Box::new(transport);
    StageWorker::refuse(transport, stage, reason);
}

/// What the stage is made of.
fn parts(
    path: &Path,
    environment: &Environment,
    options: &LoadOptions,
    start: &StageStart,
) -> Result<WorkerParts, LoadError> {
    let (path, options) = applied(path, environment, options)?;
    let backend = options.device.backend(environment.entries(), options.threads, options.arithmetic)?;
    let compute = Compute::new(backend, options.arithmetic);
    let mut resolved =
        ResolvedFile::new(open_model(&path, environment.entries(), true)?, environment, options.keys())?;
    let plan = StageOptions::layers(start.layers.clone()).plan(&resolved)?;
    let file = resolved.file_name();
    let none =
        || LoadError::Stages { file: file.clone(), reason: format!("there is no stage {}", start.index) };
    let layers = plan.stages().get(start.index).ok_or_else(none)?.clone();
    // Only what the stage takes is quantized, or read into memory.
    quantized(&mut resolved, options.quantization.as_ref(), options.threads)?;
    if !options.mmap {
        resolved.tensors = Arc::new(InMemory(Arc::clone(&resolved.tensors)));
    }
    let base = MixtureBase { resolved: &resolved, environment, options: &options, compute: &compute };
    let mixture = options.mixture.as_ref();
    let mixture = mixture.map(|given| LoadedMixture::of_stage(given, base, &layers)).transpose()?;
    let feed_forwards = mixture.as_ref().map(|mixture| &mixture.layers as &dyn FeedForwardWrapper);
    let around = Wrappers { feed_forwards, ..Wrappers::default() };
    let place = (plan.position(start.index), layers);
    let (assembly, sites) = resolved.assemble_stage(&compute, place, start.declared(), around)?;
    let mut guards = vec![resolved.file.guard()];
    guards.extend(mixture.into_iter().flat_map(|mixture| mixture.guards));
    let guard: WeightGuard = Box::new(move || guards.iter().try_for_each(|guard| guard()));
    let guard = options.mmap.then_some(guard);
    if !options.mmap {
        // What was read is that of the file as it was opened.
        let changed = |error: ModelError| LoadError::Stages { file: file.clone(), reason: error.to_string() };
        resolved.file.guard()().map_err(changed)?;
    }
    let stage = Assembly::into_stage(assembly).ok_or_else(none)?;
    Ok(WorkerParts {
        library: Arc::new(library(&sites, &resolved, &compute, &options)?),
        identity: identity(&resolved, &options, &compute)?,
        stage,
        compute,
        names: names(&plan),
        index: start.index,
        credits: StageOptions::count(plan.stages().len()).chain().credits,
        cancelled: None,
        guard,
    })
}

/// The adapters that the model is opened with, fitted to the stage; and what copies of hooks are made for.
fn library(
    sites: &[AdapterSite],
    resolved: &ResolvedFile,
    compute: &Compute,
    options: &LoadOptions,
) -> Result<ProcessLibrary, LoadError> {
    let mut adapters = GivenFiles::read(&options.adapters)?.fit_stage(sites, resolved, compute)?;
    let mut scaling_layers = None;
    if let Some(folder) = options.xlora() {
        let (own, layers) = stage_of_xlora(folder, (resolved, sites), compute)?;
        adapters.extend(own);
        scaling_layers = Some(layers);
    }
    let (width, layers) = (resolved.config().embedding_length, resolved.config().layers.len());
    Ok(ProcessLibrary {
        adapters,
        scaling_layers,
        place: HookTarget {
            entries: resolved.environment.entries().clone(),
            compute: compute.clone(),
            width,
            layers,
        },
    })
}
