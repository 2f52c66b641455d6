//! [`HubPuller`]: downloads models for clients of a server.

use crate::arguments::model_names::ModelNames;
use crate::arguments::specs::SpecArguments;
use menagerie::hub::{ModelReference, Progress};
use menagerie_server::{LibraryError, ModelPuller, PullMeter};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Downloads models into the store of this machine, with the names of the spec folders.
pub(super) struct HubPuller(SpecArguments);

impl HubPuller {
    pub(super) fn shared(specs: &SpecArguments) -> Arc<dyn ModelPuller> {
        Arc::new(Self(specs.clone()))
    }
}

impl ModelPuller for HubPuller {
    fn pull(&self, name: &str, meter: &PullMeter) -> Result<(), LibraryError> {
        meter.step("pulling manifest", None, 0);
        let hub = ModelNames::read(&self.0).map_err(|failure| failure.said())?.hub();
        let reference = hub.reference(name)?;
        // What a client names is never a path of this machine.
        if let ModelReference::Path(_) = reference {
            return Err(
                format!("{name} is a path; name a model of the hub: org/repo or org/repo:QUANT").into()
            );
        }
        hub.pull(&reference, &mut MeteredPull(meter))?;
        Ok(())
    }
}

/// Reports a download to clients.
struct MeteredPull<'a>(&'a PullMeter);

impl Progress for MeteredPull<'_> {
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64) {
        self.0.step(what, total, done);
    }

    fn advance(&mut self, bytes: u64) -> ControlFlow<()> {
        self.0.advance(bytes);
        match self.0.is_wanted() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn end(&mut self) {}

    fn note(&mut self, text: &str) {
        self.0.step(text, None, 0);
    }
}
