//! A library of fake models.

use crate::endings::Panicking;
use crate::fake::{CONTEXT, model, pipeline, scheduler};
use menagerie_engine::{Hookable, Request};
use menagerie_server::{
    LibraryChange, LibraryError, LibraryModel, LoadMeter, ModelLibrary, ServedModel, TextService,
};
use menagerie_testkit::FakeModel;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Every model needs this memory.
pub const BYTES: u64 = 100;

#[derive(Default)]
pub struct Shelf {
    /// Names, each with what identifies its files.
    pub models: Mutex<BTreeMap<String, u64>>,
    /// While it is set, loads wait at 43 %.
    pub is_held: AtomicBool,
    /// The models that were opened.
    pub opened: Mutex<Vec<String>>,
    /// Why nothing can be opened.
    pub fault: Mutex<Option<String>>,
    /// What a reload says.
    pub change: Mutex<LibraryChange>,
    /// Whether its models panic at a prompt of 13 tokens.
    pub is_fragile: AtomicBool,
    /// The time of a step.
    pub step: Mutex<Duration>,
}

impl Shelf {
    pub fn of(names: &[&str]) -> Arc<Self> {
        let shelf = Self::default();
        *shelf.models.lock().unwrap() = names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        Arc::new(shelf)
    }

    pub fn slow(names: &[&str], millis: u64) -> Arc<Self> {
        let shelf = Self::of(names);
        *shelf.step.lock().unwrap() = Duration::from_millis(millis);
        shelf
    }

    pub fn opened(&self) -> Vec<String> {
        self.opened.lock().unwrap().clone()
    }

    pub fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    /// A model like those that it opens.
    pub fn model(&self, id: &str) -> ServedModel {
        let (fake, step) = (model(), *self.step.lock().unwrap());
        fake_steps(&fake, step);
        let mut text = pipeline(&fake, 16);
        if self.is_fragile.load(Ordering::SeqCst) {
            text.add_lifecycle(Arc::new(Panicking));
        }
        let service = TextService::new(Request::greedy(CONTEXT).with_max_tokens(None), scheduler(2));
        let model = ServedModel::new(id).with_text(Ok((text, service)));
        model.with_names([format!("{id}-alias")]).with_bytes(BYTES).with_stamp(self.stamp(id))
    }
}

fn fake_steps(fake: &FakeModel, step: Duration) {
    fake.during(Some(Box::new(move || {
        std::thread::sleep(step);
        Ok(())
    })));
}

impl ModelLibrary for Shelf {
    fn models(&self) -> Result<Vec<LibraryModel>, LibraryError> {
        let names = self.models.lock().unwrap();
        Ok(names
            .keys()
            .map(|name| LibraryModel::new(name).with_aliases(vec![format!("{name}-alias")]))
            .collect())
    }

    fn stamp(&self, id: &str) -> Option<u64> {
        self.models.lock().unwrap().get(id).copied()
    }

    fn bytes(&self, _: &str) -> u64 {
        1
    }

    fn open(&self, id: &str, meter: &LoadMeter) -> Result<ServedModel, LibraryError> {
        meter.report(43, 100);
        let start = Instant::now();
        while self.is_held.load(Ordering::SeqCst) && !meter.is_cancelled() {
            assert!(start.elapsed() < Duration::from_secs(20), "nobody lets the load go on");
            std::thread::sleep(Duration::from_millis(2));
        }
        self.opened.lock().unwrap().push(id.to_owned());
        match &*self.fault.lock().unwrap() {
            Some(reason) => Err(reason.clone().into()),
            None => Ok(self.model(id)),
        }
    }

    fn reload(&self) -> Result<LibraryChange, LibraryError> {
        match &*self.fault.lock().unwrap() {
            Some(reason) => Err(reason.clone().into()),
            None => Ok(self.change.lock().unwrap().clone()),
        }
    }
}
