//! [`serve_stage`]: this process as a stage.

use super::parts::parts;
use crate::error::LoadError;
use crate::request::LoadRequest;
use crate::stage_options::StageStart;
use menagerie_engine::RecipeOrigin;
use menagerie_stages::{PipelineTransport, SocketTransport, StageName, StageWorker, WorkerParts};
use std::io;

/// Serves a stage of a model over standard input and output until the chain ends.
///
/// # Errors
/// Standard input and output are not the links of a chain. The chain gets every other error.
pub(crate) fn serve_stage(
    name: &str,
    request: impl FnOnce() -> Result<LoadRequest, LoadError>,
    start: &StageStart,
) -> Result<(), LoadError> {
    let failed = |reason: String| LoadError::Stages { file: name.to_owned(), reason };
    let transport = SocketTransport::of_standard_streams().map_err(|error| failed(error.to_string()))?;
    match request().and_then(|request| parts(&request, start, RecipeOrigin::SameMachine)) {
        Ok(parts) => {
            let parts = WorkerParts { cancelled: Some(transport.gone()), ..parts };
            if let Err(fault) = StageWorker::new(parts, Box::new(transport)).run() {
                // The process of the chain reports it to the user.
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

/// Reports to the chain why this process cannot serve a stage.
pub(crate) fn refuse_stage(start: &StageStart, reason: &str) -> io::Result<()> {
    refuse(SocketTransport::of_standard_streams()?, start, reason);
    Ok(())
}

fn refuse(transport: SocketTransport, start: &StageStart, reason: &str) {
    let layers = start.layers.get(start.index).cloned().unwrap_or_default();
    let (first, end) = (layers.start as u32, layers.end as u32);
    let stage = StageName { index: start.index as u16, first, end };
    let transport: Box<dyn PipelineTransport> = Box::new(transport);
    StageWorker::refuse(transport, stage, reason);
}
