//! [`LoadedStage`]: a stage that this process has loaded, for chains in other processes.

use super::parts::parts;
use super::whole::{facts_of, starts};
use crate::device::Device;
use crate::error::LoadError;
use crate::request::LoadRequest;
use crate::resolved::ResolvedFile;
use crate::stage_options::{StageOptions, StageShare};
use menagerie_assembly::{AssembleOptions, StagePlan, open_model};
use menagerie_engine::RecipeOrigin;
use menagerie_model::Compute;
use menagerie_stages::{
    Identity, PipelineTransport, StageFault, StageMeter, StageName, StageWorker, WorkerParts,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A stage that this process has loaded. It serves chains in other processes, one after the other.
pub struct LoadedStage {
    /// Absent after a panic in a worker.
    parts: Option<WorkerParts>,
    file: String,
    layers: Range<usize>,
    all_layers: usize,
    weight_bytes: u64,
}

/// The place of a stage in a chain.
pub struct ChainPlace {
    /// The names of all stages, in order.
    pub names: Vec<StageName>,
    /// The index of the stage.
    pub index: usize,
    /// Most unacknowledged frames on a link.
    pub credits: usize,
    /// Set from outside to cancel what is being computed.
    pub cancelled: Arc<AtomicBool>,
}

/// Loads the layers of a share of a model.
pub(crate) fn load_stage(request: &LoadRequest, share: &StageShare) -> Result<LoadedStage, LoadError> {
    let LoadRequest { path, environment, options, .. } = request;
    let arithmetic = options.weights.arithmetic;
    // The whole model is assembled over the mapped file for what it says about the stages, always for the CPU: other
    // devices would copy the weights.
    let backend = Device::default().backend(environment.entries(), Some(1), arithmetic)?;
    let compute = Compute::new(backend, arithmetic);
    let file = open_model(path, environment.entries(), true)?;
    let resolved = ResolvedFile::new(file, environment, options.keys.clone())?;
    let (plan, index) = plan(&resolved, share)?;
    let whole = resolved.assemble(&AssembleOptions::whole(&compute, environment.components()))?;
    let failed = |reason: &str| LoadError::Stages { file: resolved.file_name(), reason: reason.to_owned() };
    if facts_of(&whole).is_none() {
        return Err(failed("an encoder cannot be split into stages"));
    }
    let start =
        starts(&plan, &whole).into_iter().nth(index).ok_or_else(|| failed("there is no such stage"))?;
    drop(whole);
    let layers = plan.stages().get(index).cloned().unwrap_or_default();
    let weight_bytes = plan.bytes(index, resolved.config(), &*resolved.tensors);
    let (file, all_layers) = (resolved.file_name(), resolved.config().layers.len());
    let parts = Some(parts(request, &start, RecipeOrigin::OtherMachine)?);
    Ok(LoadedStage { parts, file, layers, all_layers, weight_bytes })
}

/// The plan that a share belongs to, and the index of the share in it.
fn plan(resolved: &ResolvedFile, share: &StageShare) -> Result<(StagePlan, usize), LoadError> {
    match share {
        StageShare::Part { index, of } if index >= of => {
            let reason = format!("stage {index} of {of} stages does not exist: they are counted from 0");
            Err(LoadError::Stages { file: resolved.file_name(), reason })
        }
        StageShare::Part { index, of } => Ok((StageOptions::count(*of).plan(resolved)?, *index)),
        StageShare::Layers(own) => {
            // What other processes serve, as stages before and behind it.
            let all = resolved.config().layers.len();
            let others = [0..own.start, own.clone(), own.end..all.max(own.end)];
            let ranges = others.into_iter().filter(|range| !range.is_empty()).collect();
            Ok((StageOptions::layers(ranges).plan(resolved)?, usize::from(own.start > 0)))
        }
    }
}

impl LoadedStage {
    /// The file of the model.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its layers.
    pub fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    /// Layers of the whole model.
    pub fn all_layers(&self) -> usize {
        self.all_layers
    }

    /// Bytes of the weights of its layers in the file, with embedding and head if it has them.
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// Most bytes that the states of all requests may take, if there is a limit.
    pub fn state_memory(&self) -> Option<u64> {
        self.parts.as_ref().and_then(|parts| parts.state_memory)
    }

    /// What it must have in common with its chain.
    pub fn identity(&self) -> Identity {
        self.parts.as_ref().map(|parts| parts.identity.clone()).unwrap_or_default()
    }

    /// Counts what it computes.
    pub fn meter(&self) -> Arc<StageMeter> {
        self.parts.as_ref().map(|parts| Arc::clone(&parts.meter)).unwrap_or_default()
    }

    /// Serves a chain over these links until the chain ends.
    ///
    /// # Errors
    /// Why it ended before the chain did.
    pub fn serve(
        &mut self,
        place: ChainPlace,
        transport: Box<dyn PipelineTransport>,
    ) -> Result<(), LoadError> {
        let failed = |reason: String| LoadError::Stages { file: self.file.clone(), reason };
        let ChainPlace { names, index, credits, cancelled } = place;
        let parts =
            self.parts.take().ok_or_else(|| failed("the stage failed before; start it again".to_owned()))?;
        let parts = WorkerParts { names, index, credits, cancelled: Some(cancelled), ..parts };
        let mut worker = StageWorker::new(parts, transport);
        let ended: Result<(), StageFault> = worker.run();
        self.parts = Some(worker.into_parts());
        ended.map_err(|fault| failed(fault.to_string()))
    }
}
