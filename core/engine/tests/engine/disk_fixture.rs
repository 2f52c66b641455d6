//! Fake pipelines with a cache on disk.

use crate::byte_text::Bytes;
use crate::fixture::{engine, mixing};
use menagerie_engine::{
    AdapterIdentifier, AdapterIdentity, Cacheable, DiskCache, DiskCacheOptions, Engine, IdentityError,
    ModelFingerprint, Outcome, Request, Scheduler, Session, StateIdentity,
};
use menagerie_model::AdapterSet;
use menagerie_random::SplitMix64;
use menagerie_testkit::FakeModel;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONTEXT: usize = 256;
pub(crate) const BLOCK: usize = 8;
const PAGE: usize = 8;

/// A pipeline on a fake model, whose weights have a name.
pub(crate) struct Fake {
    pub(crate) model: Arc<FakeModel>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) weights: &'static str,
}

/// No adapter has a file.
struct NoAdapters;

impl AdapterIdentifier for NoAdapters {
    fn identities(&self, _: &AdapterSet) -> Result<Vec<AdapterIdentity>, IdentityError> {
        Err(IdentityError::Unnamed("adapter".to_owned()))
    }
}

impl Cacheable for Fake {
    fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn state_identity(&self) -> Result<StateIdentity, IdentityError> {
        let model = ModelFingerprint {
            architecture: "fake".to_owned(),
            config: "c".to_owned(),
            weights: self.weights.to_owned(),
            beside: None,
        };
        Ok(StateIdentity::new(&self.engine, model, "exact", Vec::new()))
    }

    fn adapter_identifier(&self) -> Arc<dyn AdapterIdentifier> {
        Arc::new(NoAdapters)
    }
}

impl Fake {
    pub(crate) fn new(model: FakeModel) -> Self {
        let model = Arc::new(model);
        Self { engine: engine(&model, CONTEXT, 16), model, weights: "w" }
    }

    pub(crate) fn plain() -> Self {
        Self::new(FakeModel::new(50, mixing))
    }

    pub(crate) fn cache(&self, folder: &Path) -> Arc<DiskCache> {
        self.cache_with(folder, DiskCacheOptions::default())
    }

    pub(crate) fn cache_with(&self, folder: &Path, options: DiskCacheOptions) -> Arc<DiskCache> {
        let options = options.with_block_tokens(BLOCK);
        Arc::new(DiskCache::open(folder, options, self, Vec::new()).unwrap())
    }

    pub(crate) fn scheduler(&self, cache: Option<Arc<DiskCache>>, capacity: usize) -> Scheduler {
        let room = self.engine.pool_options(6, capacity).with_page_len(PAGE);
        let scheduler = Scheduler::with_pool(Arc::clone(&self.engine), Vec::new(), room, 20).unwrap();
        scheduler.with_prefixes(3).with_disk_cache(cache).unwrap()
    }

    pub(crate) fn session(&self, cache: Option<Arc<DiskCache>>) -> Session {
        let room = self.engine.pool_options(1, 2 * CONTEXT).with_page_len(PAGE);
        let scheduler = Scheduler::with_pool(Arc::clone(&self.engine), Vec::new(), room, 20).unwrap();
        Session::new(scheduler.with_disk_cache(cache).unwrap(), Some(Arc::new(Bytes))).unwrap()
    }
}

/// What a model that sees the last `window` tokens says, from the script alone.
pub(crate) fn scripted(prompt: &[u32], tokens: usize, window: usize) -> Vec<u32> {
    let mut history = prompt.to_vec();
    for _ in 0..tokens {
        history.push(mixing(&history[history.len().saturating_sub(window)..]));
    }
    history.split_off(prompt.len())
}

/// The first tokens of the text of this number.
pub(crate) fn tokens(number: u64, count: usize) -> Vec<u32> {
    let mut random = SplitMix64::new(number);
    (0..count).map(|_| random.below(50) as u32).collect()
}

pub(crate) fn answer(session: &mut Session, prompt: &[u32]) -> Outcome {
    session.generate(prompt, &Request::greedy(5), |_| {}).unwrap()
}

/// The answer to a prompt of a new process.
pub(crate) fn anew(fake: &Fake, folder: &Path, prompt: &[u32]) -> (Outcome, Arc<DiskCache>) {
    let cache = fake.cache(folder);
    let outcome = answer(&mut fake.session(Some(Arc::clone(&cache))), prompt);
    assert_eq!(outcome.tokens, scripted(prompt, 5, usize::MAX));
    (outcome, cache)
}

/// Files of a cache, without its descriptions.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for group in
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|one| one.is_dir())
    {
        found.extend(std::fs::read_dir(group).unwrap().map(|entry| entry.unwrap().path()));
    }
    found.retain(|path| path.extension().is_some_and(|found| found != "json"));
    found.sort();
    found
}

pub(crate) fn group(folder: &Path) -> PathBuf {
    files(folder)[0].parent().unwrap().to_owned()
}
