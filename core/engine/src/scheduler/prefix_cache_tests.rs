//! Cached state is not used with other adapters or in another rope regime. Two checks ensure each of these: one in the
//! search for a prefix, one when a sequence starts. Each check is tested alone, with a sequence that has passed the
//! other.

use super::*;
use crate::engine::Engine;
use crate::scheduler::SchedulerOptions;
use crate::sequence::LogitRows;
use menagerie_model::KvType;
use menagerie_testkit::FakeModel;

/// Tokens up to which prompts are in the short regime.
const LIMIT: usize = 210;

/// A scheduler that keeps a sequence of 200 tokens, computed without adapters in the short regime.
fn keeping() -> Scheduler {
    let model = FakeModel::new(50, |history| (history.len() % 50) as u32).with_limit(LIMIT);
    let engine = Engine {
        model: Arc::new(model),
        compute: FakeModel::compute(),
        kv_type: KvType::F32,
        context: 512,
        learned_positions: None,
        chunk: 64,
        guard: None,
        adapters: None,
    };
    let room = SchedulerOptions::default()
        .with_sequences(2)
        .with_prefixes(2)
        .with_capacity_tokens(1024)
        .with_step_tokens(64);
    let mut scheduler = Scheduler::new(Arc::new(engine), Vec::new(), room).unwrap();
    let mut sequence = scheduler.create().unwrap();
    scheduler.begin(&mut sequence, &prompt(200), LogitRows::Last).unwrap();
    scheduler.feed(&mut sequence, None, &mut |_, _| Ok(())).unwrap();
    assert_eq!((sequence.computed, sequence.regime), (200, RopeRegime::Short));
    scheduler.retire(sequence).unwrap();
    scheduler
}

/// A prompt of `len` tokens; all these prompts have the same prefix.
fn prompt(len: usize) -> Vec<u32> {
    (0..len as u32).map(|at| at * 7 % 50).collect()
}

/// Adapters that are not those of the kept sequence, which has none.
fn others() -> AdapterChoice {
    let set = AdapterSet::new(Vec::new(), &*FakeModel::compute().backend).unwrap();
    AdapterChoice::Set(Arc::new(set))
}

/// The source of the prefix of a prompt with `len` tokens.
fn source(scheduler: &Scheduler, len: usize, adapters: &AdapterChoice) -> PrefixSource {
    let prompt = prompt(len);
    let request = Request::default().with_adapters(adapters.clone());
    scheduler.prefix_source(&scheduler.prefix_query(&prompt, &request), std::iter::empty()).unwrap()
}

/// A sequence with the cached state, without the check of the search.
fn taken(scheduler: &mut Scheduler) -> Sequence {
    let sequence = scheduler.create_from(PrefixSource::Cached(0, 200), std::iter::empty()).unwrap();
    assert_eq!(sequence.computed, 200);
    sequence
}

#[test]
fn kept_state_is_not_found_with_other_adapters() {
    let scheduler = keeping();
    assert_eq!(source(&scheduler, 205, &AdapterChoice::Bare), PrefixSource::Cached(0, 200));
    assert_eq!(source(&scheduler, 205, &others()), PrefixSource::Nothing);
}

#[test]
fn kept_state_is_forgotten_when_other_adapters_are_chosen() {
    let mut scheduler = keeping();
    let mut sequence = taken(&mut scheduler);
    scheduler.adapt(&mut sequence, &AdapterChoice::Bare).unwrap();
    assert_eq!(sequence.computed, 200, "the same adapters keep it");
    scheduler.adapt(&mut sequence, &others()).unwrap();
    assert_eq!((sequence.computed, sequence.tokens.len()), (0, 0));
    assert!(sequence.adapters.is_some());
}

#[test]
fn kept_state_is_not_found_in_another_rope_regime() {
    let scheduler = keeping();
    assert_eq!(source(&scheduler, LIMIT, &AdapterChoice::Bare), PrefixSource::Cached(0, 200));
    assert_eq!(source(&scheduler, LIMIT + 1, &AdapterChoice::Bare), PrefixSource::Nothing);
}

#[test]
fn kept_state_is_forgotten_when_a_prompt_begins_in_another_rope_regime() {
    let mut scheduler = keeping();
    let mut sequence = taken(&mut scheduler);
    scheduler.begin(&mut sequence, &prompt(LIMIT), LogitRows::Last).unwrap();
    assert_eq!(sequence.computed, 200, "the same regime keeps it");
    let mut sequence = taken(&mut scheduler);
    scheduler.begin(&mut sequence, &prompt(LIMIT + 1), LogitRows::Last).unwrap();
    assert_eq!((sequence.computed, sequence.regime), (0, RopeRegime::Long));
}
