//! [`parts`]: the parts of a stage that this process serves.

use super::identity::identity;
use super::library::ProcessLibrary;
use super::names;
use crate::adapters::{AdapterFiles, stage_of_xlora};
use crate::error::LoadError;
use crate::in_memory::InMemory;
use crate::memory;
use crate::mixture::{LoadedMixture, MixtureBase};
use crate::options::{LoadOptions, PlacementOptions};
use crate::quantization::quantized;
use crate::request::LoadRequest;
use crate::resolved::ResolvedFile;
use crate::stage_options::{StageOptions, StageStart};
use menagerie_assembly::{AssembleOptions, Assembly, open_model};
use menagerie_engine::{HookTarget, RecipeOrigin};
use menagerie_model::{AdapterSite, Compute, FeedForwardWrapper, ModelError, WeightGuard};
use menagerie_stages::WorkerParts;
use std::sync::Arc;

/// The parts of a stage for a chain of this origin. Only the weights of its layers are read.
pub(crate) fn parts(
    request: &LoadRequest,
    start: &StageStart,
    origin: RecipeOrigin,
) -> Result<WorkerParts, LoadError> {
    let LoadRequest { path, environment, options, .. } = request;
    let PlacementOptions { device, threads, .. } = &options.placement;
    let arithmetic = options.weights.arithmetic;
    let backend = device.backend(environment.entries(), *threads, arithmetic)?;
    let compute = Compute::new(backend, arithmetic);
    let file = open_model(path, environment.entries(), true)?;
    let mut resolved = ResolvedFile::new(file, environment, options.keys.clone())?;
    let plan = StageOptions::layers(start.layers.clone()).plan(&resolved)?;
    let file = resolved.file_name();
    let none =
        || LoadError::Stages { file: file.clone(), reason: format!("there is no stage {}", start.index) };
    let layers = plan.stages().get(start.index).ok_or_else(none)?.clone();
    // Only the tensors of the stage are quantized, or read into memory.
    quantized(&mut resolved, request)?;
    if !options.weights.mmap {
        resolved.tensors = Arc::new(InMemory(Arc::clone(&resolved.tensors)));
    }
    let base = MixtureBase { resolved: &resolved, request, compute: &compute };
    let mixture = options.composition.mixture.as_ref();
    let mixture = mixture.map(|options| LoadedMixture::of_stage(options, base, &layers)).transpose()?;
    let mut how = AssembleOptions::whole(&compute, environment.components())
        .stage(plan.position(start.index), layers)
        .after(start.declared());
    how.feed_forwards = mixture.as_ref().map(|mixture| &mixture.layers as &dyn FeedForwardWrapper);
    let (assembly, sites) = resolved.assemble_adaptable(&how)?;
    let mut guards = vec![resolved.file.guard()];
    guards.extend(mixture.into_iter().flat_map(|mixture| mixture.guards));
    let guard: WeightGuard = Box::new(move || guards.iter().try_for_each(|guard| guard()));
    let guard = match options.weights.mmap {
        true => Some(guard),
        false => {
            // The weights are in memory, so only changes of the files before this check matter.
            let changed =
                |error: ModelError| LoadError::Stages { file: file.clone(), reason: error.to_string() };
            guard().map_err(changed)?;
            None
        }
    };
    let stage = Assembly::into_stage(assembly).ok_or_else(none)?;
    let state_memory = memory::free(options.context.memory_limit, &compute);
    Ok(WorkerParts {
        library: Arc::new(library(&sites, &resolved, &compute, (options, origin))?),
        identity: identity(&resolved, options, &compute)?,
        stage,
        compute,
        names: names(&plan),
        index: start.index,
        credits: StageOptions::count(plan.stages().len()).chain().credits,
        cancelled: None,
        guard,
        state_memory,
        meter: Arc::default(),
    })
}

/// The adapters of the model, fitted to the stage, and the place where copies of hooks act.
fn library(
    sites: &[AdapterSite],
    resolved: &ResolvedFile,
    compute: &Compute,
    (options, origin): (&LoadOptions, RecipeOrigin),
) -> Result<ProcessLibrary, LoadError> {
    let mut adapters =
        AdapterFiles::read(&options.composition.adapters)?.fit_stage(sites, resolved, compute)?;
    let mut scaling_layers = None;
    if let Some(folder) = options.composition.xlora() {
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
            origin,
        },
    })
}
